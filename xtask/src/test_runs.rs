//! Runs of `cargo test`: which targets, from which seeds, and how their failures count.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::parts::cargo_with;
use crate::process::show;
use crate::second_try::{self, Target};
use crate::soak;
use crate::tally::Tally;
use crate::test_output::Failures;

/// Random worlds come from this seed unless the environment names another: what fails once fails again.
pub(crate) const SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";
const SEED: &str = "42";
const OTHER_SEEDS: [&str; 2] = ["43", "101"];

/// The package whose integration tests start the program.
const PROGRAM: &str = "kai";
const TEST: [&str; 4] = ["test", "--locked", "--workspace", "--no-fail-fast"];
/// Tests that run at once in a target that starts processes of others. They mostly wait for these processes, so more of them run
/// at once than there are cores.
const THREADS_WITH_OTHERS: &str = "4";

fn seed() -> String {
    let seed = std::env::var(SEED_VARIABLE).unwrap_or_else(|_| SEED.to_owned());
    println!("random worlds from {SEED_VARIABLE}={seed}");
    seed
}

/// Builds all test programs.
pub(crate) fn build() -> Command {
    cargo_with(&[TEST.as_slice(), &["--all-targets", "--no-run"]].concat(), &[])
}

/// Tests that start no processes: of libraries, rules and virtual time.
pub(crate) fn of_libraries(root: &Path) -> anyhow::Result<Tally> {
    let names = integration_tests(root, |package| package != PROGRAM)?;
    test_targets(root, &["--lib", "--bins", "--examples"], &names)
}

/// Tests that start the program alone. They wait for it with deadlines.
pub(crate) fn of_program(root: &Path) -> anyhow::Result<Tally> {
    let names = integration_tests(root, |package| package == PROGRAM)?;
    test_targets(root, &[], &names)
}

/// All tests that start no processes of others, without those of examples.
pub(crate) fn quick(root: &Path) -> anyhow::Result<Tally> {
    test_targets(root, &["--lib", "--bins"], &integration_tests(root, |_| true)?)
}

fn test_targets(root: &Path, kinds: &[&str], names: &BTreeSet<String>) -> anyhow::Result<Tally> {
    let seed = seed();
    let mut arguments = [TEST.as_slice(), kinds].concat();
    for name in names {
        arguments.extend(["--test", name]);
    }
    counted(root, cargo_with(&arguments, &[(SEED_VARIABLE, &seed)]))
}

/// Tests that start API servers.
pub(crate) fn with_api_servers(root: &Path) -> anyhow::Result<Tally> {
    with_others(root, &second_try::WITH_API_SERVERS)
}

/// Tests that start kubelets and container runtimes beside API servers.
pub(crate) fn with_nodes(root: &Path) -> anyhow::Result<Tally> {
    with_others(root, &second_try::WITH_NODES)
}

/// Tests of targets that start processes of others. A test that fails is run once more.
fn with_others(root: &Path, targets: &[Target]) -> anyhow::Result<Tally> {
    let seed = seed();
    let variables = [(SEED_VARIABLE, seed.as_str()), ("RUST_TEST_THREADS", THREADS_WITH_OTHERS)];
    let mut arguments = TEST.to_vec();
    for target in targets {
        arguments.extend(["--test", target.test]);
    }
    let mut failures = Failures::default();
    let mut first = Tally::default();
    let ended_well = show(cargo_with(&arguments, &variables), root, |line| {
        first.read_test_line(line);
        failures.read_line(line);
    })?;
    let notices = second_try::keep_logs(&failures, root, &seed)?;
    let tally = second_try::of(&failures, first.or_failed(ended_well), |name, tests| {
        let mut arguments = [TEST.as_slice(), &["--test", name, "--", "--exact"]].concat();
        arguments.extend(tests.iter().map(String::as_str));
        counted(root, cargo_with(&arguments, &variables))
    })?;
    Ok(Tally { notices, ..tally })
}

