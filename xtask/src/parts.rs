//! The parts of the full test run, in order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use crate::process::{cargo, show};
use crate::tally::Tally;
use crate::test_output::Failures;
use crate::{guard, instructions, licences, scenarios, second_try};

/// One part: its name and what it does.
struct Part {
    name: &'static str,
    run: fn(&Path) -> anyhow::Result<Tally>,
}

const PARTS: [Part; 15] = [
    Part { name: "format", run: |root| one(root, cargo_with(&["fmt", "--all", "--check"], &[])) },
    Part { name: "clippy", run: |root| one(root, clippy()) },
    Part { name: "dependencies", run: licences::check },
    Part { name: "guard library", run: guard::prepare },
    Part { name: "tests", run: tests },
    Part { name: "tests with servers, nodes", run: tests_with_others },
    Part { name: "properties, other seeds", run: other_properties },
    Part { name: "doc tests", run: doc_tests },
    Part { name: "docs", run: |root| one(root, docs()) },
    Part { name: "examples", run: scenarios::examples },
    Part { name: "own scenarios as KAI", run: scenarios::own_as_kai },
    Part { name: "own scenarios", run: scenarios::own_by_default },
    Part { name: "recorded scenarios as KAI", run: scenarios::recorded_as_kai },
    Part { name: "recorded scenarios", run: scenarios::recorded_by_default },
    Part { name: "instruction counts", run: instructions::gate },
];

/// Without API servers, kubelets and optimised builds.
const QUICK_PARTS: [Part; 4] = [
    Part { name: "format", run: |root| one(root, cargo_with(&["fmt", "--all", "--check"], &[])) },
    Part { name: "clippy", run: |root| one(root, clippy()) },
    Part { name: "tests without servers", run: quick_tests },
    Part { name: "doc tests", run: doc_tests },
];

/// Random worlds come from this seed unless the environment names another: what fails once fails again.
pub(crate) const SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";
const SEED: &str = "42";
const OTHER_SEEDS: [&str; 2] = ["43", "101"];

/// Runs every part, whatever the others do. True when all went well.
pub(crate) fn run_all() -> anyhow::Result<bool> {
    run_parts(&PARTS)
}

/// Runs the parts that need no server.
pub(crate) fn run_quick() -> anyhow::Result<bool> {
    run_parts(&QUICK_PARTS)
}

/// Runs KAI's end-to-end list on the control plane of another minor version of Kubernetes. Apart from the other runs: the
/// first time, API server and controllers are built, which takes minutes.
pub(crate) fn run_on_kubernetes(minor: &str) -> anyhow::Result<bool> {
    let list = [
        "test",
        "--locked",
        "-p",
        "kai",
        "--test",
        "e2e",
        "--",
        "--exact",
        "kais_end_to_end_cases",
    ];
    let started = Instant::now();
    let tally = counted(&workspace_root()?, cargo_with(&list, &[("KAI_TEST_KUBERNETES", minor)]))?;
    println!("\nKubernetes {minor}: {:.1} s   {tally}", started.elapsed().as_secs_f64());
    Ok(tally.failed == 0)
}

fn run_parts(parts: &[Part]) -> anyhow::Result<bool> {
    let root = workspace_root()?;
    let mut total = Tally::default();
    let mut lines = Vec::new();
    for part in parts {
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

pub(crate) fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
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

/// Tests that run at once in a target that starts processes of others.
const THREADS_WITH_OTHERS: &str = "4";
const TEST: [&str; 4] = ["test", "--locked", "--workspace", "--no-fail-fast"];

fn seed() -> String {
    let seed = std::env::var(SEED_VARIABLE).unwrap_or_else(|_| SEED.to_owned());
    println!("random worlds from {SEED_VARIABLE}={seed}");
    seed
}

/// Tests of targets that start no processes of others.
fn tests(root: &Path) -> anyhow::Result<Tally> {
    test_targets(root, &["--lib", "--bins", "--examples"])
}

/// Tests of targets that start no processes of others, without those of examples.
fn quick_tests(root: &Path) -> anyhow::Result<Tally> {
    test_targets(root, &["--lib", "--bins"])
}

fn test_targets(root: &Path, kinds: &[&str]) -> anyhow::Result<Tally> {
    let seed = seed();
    let mut arguments = [TEST.as_slice(), kinds].concat();
    let names = integration_tests(root)?;
    for name in &names {
        arguments.extend(["--test", name]);
    }
    counted(root, cargo_with(&arguments, &[(SEED_VARIABLE, &seed)]))
}

/// Tests of targets that start processes of others. They mostly wait for these processes, so more of them run at once than there
/// are cores.
fn tests_with_others(root: &Path) -> anyhow::Result<Tally> {
    let seed = seed();
    let variables = [(SEED_VARIABLE, seed.as_str()), ("RUST_TEST_THREADS", THREADS_WITH_OTHERS)];
    let mut arguments = TEST.to_vec();
    for target in second_try::WITH_OTHER_PROCESSES {
        arguments.extend(&target[2..]);
    }
    let mut failures = Failures::default();
    let mut first = Tally::default();
    let ended_well = show(cargo_with(&arguments, &variables), root, |line| {
        first.read_test_line(line);
        failures.read_line(line);
    })?;
    let log_notices = second_try::keep_logs(&failures, root, &seed)?;
    let tally = second_try::of(&failures, first.or_failed(ended_well), |name, tests| {
        let mut arguments = [TEST.as_slice(), &["--test", name, "--", "--exact"]].concat();
        arguments.extend(tests.iter().map(String::as_str));
        counted(root, cargo_with(&arguments, &variables))
    })?;
    for notice in log_notices {
        println!("{notice}");
    }
    Ok(tally)
}

/// Names of integration tests that start no processes of others.
fn integration_tests(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let arguments = ["metadata", "--locked", "--no-deps", "--format-version", "1"];
    let output = cargo_with(&arguments, &[]).current_dir(root).output()?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let targets = metadata.packages.into_iter().flat_map(|package| package.targets);
    let tests = targets.filter(|target| target.kind.iter().any(|kind| kind == "test"));
    let with_others = second_try::WITH_OTHER_PROCESSES.map(|target| target[3]);
    Ok(tests.map(|target| target.name).filter(|name| !with_others.contains(&&**name)).collect())
}

/// What cargo says of the workspace.
#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(serde::Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// The properties over more worlds. The same ones in every run: a world that breaks a rule since long must not stop a
/// change that has nothing to do with it. `cargo xtask soak` looks for such worlds, with seeds that no run had before.
fn other_properties(root: &Path) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for seed in OTHER_SEEDS {
        println!("random worlds from {SEED_VARIABLE}={seed}");
        let arguments = [TEST.as_slice(), &["--test", "properties"]].concat();
        tally += counted(root, cargo_with(&arguments, &[(SEED_VARIABLE, seed)]))?;
    }
    Ok(tally)
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
