//! How many checks passed, failed and were skipped.

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Counts of passed, failed and skipped checks.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
pub(crate) struct Tally {
    /// May be negative while the results of tests that were skipped are still to come.
    pub(crate) passed: i64,
    pub(crate) failed: i64,
    pub(crate) skipped: i64,
    /// Tests that passed only when they were run again.
    pub(crate) second_tries: i64,
    /// Properties that a world from a fresh seed broke.
    pub(crate) found_worlds: i64,
    /// What the reader of the summary has to know beside the counts.
    pub(crate) notices: Vec<String>,
}

impl Tally {
    /// One check that passed or failed.
    pub(crate) fn of_one(passed: bool) -> Self {
        Self { passed: passed.into(), failed: (!passed).into(), ..Self::default() }
    }

    /// A run that ended badly and counted no failure could not be run at all: that is one.
    pub(crate) fn or_failed(mut self, ended_well: bool) -> Self {
        if !ended_well && self.failed == 0 {
            self.failed = 1;
        }
        self
    }

    /// Adds what a line of a test run says. A test that reports on stderr that it was skipped ends well
    /// all the same, so it must not count as passed.
    pub(crate) fn read_test_line(&mut self, line: &str) {
        if line.starts_with("SKIPPED") {
            self.skipped += 1;
            self.passed -= 1;
        }
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for part in counts.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(count), Some(kind)) = (words.next(), words.next()) else { continue };
            let Ok(count) = count.parse::<i64>() else { continue };
            match kind {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.skipped += count,
                _ => {}
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.second_tries += other.second_tries;
        self.found_worlds += other.found_worlds;
        self.notices.extend(other.notices);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped, second_tries, found_worlds, .. } = self;
        write!(formatter, "{passed} passed, {failed} failed, {skipped} skipped")?;
        if *second_tries > 0 {
            write!(formatter, ", {second_tries} TESTS PASSED ONLY AT THE SECOND TRY")?;
        }
        if *found_worlds > 0 {
            write!(formatter, ", {found_worlds} PROPERTIES FAILED WITH A FRESH SEED")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_test_runs_add_up() {
        let mut tally = Tally::default();
        for line in [
            "SKIPPED vectors: not found",
            "running 3 tests",
            "test result: ok. 30 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.0s",
        ] {
            tally.read_test_line(line);
        }
        assert_eq!(tally, Tally { passed: 33, failed: 2, skipped: 2, ..Tally::default() });
    }
}