/// Names of integration tests of some packages that start no processes of others.
fn integration_tests(
    root: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<BTreeSet<String>> {
    let arguments = ["metadata", "--locked", "--no-deps", "--format-version", "1"];
    let output = cargo_with(&arguments, &[]).current_dir(root).output()?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata.packages.into_iter().filter(|package| is_wanted(&package.name));
    let targets = packages.flat_map(|package| package.targets);
    let tests = targets.filter(|target| target.kind.iter().any(|kind| kind == "test"));
    let with_others: Vec<&str> =
        second_try::with_other_processes().map(|target| target.test).collect();
    Ok(tests.map(|target| target.name).filter(|name| !with_others.contains(&&**name)).collect())
}

/// What cargo says of the workspace.
#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
    targets: Vec<BuildTarget>,
}

#[derive(serde::Deserialize)]
struct BuildTarget {
    name: String,
    kind: Vec<String>,
}

fn properties(seed: &str) -> Command {
    println!("random worlds from {SEED_VARIABLE}={seed}");
    cargo_with(&[TEST.as_slice(), &["--test", "properties"]].concat(), &[(SEED_VARIABLE, seed)])
}

/// The properties over more worlds, the same ones in every run.
pub(crate) fn other_seeds(root: &Path) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for seed in OTHER_SEEDS {
        tally += counted(root, properties(seed))?;
    }
    Ok(tally)
}

/// The properties over worlds that no run had before.
///
/// Such a run is a search. A world that has always broken a property must not stop a change that has nothing to do with it, and must
/// not be overlooked: the summary names it with the command that repeats it. `cargo xtask soak` fails when it finds one.
pub(crate) fn fresh_seed(root: &Path) -> anyhow::Result<Tally> {
    let seed = soak::fresh_seed().to_string();
    let (mut tally, mut failures) = (Tally::default(), Failures::default());
    let ended_well = show(properties(&seed), root, |line| {
        tally.read_test_line(line);
        failures.read_line(line);
    })?;
    Ok(found_worlds(tally.or_failed(ended_well), &failures, &seed))
}

/// Counts failed properties as found worlds. A run that failed without naming a test has failed.
fn found_worlds(tally: Tally, failures: &Failures, seed: &str) -> Tally {
    let found = failures.tests().unwrap_or_default();
    if found.is_empty() {
        return tally;
    }
    let command = |target: &str, test: &str| {
        format!(
            "FOUND A WORLD that breaks a property: {SEED_VARIABLE}={seed} cargo test {target} -- --exact {test}"
        )
    };
    let notices = found.iter().map(|failed| command(&failed.target, &failed.test)).collect();
    Tally { failed: 0, found_worlds: tally.failed, notices, ..tally }
}

pub(crate) fn doc_tests(root: &Path) -> anyhow::Result<Tally> {
    counted(root, cargo_with(&[TEST.as_slice(), &["--doc"]].concat(), &[]))
}

/// KAI's end-to-end list on the control plane of another minor version of Kubernetes.
pub(crate) fn list_on_kubernetes(root: &Path, minor: &str) -> anyhow::Result<Tally> {
    let list = ["test", "--locked", "-p", "kai", "--test", "e2e", "--", "--exact"];
    let list = [list.as_slice(), &["kais_end_to_end_cases"]].concat();
    counted(root, cargo_with(&list, &[("KAI_TEST_KUBERNETES", minor)]))
}

/// A test run, counted test by test.
fn counted(root: &Path, command: Command) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let ended_well = show(command, root, |line| tally.read_test_line(line))?;
    Ok(tally.or_failed(ended_well))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Tally = Tally {
        passed: 33,
        failed: 1,
        skipped: 0,
        second_tries: 0,
        found_worlds: 0,
        notices: Vec::new(),
    };

    #[test]
    fn world_of_a_fresh_seed_is_named_and_fails_no_run() {
        let mut failures = Failures::default();
        for line in [
            "failures:",
            "    reclaim::a",
            "test result: FAILED. 33 passed",
            "error: test failed, to rerun pass `-p kai-core --test properties`",
        ] {
            failures.read_line(line);
        }
        let tally = found_worlds(FAILED, &failures, "7");
        assert_eq!((tally.failed, tally.found_worlds), (0, 1));
        let command =
            "PROPTEST_RNG_SEED=7 cargo test -p kai-core --test properties -- --exact reclaim::a";
        assert!(tally.notices[0].ends_with(command), "{:?}", tally.notices);
    }

    #[test]
    fn properties_that_do_not_build_have_failed() {
        assert_eq!(found_worlds(FAILED, &Failures::default(), "7"), FAILED);
    }
}
