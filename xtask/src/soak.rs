//! Repeats suites with fresh seeds and reports how often each test failed.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use crate::parts::cargo_with;
use crate::process::show;
use crate::second_try::with_other_processes;
use crate::test_output::Failures;
use crate::test_runs::SEED_VARIABLE;

/// Integration tests in virtual time or over random worlds.
const VIRTUAL: [&str; 2] = ["it", "properties"];
/// One run with real processes for so many in virtual time.
const VIRTUAL_PER_REAL: u32 = 4;

/// How often tests failed.
#[derive(Debug, Default)]
struct Rates {
    runs: u32,
    /// Failures by target and test, with the seeds.
    failed: BTreeMap<String, Vec<u64>>,
}

impl Rates {
    fn add(&mut self, failures: &Failures, seed: u64) {
        self.runs += 1;
        match failures.tests() {
            Some(tests) => {
                for failed in tests {
                    let name = format!("{} {}", failed.target, failed.test);
                    self.failed.entry(name).or_default().push(seed);
                }
            }
            None => {
                for target in failures.targets() {
                    self.failed.entry(format!("{target} (ended early)")).or_default().push(seed);
                }
            }
        }
    }

    fn lines(&self, suite: &str) -> Vec<String> {
        let mut lines =
            vec![format!("{suite}: {} runs, {} tests failed", self.runs, self.failed.len())];
        for (test, seeds) in &self.failed {
            lines.push(format!("  {} of {}  {test}  seeds {seeds:?}", seeds.len(), self.runs));
        }
        lines
    }
}

/// A seed from the system's source of randomness, short enough to be typed.
pub(crate) fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000_000
}

/// Runs the virtual suites `runs` times and the real ones a quarter as often. True when nothing failed.
pub(crate) fn run(root: &Path, runs: u32) -> anyhow::Result<bool> {
    let first_seed = fresh_seed();
    let (mut imagined, mut real) = (Rates::default(), Rates::default());
    let real_names: Vec<&str> = with_other_processes().map(|target| target.test).collect();
    for number in 0..runs {
        let seed = first_seed + u64::from(number);
        println!("\n== soak: run {} of {runs}, {SEED_VARIABLE}={seed} ==", number + 1);
        imagined.add(&once(root, &VIRTUAL, seed)?, seed);
        if number % VIRTUAL_PER_REAL == 0 {
            real.add(&once(root, &real_names, seed)?, seed);
        }
    }
    println!();
    for line in imagined.lines("virtual time").into_iter().chain(real.lines("real processes")) {
        println!("{line}");
    }
    Ok(imagined.failed.is_empty() && real.failed.is_empty())
}

fn once(root: &Path, names: &[&str], seed: u64) -> anyhow::Result<Failures> {
    let mut arguments = vec!["test", "--locked", "--workspace", "--no-fail-fast"];
    for name in names {
        arguments.extend(["--test", name]);
    }
    let mut failures = Failures::default();
    let command = cargo_with(&arguments, &[(SEED_VARIABLE, &seed.to_string())]);
    show(command, root, |line| failures.read_line(line))?;
    Ok(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_name_test_count_and_seeds() {
        let mut failures = Failures::default();
        for line in [
            "failures:",
            "    a::b",
            "test result: FAILED. 0 passed",
            "error: test failed, to rerun pass `-p kai-control --test it`",
        ] {
            failures.read_line(line);
        }
        let mut rates = Rates::default();
        rates.add(&failures, 7);
        rates.add(&Failures::default(), 8);
        let lines = rates.lines("virtual time");
        assert_eq!(lines[0], "virtual time: 2 runs, 1 tests failed");
        assert_eq!(lines[1], "  1 of 2  -p kai-control --test it a::b  seeds [7]");
    }
}
