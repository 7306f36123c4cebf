//! Repeats suites with fresh seeds and reports how often each test failed. The suites run at once, as in `cargo xtask test`: a test
//! with real processes meets the load that it meets there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::lanes::Priority;
use crate::parts::cargo_with;
use crate::process::read_lines;
use crate::second_try::{WITH_API_SERVERS, WITH_NODES};
use crate::test_output::Failures;
use crate::test_runs::SEED_VARIABLE;

/// Integration tests in virtual time or over random worlds.
const VIRTUAL: [&str; 2] = ["it", "properties"];
/// One run with real processes for so many in virtual time.
const VIRTUAL_PER_REAL: u32 = 4;

/// Integration tests that are repeated together.
struct Suite {
    name: &'static str,
    tests: Vec<&'static str>,
    runs: u32,
    priority: Priority,
}

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

/// Runs the suite in virtual time `runs` times and those with real processes a quarter as often. True when nothing failed.
pub(crate) fn run(root: &Path, runs: u32) -> anyhow::Result<bool> {
    let folder = root.join("target/soak");
    fs::create_dir_all(&folder).context("cannot create the folder of the suites' output")?;
    println!("output of the runs: {}", folder.display());
    let first_seed = fresh_seed();
    let suites = suites(runs);
    let rates: Vec<anyhow::Result<Rates>> = thread::scope(|scope| {
        let started: Vec<_> = suites
            .iter()
            .map(|suite| scope.spawn(|| repeat(root, &folder, suite, first_seed)))
            .collect();
        let ended = started.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|rates| rates.unwrap_or_else(|_| bail!("a suite panicked"))).collect()
    });
    println!();
    let mut has_failures = false;
    for (suite, rates) in suites.iter().zip(rates) {
        let rates = rates?;
        has_failures |= !rates.failed.is_empty();
        rates.lines(suite.name).iter().for_each(|line| println!("{line}"));
    }
    Ok(!has_failures)
}

fn suites(runs: u32) -> [Suite; 3] {
    let real_runs = runs.div_ceil(VIRTUAL_PER_REAL);
    [
        Suite {
            name: "virtual time",
            tests: VIRTUAL.to_vec(),
            runs,
            // A test with a deadline must not wait behind one that only computes.
            priority: Priority::Low,
        },
        Suite {
            name: "API servers",
            tests: WITH_API_SERVERS.map(|target| target.test).to_vec(),
            runs: real_runs,
            priority: Priority::Usual,
        },
        Suite {
            name: "nodes",
            tests: WITH_NODES.map(|target| target.test).to_vec(),
            runs: real_runs,
            priority: Priority::Usual,
        },
    ]
}

/// Runs a suite as often as it wants; a line is printed for every run, so that a soak that is interrupted has said something.
fn repeat(root: &Path, folder: &Path, suite: &Suite, first_seed: u64) -> anyhow::Result<Rates> {
    let mut rates = Rates::default();
    for number in 1..=suite.runs {
        let seed = first_seed + u64::from(number);
        let log = folder.join(format!("{}-{number}.log", suite.name.replace(' ', "-")));
        let begin = Instant::now();
        let failures = once(root, suite, seed, &log)?;
        rates.add(&failures, seed);
        println!(
            "{}: run {number} of {}, {SEED_VARIABLE}={seed}, {:.0} s, {} targets failed",
            suite.name,
            suite.runs,
            begin.elapsed().as_secs_f64(),
            failures.targets().len(),
        );
    }
    Ok(rates)
}

fn once(root: &Path, suite: &Suite, seed: u64, log: &Path) -> anyhow::Result<Failures> {
    let mut output = File::create(log).context("cannot create the file of a run's output")?;
    let mut failures = Failures::default();
    let has_passed = read_lines(test_command(suite, seed), root, |line| {
        failures.read_line(line);
        // The rates do not depend on the file.
        let _ = writeln!(output, "{line}");
    })?;
    if !has_passed && failures.targets().is_empty() {
        bail!("{}: cargo ended before it ran a test, see {}", suite.name, log.display());
    }
    Ok(failures)
}

fn test_command(suite: &Suite, seed: u64) -> Command {
    let mut arguments = vec!["test", "--locked", "--workspace", "--no-fail-fast"];
    for name in &suite.tests {
        arguments.extend(["--test", name]);
    }
    suite.priority.of(cargo_with(&arguments, &[(SEED_VARIABLE, &seed.to_string())]))
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
