//! Reads the output of `cargo test` line by line: which tests of which targets failed, and what each of them printed.

use std::collections::BTreeMap;

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FailedTest {
    /// As `cargo test` takes it: `-p kai --test cluster`.
    pub(crate) target: String,
    /// The name of the test within its target.
    pub(crate) test: String,
}

/// The failures of a run.
///
/// Results come on one stream, in the order of the targets, and the names of failed targets on another: the two are brought
/// together by their order.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    targets: Vec<String>,
    /// The failed tests of each target that has any.
    tests: Vec<Vec<String>>,
    /// What failed tests printed.
    logs: BTreeMap<String, String>,
    reading: Reading,
}

/// Where in the output of a target the reader is.
#[derive(Debug, Default)]
enum Reading {
    #[default]
    Results,
    /// What one failed test printed.
    Log(String),
    /// The names of all failed tests of a target.
    Names(Vec<String>),
}

impl Failures {
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(target) = failed_target(line) {
            self.targets.push(target.to_owned());
            return;
        }
        if let Some(test) = log_heading(line) {
            self.reading = Reading::Log(test.to_owned());
        } else if line == "failures:" {
            self.reading = Reading::Names(Vec::new());
        } else if line.starts_with("test result: ")
            && let Reading::Names(tests) = std::mem::take(&mut self.reading)
        {
            self.tests.push(tests);
        }
        match &mut self.reading {
            Reading::Results => {}
            Reading::Log(test) => {
                let log = self.logs.entry(test.clone()).or_default();
                log.push_str(line);
                log.push('\n');
            }
            Reading::Names(tests) => {
                tests.extend(line.strip_prefix("    ").map(str::to_owned));
            }
        }
    }

    /// Test targets that failed as a whole.
    pub(crate) fn targets(&self) -> &[String] {
        &self.targets
    }

    /// Tests that failed; none where a target ended without saying which.
    pub(crate) fn tests(&self) -> Option<Vec<FailedTest>> {
        if self.targets.len() != self.tests.len() {
            return None;
        }
        let pairs = self.targets.iter().zip(&self.tests);
        let named = pairs.flat_map(|(target, tests)| {
            tests.iter().map(|test| FailedTest { target: target.clone(), test: test.clone() })
        });
        Some(named.collect())
    }

    /// What a failed test printed.
    pub(crate) fn log(&self, test: &str) -> Option<&str> {
        self.logs.get(test).map(String::as_str)
    }
}

fn failed_target(line: &str) -> Option<&str> {
    line.strip_prefix("error: test failed, to rerun pass `")?.strip_suffix('`')
}

fn log_heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const OUTPUT: &str = "\
running 2 tests
test a::works ... ok
test a::fails ... FAILED

failures:

---- a::fails stdout ----
thread panicked
why

failures:
    a::fails

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
error: test failed, to rerun pass `-p kai --test cluster`
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
error: 1 target failed:
    `-p kai --test cluster`
";

    #[test]
    fn failed_tests_have_their_target_and_what_they_printed() {
        let mut failures = Failures::default();
        OUTPUT.lines().for_each(|line| failures.read_line(line));
        let (target, test) = ("-p kai --test cluster".to_owned(), "a::fails".to_owned());
        assert_eq!(failures.tests(), Some(vec![FailedTest { target, test }]));
        assert!(failures.log("a::fails").is_some_and(|log| log.contains("why")));
    }

    #[test]
    fn target_that_crashed_names_no_test() {
        let mut failures = Failures::default();
        failures.read_line("running 2 tests");
        failures.read_line("error: test failed, to rerun pass `-p kai --test cluster`");
        assert_eq!(failures.targets(), ["-p kai --test cluster"]);
        assert_eq!(failures.tests(), None);
    }
}
