//! Chores of the project: `cargo xtask test` runs every test there is.

#![expect(
    clippy::print_stdout,
    reason = "a chore reports its progress to the person who started it"
)]

mod deviations;
mod guard;
mod image;
mod instructions;
mod lanes;
mod licences;
mod parts;
mod process;
mod reference;
mod scenarios;
mod second_try;
mod soak;
mod tally;
mod test_output;
mod test_runs;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask test [--quick | --part NAME | --kubernetes MINOR]
       cargo xtask soak [N]
       cargo xtask ceilings
       cargo xtask reference
       cargo xtask image [--platform amd64,arm64] [--profile dist] [--name NAME:TAG] [--output FOLDER]
       cargo xtask image-check [ARCHIVE]
       cargo xtask guard

test      runs every check and test of the project and prints the time of each part;
          --quick skips the parts that need API servers, kubelets or an optimised build;
          --part runs one part of that table alone, such as 'own scenarios';
          --kubernetes runs KAI's end-to-end list on the control plane of another version, such as 1.34
soak      repeats the suites N times (20) with fresh seeds and prints how often each test failed
ceilings  counts instructions and rewrites benches/instruction-ceilings.toml
reference rewrites docs/reference.md from the names in kai-api
image     writes the container image, its bill of materials and its licences to target/image
image-check  runs the programs of the image with a stub of NVML, other platforms under qemu
guard     builds libkai_guard.so for x86_64 and aarch64 against glibc 2.17 into out/guard

Environment: KAI_SHARED names the folder of shared material, ../shared by default;
PROPTEST_RNG_SEED the seed of random worlds, 42 by default.";

/// Runs of `soak` without an argument.
const SOAK_RUNS: u32 = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match arguments[..] {
        ["test"] => parts::run_all(),
        ["test", "--quick"] => parts::run_quick(),
        ["test", "--part", name] => parts::run_one(name),
        ["test", "--kubernetes", minor] => parts::run_on_kubernetes(minor),
        ["soak"] => parts::workspace_root().and_then(|root| soak::run(&root, SOAK_RUNS)),
        ["soak", runs] if runs.parse::<u32>().is_ok() => parts::workspace_root()
            .and_then(|root| soak::run(&root, runs.parse().unwrap_or(SOAK_RUNS))),
        ["ceilings"] => {
            parts::workspace_root().and_then(|root| instructions::rewrite(&root)).map(|()| true)
        }
        ["reference"] => {
            parts::workspace_root().and_then(|root| reference::rewrite(&root)).map(|()| true)
        }
        ["image", ref flags @ ..] => {
            parts::workspace_root().and_then(|root| image::run(&root, flags))
        }
        ["image-check", ref rest @ ..] => {
            parts::workspace_root().and_then(|root| image::check::run(&root, rest))
        }
        ["guard"] => parts::workspace_root().and_then(|root| guard::build(&root)).map(|()| true),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
