//! Runs a scenario: cycles of a planner, the time between them, comparisons.

mod advance;
mod core_planner;
mod runner;

use std::collections::BTreeMap;

pub use core_planner::CorePlanner;
pub(crate) use core_planner::{core_config, core_objects};

use crate::compare::Difference;
use crate::format::{Action, FormatError, Scenario, Status};
use crate::outcome::CycleOutcome;
use crate::state::ClusterState;

/// What the runner needs from a scheduler.
pub trait Planner {
    /// Runs `actions` once, in order, on the cluster as it is at `now_s`. Without actions nothing is
    /// decided and the outcome says how things stand.
    fn cycle(
        &mut self,
        state: &ClusterState,
        actions: &[Action],
        now_s: f64,
    ) -> Result<CycleOutcome, PlannerError>;
}

/// A planner could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlannerError(pub String);

/// Status and node of every task at the end of one cycle, before anything advanced.
pub type CycleStates = BTreeMap<String, (Status, Option<String>)>;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// The first expectation that did not hold.
    pub difference: Option<Difference>,
    /// The first state that differs from the recorded one, if that was asked for.
    pub recorded_difference: Option<Difference>,
    /// The planner gave up, which ends the run.
    pub planner_error: Option<PlannerError>,
    /// The states of each cycle in which actions ran.
    pub cycles: Vec<CycleStates>,
    /// By job, why it waited in the last cycle in which it did.
    pub explanations: BTreeMap<String, Explanation>,
}

/// Why a job waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The cycle, from 1.
    pub cycle: usize,
    /// Everything that is known, for a person.
    pub text: String,
}

/// What to compare besides the expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Compare every state with the recorded one where the record is stable.
    pub strict: bool,
}

/// Runs `scenario` from `state`, which was made of it. The run goes on after a difference, so that its
/// states are complete.
pub fn run(
    scenario: &Scenario,
    state: ClusterState,
    planner: &mut dyn Planner,
    options: RunOptions,
) -> Result<RunResult, FormatError> {
    runner::Runner::new(scenario, state, planner, options).run()
}

#[cfg(test)]
mod tests;
