//! The planner of `kai-core` in the runner's words.

use super::{Planner, PlannerError};
use crate::format::Action;
use crate::outcome::CycleOutcome;
use crate::state::ClusterState;

/// Feeds a cluster state to the core as deltas and reads its plan back.
#[derive(Debug, Default)]
pub struct CorePlanner {}

impl Planner for CorePlanner {
    fn cycle(
        &mut self,
        _state: &ClusterState,
        _actions: &[Action],
        _now_s: f64,
    ) -> Result<CycleOutcome, PlannerError> {
        Err(PlannerError("the core's planner is not connected yet".to_owned()))
    }
}
