//! `kai scenario …`

mod run;

use clap::{Args, Subcommand};

/// What to do with scenarios.
#[derive(Args)]
pub(crate) struct ScenarioArguments {
    #[command(subcommand)]
    verb: ScenarioVerb,
}

#[derive(Subcommand)]
enum ScenarioVerb {
    /// Run scenarios and compare the decisions with the expected ones.
    Run(run::RunArguments),
}

/// Does it; the exit status.
pub(crate) fn run(arguments: &ScenarioArguments) -> anyhow::Result<u8> {
    match &arguments.verb {
        ScenarioVerb::Run(arguments) => run::run(arguments),
    }
}
