//! Chores of the project: `cargo xtask test` runs every test there is.

#![expect(clippy::print_stdout, reason = "a chore tells the person who started it how it goes")]

mod deviations;
mod parts;
mod process;
mod scenarios;
mod tally;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask test

Runs every check and test of the project and prints the time of each part.
Environment: KAI_SHARED names the folder of shared material, ../shared by default.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["test"] {
        println!("{USAGE}");
        return ExitCode::from(2);
    }
    match parts::run_all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
