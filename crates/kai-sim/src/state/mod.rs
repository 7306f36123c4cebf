//! The runner's own copy of a scenario: every default spelled out, every name checked, times absolute
//! on the runner's clock. Cycles and timeline steps change it; a planner reads it.

mod check;
mod cluster;
mod config;
mod operations;
mod resolve;

pub use cluster::{ClusterState, Job, Node, Queue, Share, Storage, Task};
pub(crate) use config::resolve as resolved_config;
pub use config::{Config, Params, SearchBudgets};

use crate::format::{FormatError, Run, Scenario};

impl ClusterState {
    /// Spells out `scenario` and checks its names, those in the steps of a timeline included.
    pub fn from_scenario(scenario: &Scenario) -> Result<Self, FormatError> {
        let state = resolve::cluster(scenario)?;
        check::names(&state)?;
        if let Run::Timeline(steps) = &scenario.run {
            operations::rehearse(&state, steps)?;
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests;
