//! Whether a plan is the one its world demands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kai_core::fairness::QueueResource;
use kai_core::input::Text;
use kai_core::plan::{CyclePlan, StepKind};

use super::objects::{GPUS_PER_NODE, RUNNING, WAITING};
use super::worlds::zone_of;
use super::{Case, Family};

/// An outcome that is not the right one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("wrong outcome: {0}")]
pub struct Mismatch(pub String);

/// How many pods of a set of jobs met which fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decided {
    /// Bound to free resources.
    pub bound: usize,
    /// Nominated to resources of releasing pods.
    pub pipelined: usize,
    /// Evicted and not placed again in the plan.
    pub releasing: usize,
    /// Evicted, and nominated to another node.
    pub moved: usize,
}

impl Decided {
    /// No pod was bound, nominated or evicted.
    const NOTHING: Self = Self { bound: 0, pipelined: 0, releasing: 0, moved: 0 };

    /// Pods whose names begin with `prefix` by what the plan makes of them.
    pub fn of(plan: &CyclePlan, prefix: &str) -> Self {
        let mut fates: BTreeMap<&Text, (bool, bool, bool)> = BTreeMap::new();
        let steps = plan.steps.iter().filter(|step| step.pod.name.starts_with(prefix));
        for step in steps {
            let fate = fates.entry(&step.pod.name).or_default();
            match step.kind {
                StepKind::Bind { .. } => fate.0 = true,
                StepKind::Nominate { .. } => fate.1 = true,
                StepKind::Evict { .. } => fate.2 = true,
            }
        }
        let mut decided = Self::default();
        for fate in fates.values() {
            match fate {
                (_, true, true) => decided.moved += 1,
                (_, false, true) => decided.releasing += 1,
                (_, true, false) => decided.pipelined += 1,
                (true, false, false) => decided.bound += 1,
                (false, false, false) => {}
            }
        }
        decided
    }

    /// Pods that met any.
    pub fn total(self) -> usize {
        self.bound + self.pipelined + self.releasing + self.moved
    }
}

impl fmt::Display for Decided {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, pipelined, releasing, moved } = self;
        write!(
            formatter,
            "{bound} bound, {pipelined} pipelined, {releasing} releasing, {moved} moved"
        )
    }
}

impl Case {
    /// Whether `plan` is what this world demands.
    pub fn check(self, plan: &CyclePlan) -> Result<(), Mismatch> {
        let n = self.size;
        let gpus = GPUS_PER_NODE * n;
        let [running, waiting] = [RUNNING, WAITING].map(|prefix| Decided::of(plan, prefix));
        match self.family {
            Family::Allocate => {
                expect("waiting", waiting, Decided { bound: gpus, ..Decided::NOTHING })
            }
            Family::Gang => check_gang(plan, waiting, n),
            Family::ReclaimLarge => {
                expect("waiting", waiting, Decided { pipelined: n / 2, ..Decided::NOTHING })?;
                let freed = n / 2 * GPUS_PER_NODE;
                expect("running", running, Decided { releasing: freed, ..Decided::NOTHING })
            }
            Family::ReclaimMany => {
                expect("waiting", waiting, Decided { pipelined: gpus, ..Decided::NOTHING })?;
                expect("running", running, Decided { releasing: gpus, ..Decided::NOTHING })
            }
            Family::ReclaimNo => {
                expect("waiting", waiting, Decided::NOTHING)?;
                expect("running", running, Decided::NOTHING)?;
                check_reason(plan)
            }
            Family::Consolidate => {
                let gangs = n / 50;
                expect("waiting", waiting, Decided { pipelined: 4 * gangs, ..Decided::NOTHING })?;
                expect("running", running, Decided { moved: running.moved, ..Decided::NOTHING })
            }
            // Mixed worlds are compared with the unpruned search; steady ones are checked event by event.
            Family::Mixed | Family::Steady => Ok(()),
        }
    }
}

fn expect(who: &str, actual: Decided, expected: Decided) -> Result<(), Mismatch> {
    if actual == expected {
        return Ok(());
    }
    Err(Mismatch(format!("{who} jobs: {actual}; expected {expected}")))
}

/// All pods bound, on all nodes of one zone.
fn check_gang(plan: &CyclePlan, waiting: Decided, pods: usize) -> Result<(), Mismatch> {
    expect("waiting", waiting, Decided { bound: pods, ..Decided::NOTHING })?;
    let nodes: BTreeSet<&str> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.kind {
            StepKind::Bind { node, .. } => Some(&**node),
            _ => None,
        })
        .collect();
    let zones: BTreeSet<_> = nodes.iter().map(|node| zone_of(node)).collect();
    if nodes.len() != 128 || zones.len() != 1 {
        let (nodes, zones) = (nodes.len(), zones.len());
        return Err(Mismatch(format!("{nodes} nodes of {zones} zones, expected 128 of 1")));
    }
    Ok(())
}

/// The reason names what is needed and what may be taken.
fn check_reason(plan: &CyclePlan) -> Result<(), Mismatch> {
    let victims = plan.waiting.iter().flat_map(|report| &report.victims);
    let reasons: Vec<_> = victims
        .filter_map(|victims| victims.not_enough)
        .map(|found| (found.needed[QueueResource::Gpu], found.takeable[QueueResource::Gpu]))
        .collect();
    if reasons == [(80.0, 79.0)] {
        return Ok(());
    }
    Err(Mismatch(format!("needed and takeable GPUs {reasons:?}, expected [(80, 79)]")))
}
