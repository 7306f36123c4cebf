//! The five actions, one file each. Consolidation, reclaim and preempt share the search for victims in [`crate::solver`].

pub(crate) mod allocate;
pub(crate) mod consolidation;
pub(crate) mod preempt;
pub(crate) mod reclaim;
pub(crate) mod stale_gang_eviction;

use crate::config::ActionKind;
use crate::cycle::Cycle;

/// Runs one action on the world of the cycle; what it decides is added to the plan.
pub(crate) fn run(cycle: &mut Cycle<'_>, action: ActionKind) {
    match action {
        ActionKind::Allocate => allocate::run(cycle),
        ActionKind::Consolidation => consolidation::run(cycle),
        ActionKind::Reclaim => reclaim::run(cycle),
        ActionKind::Preempt => preempt::run(cycle),
        ActionKind::StaleGangEviction => stale_gang_eviction::run(cycle),
    }
}
