//! The parts of the full test run, in order.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use crate::process::{cargo, show};
use crate::tally::Tally;
use crate::{instructions, scenarios, second_try};

/// One part: its name and what it does.
struct Part {
    name: &'static str,
    run: fn(&Path) -> anyhow::Result<Tally>,
}

const PARTS: [Part; 11] = [
    Part { name: "format", run: |root| one(root, cargo_with(&["fmt", "--all", "--check"], &[])) },
    Part { name: "clippy", run: |root| one(root, clippy()) },
    Part { name: "tests", run: tests },
    Part { name: "doc tests", run: doc_tests },
    Part { name: "docs", run: |root| one(root, docs()) },
    Part { name: "examples", run: scenarios::examples },
    Part { name: "own scenarios as KAI", run: scenarios::own_as_kai },
    Part { name: "own scenarios", run: scenarios::own_by_default },
    Part { name: "recorded scenarios as KAI", run: scenarios::recorded_as_kai },
    Part { name: "recorded scenarios", run: scenarios::recorded_by_default },
    Part { name: "instruction counts", run: instructions::gate },
];

/// Random worlds come from this seed unless the environment names another: what fails once fails again.
const SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";
const SEED: &str = "42";

/// Runs every part, whatever the others do. True when all went well.
pub(crate) fn run_all() -> anyhow::Result<bool> {
    let root = workspace_root()?;
    let mut total = Tally::default();
    let mut lines = Vec::new();
    for part in &PARTS {
        println!("\n== {} ==", part.name);
        let started = Instant::now();
        let tally = (part.run)(&root).unwrap_or_else(|error| {
            println!("{error:#}");
            Tally::of_one(false)
        });
        let seconds = started.elapsed().as_secs_f64();
        lines.push(format!("{:<28}{seconds:>8.1} s   {tally}", part.name));
        total += tally;
    }
    println!("\n{}\n{total}", lines.join("\n"));
    Ok(total.failed == 0)
}

pub(crate) fn workspace_root() -> anyhow::Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = manifest.as_deref().and_then(Path::parent);
    root.map(Path::to_path_buf).context("run this with `cargo xtask`")
}

fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = cargo();
    command.args(arguments).envs(variables.iter().copied());
    command
}

/// A command that is one check.
fn one(root: &Path, command: Command) -> anyhow::Result<Tally> {
    show(command, root, |_| {}).map(Tally::of_one)
}

fn clippy() -> Command {
    cargo_with(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
}

fn docs() -> Command {
    cargo_with(&["doc", "--locked", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}

fn tests(root: &Path) -> anyhow::Result<Tally> {
    let targets = ["--lib", "--bins", "--tests", "--examples"];
    let base = ["test", "--locked", "--workspace", "--no-fail-fast"];
    let seed = std::env::var(SEED_VARIABLE).unwrap_or_else(|_| SEED.to_owned());
    println!("random worlds from {SEED_VARIABLE}={seed}");
    let command = cargo_with(&[base.as_slice(), &targets].concat(), &[(SEED_VARIABLE, &seed)]);
    let mut failed = second_try::FailedTargets::default();
    let mut first = Tally::default();
    let ended_well = show(command, root, |line| {
        first.read_test_line(line);
        failed.read_line(line);
    })?;
    let first = first.or_failed(ended_well);
    second_try::of(&failed, first, |target| {
        let again = [["test", "--locked"].as_slice(), target].concat();
        counted(root, cargo_with(&again, &[(SEED_VARIABLE, &seed)]))
    })
}

fn doc_tests(root: &Path) -> anyhow::Result<Tally> {
    counted(root, cargo_with(&["test", "--locked", "--workspace", "--no-fail-fast", "--doc"], &[]))
}

/// A test run, counted test by test.
fn counted(root: &Path, command: Command) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let ended_well = show(command, root, |line| tally.read_test_line(line))?;
    Ok(tally.or_failed(ended_well))
}
