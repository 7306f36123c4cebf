//! Many scenarios at once: find the files, run them on several workers, keep the order.

mod discover;
mod filter;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub use discover::{Discovery, ScenarioFile, discover};
pub use filter::{Filter, IdPattern};
pub use workers::{Progress, Settings, run_files};

use crate::run::{CycleStates, Explanation};

/// Something wrong with a file, or with what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The file, as it was found.
    pub file: PathBuf,
    /// Path inside the document; empty when the file as a whole is meant.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
}

/// How one scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All expectations were met.
    Passed,
    /// The scenario has none, and the run ended without error.
    WithoutExpectations,
    /// The first expectation that did not hold, or why the run broke off.
    Failed(String),
}

/// One scenario that was run.
#[derive(Clone, Debug)]
pub struct ScenarioResult {
    /// Id of the scenario: what it says, or its path.
    pub id: String,
    /// Whether it passed, and why not.
    pub verdict: Verdict,
    /// The states of each cycle in which actions ran.
    pub cycles: Vec<CycleStates>,
    /// By job, why it waited in the last cycle in which it did.
    pub explanations: BTreeMap<String, Explanation>,
    /// The jobs it began with.
    pub jobs: BTreeSet<String>,
}

impl ScenarioResult {
    /// The part of the id that scenarios of one suite share.
    pub fn suite(&self) -> &str {
        self.id.rsplit_once('/').map_or(".", |(suite, _)| suite)
    }
}

/// Everything that came of a set of files, in the order of the files.
#[derive(Clone, Debug, Default)]
pub struct SuiteResult {
    /// Scenarios that were run.
    pub scenarios: Vec<ScenarioResult>,
    /// Files that could not be run.
    pub errors: Vec<InputError>,
    /// Files in folders that are no scenarios.
    pub skipped_files: usize,
    /// Scenarios the filter left out.
    pub filtered_out: usize,
}

impl SuiteResult {
    /// How many scenarios passed.
    pub fn passed(&self) -> usize {
        self.count(|verdict| *verdict == Verdict::Passed)
    }

    /// How many scenarios failed.
    pub fn failed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    /// How many scenarios ran that expect nothing.
    pub fn without_expectations(&self) -> usize {
        self.count(|verdict| *verdict == Verdict::WithoutExpectations)
    }

    fn count(&self, counts: impl Fn(&Verdict) -> bool) -> usize {
        self.scenarios.iter().filter(|scenario| counts(&scenario.verdict)).count()
    }

    /// 0 when all is well, 1 when an expectation failed, 2 on bad input.
    pub fn exit_code(&self) -> u8 {
        match (self.errors.is_empty(), self.failed()) {
            (false, _) => 2,
            (true, 0) => 0,
            (true, _) => 1,
        }
    }
}

#[cfg(test)]
mod tests;
