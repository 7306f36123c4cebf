//! A limit or quota that an attempt would have broken: which, at which level, and by how much.

use crate::cycle::Cycle;
use crate::fairness::{CapacityViolation, QueueResource, ViolationKind};
use crate::ids::QueueId;
use crate::input::Text;
use crate::report::job_fit::{JobError, JobFit};

/// A limit or quota of a queue that an attempt would have broken.
#[derive(Clone, PartialEq, Debug)]
pub struct BrokenBound {
    /// The queue whose bound it is.
    pub queue: Text,
    /// How far it is above the job's own queue; 0 is that queue.
    pub levels_above: u32,
    /// Resource that would exceed the bound.
    pub resource: QueueResource,
    /// The kind of bound.
    pub kind: ViolationKind,
    /// The bound in the native unit of the resource.
    pub bound: f64,
    /// What the queue holds and counts against the bound.
    pub allocated: f64,
    /// What was asked for.
    pub requested: f64,
}

impl BrokenBound {
    /// Amount by which the request exceeds the bound.
    pub fn excess(&self) -> f64 {
        self.allocated + self.requested - self.bound
    }
}

impl Cycle<'_> {
    /// Bounds that the attempts of a job of `queue` would have broken, each once.
    pub(crate) fn broken_bounds(&self, queue: Option<QueueId>, fit: &JobFit) -> Vec<BrokenBound> {
        let mut found = Vec::new();
        for error in &fit.errors {
            if let JobError::Capacity(violation) = error {
                let bound = self.broken_bound(queue, violation);
                if !found.contains(&bound) {
                    found.push(bound);
                }
            }
        }
        found
    }

    fn broken_bound(&self, own: Option<QueueId>, violation: &CapacityViolation) -> BrokenBound {
        let tree = &self.world.tree;
        let mut levels_above = 0;
        let mut next = own;
        while let Some(queue) = next.filter(|queue| *queue != violation.queue) {
            levels_above += 1;
            next = tree.node(queue).parent;
        }
        BrokenBound {
            queue: tree.node(violation.queue).display_name.clone(),
            levels_above,
            resource: violation.resource,
            kind: violation.kind,
            bound: violation.bound,
            allocated: violation.allocated,
            requested: violation.requested,
        }
    }
}
