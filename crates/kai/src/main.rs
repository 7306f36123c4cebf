//! The binary: arguments, wiring, output.

mod admission_flags;
mod agent;
mod arguments;
mod bench;
mod binder_flags;
mod bundle;
mod controller_flags;
mod demo;
mod doctor;
mod duration_flag;
mod embedded;
mod explain;
mod gpus;
mod grouper_flags;
mod guard;
mod guard_flags;
mod log;
mod manifests;
mod metrics_flags;
mod output;
mod run;
mod scaling_flags;
mod scenario;
mod scheduler_flags;
mod shell;
mod simulate;
mod text_layout;
mod threads;
mod trust_flags;
mod up;
mod version;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Verb};

/// Exit status of an error that is neither a failed expectation nor a success.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let ended = match Arguments::parse().verb {
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Simulate(arguments) => simulate::run(&arguments),
        Verb::Up(arguments) => up::run(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Gpus(arguments) => gpus::run(&arguments),
        Verb::Agent(arguments) => agent::run(&arguments),
        Verb::Guard(arguments) => guard::run(&arguments),
        Verb::Manifests(arguments) => manifests::run(&arguments),
        Verb::Scenario(arguments) => scenario::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Bundle(arguments) => bundle::run(&arguments),
        Verb::Completions(arguments) => shell::completions(&arguments),
        Verb::Man(arguments) => shell::man(&arguments),
        Verb::Version => version::run(),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::complain(&format!("kai: {error:#}\n"));
            ExitCode::from(BAD_INPUT)
        }
    }
}
