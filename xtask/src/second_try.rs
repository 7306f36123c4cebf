//! Tests that drive other processes (API servers, kubelets, container runtimes) depend on how those processes are scheduled. Each of
//! them that fails is run once more, alone, and the summary names it. All other tests must pass at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::tally::Tally;
use crate::test_output::{FailedTest, Failures};

/// An integration test that starts processes which are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    package: &'static str,
    pub(crate) test: &'static str,
}

const fn target(package: &'static str, test: &'static str) -> Target {
    Target { package, test }
}

pub(crate) const WITH_API_SERVERS: [Target; 4] = [
    target("kai", "cluster"),
    target("kai", "e2e"),
    target("kai-embed", "conformance"),
    target("kai-testenv", "control_plane"),
];
pub(crate) const WITH_NODES: [Target; 2] =
    [target("kai", "quick_start"), target("kai", "realnode")];

pub(crate) fn with_other_processes() -> impl Iterator<Item = Target> {
    WITH_API_SERVERS.into_iter().chain(WITH_NODES)
}

/// Name of the integration test of a target that starts other processes; `cargo test` takes targets as `-p kai --test cluster`.
fn name_of(target: &str) -> Option<&'static str> {
    let is_named = |known: &Target| target == format!("-p {} --test {}", known.package, known.test);
    with_other_processes().find(is_named).map(|known| known.test)
}

/// What to run once more: integration tests by name, each with its failed tests; all of its tests where it did not say which
/// failed. None where something failed that must not.
fn repeated(failures: &Failures) -> Option<BTreeMap<&'static str, Vec<String>>> {
    let mut names = BTreeMap::new();
    for target in failures.targets() {
        names.insert(name_of(target)?, Vec::new());
    }
    for FailedTest { target, test } in failures.tests().into_iter().flatten() {
        names.entry(name_of(&target)?).or_default().push(test);
    }
    Some(names)
}

/// Runs what failed once more, unless something failed that must not. `first` is what the first run counted; `run` takes the
/// name of an integration test and those of its tests.
pub(crate) fn of(
    failures: &Failures,
    first: Tally,
    run: impl Fn(&str, &[String]) -> anyhow::Result<Tally>,
) -> anyhow::Result<Tally> {
    let Some(names) = repeated(failures).filter(|names| !names.is_empty()) else {
        return Ok(first);
    };
    let mut again = Tally::default();
    for (name, tests) in &names {
        println!("\n== second try: {name} {} ==", tests.join(" "));
        again += run(name, tests)?;
    }
    if again.failed > 0 {
        return Ok(first);
    }
    let (passed, second_tries) = (first.passed + first.failed, first.failed);
    Ok(Tally { passed, failed: 0, second_tries, ..first })
}

/// Keeps what failed tests printed the first time, and says where.
pub(crate) fn keep_logs(
    failures: &Failures,
    root: &Path,
    seed: &str,
) -> anyhow::Result<Vec<String>> {
    let folder = root.join("target/failed-tests");
    let mut lines = Vec::new();
    for FailedTest { target, test } in failures.tests().into_iter().flatten() {
        std::fs::create_dir_all(&folder)?;
        let file = log_file(&folder, &test);
        std::fs::write(&file, failures.log(&test).unwrap_or_default())?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        lines.push(format!("failed at first: {target} {test} (seed {seed}), its output: {shown}"));
    }
    Ok(lines)
}

fn log_file(folder: &Path, test: &str) -> PathBuf {
    folder.join(format!("{}.log", test.replace("::", ".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Tally = Tally {
        passed: 7,
        failed: 2,
        skipped: 1,
        second_tries: 0,
        found_worlds: 0,
        notices: Vec::new(),
    };

    /// Failures of tests in targets.
    fn failed(tests: &[(&str, &str)]) -> Failures {
        let mut failures = Failures::default();
        for (target, test) in tests {
            failures.read_line("failures:");
            failures.read_line(&format!("    {test}"));
            failures.read_line("test result: FAILED. 0 passed; 1 failed");
            failures.read_line(&format!("error: test failed, to rerun pass `{target}`"));
        }
        failures
    }

    #[test]
    fn only_the_failed_tests_are_run_again() {
        let failures = failed(&[("-p kai --test e2e", "a"), ("-p kai --test cluster", "b::c")]);
        let run = |name: &str, tests: &[String]| {
            assert!(matches!((name, tests[0].as_str()), ("e2e", "a") | ("cluster", "b::c")));
            Ok(Tally::of_one(true))
        };
        let tally = of(&failures, FIRST, run).expect("a tally");
        assert_eq!(tally, Tally { passed: 9, failed: 0, second_tries: 2, ..FIRST });
        assert!(tally.to_string().contains("2 TESTS PASSED ONLY AT THE SECOND TRY"));
    }

    #[test]
    fn what_fails_again_has_failed() {
        let badly = |_: &str, _: &[String]| Ok(Tally::of_one(false));
        let failures = failed(&[("-p kai --test e2e", "a")]);
        assert_eq!(of(&failures, FIRST, badly).expect("a tally"), FIRST);
    }

    #[test]
    fn nothing_else_is_run_again() {
        let core = ("-p kai-core --lib", "a");
        for tests in [&[core][..], &[("-p kai --test e2e", "a"), core], &[]] {
            let never = |_: &str, _: &[String]| panic!("run again");
            assert_eq!(of(&failed(tests), FIRST, never).expect("a tally"), FIRST);
        }
    }
}
