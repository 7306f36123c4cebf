//! A pod as the planner keeps it.

use std::sync::Arc;

use crate::ids::{JobId, NodeId};
use crate::input::PodSpec;
use crate::plugins::dynamicresources::TaskClaims;
use crate::plugins::numa::ZonePlacement;
use crate::status::Status;
use crate::world::node::{Accepted, Groups};
use crate::world::shape::ShapeId;

/// A pod with its place in a job and on a node.
#[derive(Clone, Debug)]
pub struct Task {
    /// False for a slot whose pod is gone.
    pub live: bool,
    /// Latest spec that was applied.
    pub spec: Arc<PodSpec>,
    /// What it asks for and where it may run.
    pub shape: ShapeId,
    /// The job it belongs to, once its pod group is known.
    pub job: Option<JobId>,
    /// Its leaf in the job's tree; none when the tree has no leaf of that name.
    pub leaf: Option<u32>,
    /// The claims it uses.
    pub claims: TaskClaims,
    /// What changes while a cycle runs.
    pub state: TaskState,
}

/// What changes while a cycle runs.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskState {
    /// Status as objects and decisions in flight say, and as the cycle changed it.
    pub status: Status,
    /// The status was given in this cycle and is not committed.
    pub tentative: bool,
    /// Node it is on, or is nominated to.
    pub node: Option<NodeId>,
    /// Shared devices that it has, or is nominated to.
    pub groups: Groups,
    /// NUMA zones that it has, or is expected to get.
    pub zones: ZonePlacement,
    /// What it costs its queue on that node.
    pub accepted: Accepted,
}

impl TaskState {
    /// A task that is nowhere.
    pub fn nowhere(status: Status) -> Self {
        Self {
            status,
            tentative: false,
            node: None,
            groups: Groups::new(),
            zones: ZonePlacement::default(),
            accepted: Accepted::default(),
        }
    }
}

impl Task {
    /// Hundredths of GPUs that it adds to those of its job's placed pods.
    pub(crate) fn placed_gpu_centi(&self) -> i64 {
        let counts = self.leaf.is_some() && self.state.status.is_active_allocated();
        if counts { self.state.accepted.gpu_centi } else { 0 }
    }

    /// Whether an attempt may place it: it waits, or (in a simulation) it was evicted in this cycle.
    pub fn may_be_placed(&self, simulated: bool) -> bool {
        match self.state.status {
            Status::Pending => true,
            Status::Releasing => simulated && self.state.tentative,
            _ => false,
        }
    }
}
