//! How searches for victims went, for metrics and the log. There is no clock here: effort is counted in the units of budgets.

use crate::config::ActionKind;

/// A search for victims, for one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchReport {
    /// The action that searched.
    pub action: ActionKind,
    /// Whether victims were found, or why the search ended without.
    pub result: SearchResult,
    /// Less was left of the action's budget than a job may use.
    pub reduced_budget: bool,
    /// It ended because nothing was left of the action's budget.
    pub action_budget_spent: bool,
    /// What each generator did, in the order they ran.
    pub runs: Vec<GeneratorRun>,
}

/// How a search ended, under KAI's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SearchResult {
    /// A set of victims was found and accepted.
    Solved,
    /// Its budget was spent first.
    DeadlineExhausted,
    /// No generator found a set of victims.
    GeneratorsExhausted,
    /// There is no generator.
    NoGenerator,
    /// Nothing was left of the budget for it.
    NotAttempted,
}

impl SearchResult {
    /// Name that KAI gives the result.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::DeadlineExhausted => "deadline_exhausted",
            Self::GeneratorsExhausted => "generators_exhausted",
            Self::NoGenerator => "no_generator",
            Self::NotAttempted => "not_attempted",
        }
    }
}

/// What one generator did in a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneratorRun {
    /// KAI's name of the generator.
    pub generator: &'static str,
    /// Whether victims were found, or why the run ended without.
    pub result: RunResult,
    /// Numbers of victim sets that the generator made and tried.
    pub sets: SetCounts,
    /// Effort, in the units of budgets.
    pub work_units: u64,
}

/// How the run of a generator ended, under KAI's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RunResult {
    /// A set of victims was found and accepted.
    Solved,
    /// The job fits with none of the sets of victims.
    Unsolved,
    /// The rules of the action refused every set of victims with which the job fits.
    ValidatorRejected,
    /// A budget was spent first.
    DeadlineExhausted,
}

impl RunResult {
    /// Name that KAI gives the result.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Unsolved => "unsolved",
            Self::ValidatorRejected => "validator_rejected",
            Self::DeadlineExhausted => "deadline_exhausted",
        }
    }
}

/// What became of sets of victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetCounts {
    /// Made by a generator.
    pub emitted: u32,
    /// Tried on the model.
    pub simulated: u32,
    /// The job fits, and the rules of the action refuse the set.
    pub refused: u32,
    /// Were tried without success before.
    pub duplicate: u32,
}

impl SetCounts {
    /// What was added since it was `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            emitted: self.emitted - before.emitted,
            simulated: self.simulated - before.simulated,
            refused: self.refused - before.refused,
            duplicate: self.duplicate - before.duplicate,
        }
    }
}
