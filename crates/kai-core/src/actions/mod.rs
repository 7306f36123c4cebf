//! The five actions.

pub(crate) mod allocate;
pub(crate) mod stale_gang_eviction;

use crate::config::ActionKind;
use crate::cycle::Cycle;

/// Runs one action on the world of the cycle; what it decides is added to the plan.
pub(crate) fn run(cycle: &mut Cycle<'_>, action: ActionKind) {
    match action {
        ActionKind::Allocate => allocate::run(cycle),
        ActionKind::Consolidation => crate::solver::consolidation::run(cycle),
        ActionKind::Reclaim => crate::solver::reclaim::run(cycle),
        ActionKind::Preempt => crate::solver::preempt::run(cycle),
        ActionKind::StaleGangEviction => stale_gang_eviction::run(cycle),
    }
}
