//! `kai agent …`: what has to be done on a node.

mod numa;
mod reserve;

use clap::{Args, Subcommand};

/// Arguments of `kai agent`.
#[derive(Args)]
pub(crate) struct AgentArguments {
    #[command(subcommand)]
    verb: AgentVerb,
}

#[derive(Subcommand)]
enum AgentVerb {
    /// Find the GPU of this reservation pod, record it on the pod, and hold it.
    Reserve(reserve::ReserveArguments),
    /// Record on each pod of this node which NUMA zones it uses.
    Numa(numa::NumaArguments),
    /// Do nothing and exit: a scaling pod only has to be scheduled.
    Scale,
}

/// Does it; the exit status.
pub(crate) fn run(arguments: &AgentArguments) -> anyhow::Result<u8> {
    match &arguments.verb {
        AgentVerb::Reserve(arguments) => reserve::run(arguments),
        AgentVerb::Numa(arguments) => numa::run(arguments),
        AgentVerb::Scale => Ok(0),
    }
}
