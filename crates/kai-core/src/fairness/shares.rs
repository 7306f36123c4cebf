//! What each queue may have, holds and asks for; and the tree the queues form.
//!
//! Rules: the amounts of a leaf are part of every ancestor's. A queue may ask for at most its limit
//! (*requestable*), and may hold at most its quota or its fair share, whichever is more, capped by its limit
//! (*allocatable*). The *dominant share* is the largest part of its allocatable share that a queue holds.

use std::cmp::Ordering;
use std::sync::Arc;

use super::amounts::{Amounts, QueueResource, UNLIMITED};
use crate::compatibility::Compatibility;
use crate::ids::QueueId;
use crate::time::Timestamp;

/// Holding something of which a queue may hold nothing weighs as if a thousandth had been allowed.
const WEIGHT_WITHOUT_SHARE: f64 = 1000.0;

/// More than the rounding error of sums of GPU fractions, less than any fraction.
const LAST_BITS: f64 = 1e-9;

/// How much above its bound an amount still counts as within it. Three pods of a tenth of a GPU hold 0.1 + 0.1 + 0.1,
/// which in `f64` is more than 0.3; the reference lets such last bits decide.
pub fn tolerance_of_bounds(compatibility: Compatibility) -> f64 {
    if compatibility.is_kai() { 0.0 } else { LAST_BITS }
}

/// The numbers of one queue.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct QueueShares {
    /// Quota: guaranteed to the queue; a bound.
    pub deserved: Amounts,
    /// Limit: never exceeded; a bound.
    pub max_allowed: Amounts,
    /// How much of its unused quota other queues may use; none: all of it.
    pub lending_limit: Option<Amounts>,
    /// Weight in the division of what is left above the quotas.
    pub over_quota_weight: Amounts,
    /// Allocated to all running pods.
    pub allocated: Amounts,
    /// Allocated to pods that may not be preempted; part of `allocated`.
    pub allocated_non_preemptible: Amounts,
    /// Allocated, plus what pending pods request.
    pub request: Amounts,
    /// Past use as a part of the cluster, 0 to 1.
    pub usage: Amounts,
    /// The result of the division; fixed for a cycle.
    pub fair_share: Amounts,
    /// Queues of higher priority come first.
    pub priority: i32,
    /// When the queue was created; the older comes first.
    pub created: Timestamp,
    /// How much above a bound of the queue still counts as within it; see [`tolerance_of_bounds`].
    pub tolerance: f64,
}

impl QueueShares {
    /// What the queue asks for, as far as its limit lets it.
    pub fn requestable(&self, resource: QueueResource) -> f64 {
        let limit = self.max_allowed[resource];
        if limit == UNLIMITED { self.request[resource] } else { limit.min(self.request[resource]) }
    }

    /// What is kept of the quota for the queue while it holds or asks for `used` of it: what it neither uses nor lends.
    pub fn withheld(&self, resource: QueueResource, used: f64) -> f64 {
        let Some(lent) = self.lending_limit.map(|limit| limit[resource]) else { return 0.0 };
        if lent == UNLIMITED || self.deserved[resource] == UNLIMITED {
            return 0.0;
        }
        (self.deserved[resource] - used - lent).max(0.0)
    }

    /// What the queue may hold of one resource; a bound.
    pub fn allocatable_of(&self, resource: QueueResource) -> f64 {
        let limit = self.max_allowed[resource];
        let deserved = self.deserved[resource];
        if deserved == UNLIMITED {
            return limit;
        }
        let guaranteed = deserved.max(self.fair_share[resource]);
        if limit == UNLIMITED { guaranteed } else { limit.min(guaranteed) }
    }

    /// What the queue may hold; bounds.
    pub fn allocatable(&self) -> Amounts {
        Amounts::from_fn(|resource| self.allocatable_of(resource))
    }

    /// The dominant share of what the queue holds now.
    pub fn dominant_share(&self, cluster_total: &Amounts) -> f64 {
        dominant_share(&self.allocated, &self.allocatable(), cluster_total)
    }
}

/// The largest part of `allocatable` that `allocated` is, over all resources; unlimited counts as the cluster.
pub(super) fn dominant_share(
    allocated: &Amounts,
    allocatable: &Amounts,
    cluster_total: &Amounts,
) -> f64 {
    QueueResource::ALL.into_iter().fold(0.0, |largest: f64, resource| {
        let allowed = if allocatable[resource] == UNLIMITED {
            cluster_total[resource]
        } else {
            allocatable[resource]
        };
        let share = if allowed == 0.0 {
            allocated[resource] * WEIGHT_WITHOUT_SHARE
        } else {
            allocated[resource] / allowed
        };
        largest.max(share)
    })
}

/// A queue in its place in the tree.
#[derive(Clone, Debug)]
pub struct QueueNode {
    /// The unique name; decides when nothing else does.
    pub name: Arc<str>,
    /// The name shown to people.
    pub display_name: Arc<str>,
    /// Slot of the parent queue; it may be dead, see [`QueueTree::parent`].
    pub parent: Option<QueueId>,
    /// Slots of the child queues; the planner keeps them in name order.
    pub children: Vec<QueueId>,
    /// Bounds, amounts and fair share of the queue.
    pub shares: QueueShares,
    /// False for a slot whose queue is gone: it has no influence on anything.
    pub live: bool,
}

/// All queues, indexed by [`QueueId`]. The parents of live queues form no cycle.
#[derive(Clone, Debug, Default)]
pub struct QueueTree {
    /// Queues by slot; dead slots stay until they are reused.
    pub queues: Vec<QueueNode>,
    /// What the top queues divide.
    pub total: Amounts,
}

impl QueueTree {
    /// The queue in slot `queue`.
    pub fn node(&self, queue: QueueId) -> &QueueNode {
        &self.queues[queue.index()]
    }

    /// The numbers of `queue`.
    pub fn shares(&self, queue: QueueId) -> &QueueShares {
        &self.queues[queue.index()].shares
    }

    /// The live queue above `queue`.
    pub fn parent(&self, queue: QueueId) -> Option<QueueId> {
        self.node(queue).parent.filter(|&parent| self.node(parent).live)
    }

    /// The live queues below `queue`, in slot order of the list.
    pub fn live_children(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        self.node(queue).children.iter().copied().filter(|&child| self.node(child).live)
    }

    /// The live queues without a queue above.
    pub fn top_queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        (0..self.queues.len())
            .map(QueueId::new)
            .filter(|&queue| self.node(queue).live && self.parent(queue).is_none())
    }

    /// `queue`, then the queues above it up to the top; nothing for a dead slot.
    pub fn chain(&self, queue: QueueId) -> Chain<'_> {
        Chain { tree: self, next: Some(queue).filter(|&queue| self.node(queue).live) }
    }

    /// Whether the parents of `queue` never end.
    pub(crate) fn has_cycle_above(&self, queue: QueueId) -> bool {
        let mut above = std::iter::successors(Some(queue), |&queue| self.node(queue).parent);
        above.nth(self.queues.len()).is_some()
    }

    /// How many queues are above `queue`.
    pub fn depth(&self, queue: QueueId) -> usize {
        self.chain(queue).count().saturating_sub(1)
    }

    /// The unique order that decides when nothing else does.
    pub fn compare_names(&self, left: QueueId, right: QueueId) -> Ordering {
        self.node(left).name.cmp(&self.node(right).name)
    }
}

/// The walk from a queue to the top of its tree.
#[derive(Clone, Debug)]
pub struct Chain<'a> {
    tree: &'a QueueTree,
    next: Option<QueueId>,
}

impl Iterator for Chain<'_> {
    type Item = QueueId;

    fn next(&mut self) -> Option<QueueId> {
        let queue = self.next?;
        self.next = self.tree.parent(queue);
        Some(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu_shares(deserved: f64, limit: f64, fair_share: f64, request: f64) -> QueueShares {
        let of_gpu = |number| Amounts::new(0.0, 0.0, number);
        QueueShares {
            deserved: of_gpu(deserved),
            max_allowed: of_gpu(limit),
            fair_share: of_gpu(fair_share),
            request: of_gpu(request),
            ..QueueShares::default()
        }
    }

    #[test]
    fn allocatable_is_the_better_of_quota_and_fair_share_capped_by_the_limit() {
        let gpu = QueueResource::Gpu;
        assert_eq!(gpu_shares(21.0, 10.0, 22.0, 0.0).allocatable_of(gpu), 10.0);
        assert_eq!(gpu_shares(21.0, UNLIMITED, 22.0, 0.0).allocatable_of(gpu), 22.0);
        assert_eq!(gpu_shares(21.0, UNLIMITED, 2.0, 0.0).allocatable_of(gpu), 21.0);
        assert_eq!(gpu_shares(UNLIMITED, 7.0, 2.0, 0.0).allocatable_of(gpu), 7.0);
        assert_eq!(gpu_shares(UNLIMITED, UNLIMITED, 2.0, 0.0).allocatable_of(gpu), UNLIMITED);
    }

    #[test]
    fn requestable_is_capped_by_the_limit() {
        let gpu = QueueResource::Gpu;
        assert_eq!(gpu_shares(0.0, 10.0, 0.0, 17.0).requestable(gpu), 10.0);
        assert_eq!(gpu_shares(0.0, UNLIMITED, 0.0, 17.0).requestable(gpu), 17.0);
    }

    #[test]
    fn dominant_share_takes_the_cluster_for_unlimited_and_punishes_no_share() {
        let total = Amounts::new(100.0, 0.0, 8.0);
        let bounds = Amounts::new(UNLIMITED, 0.0, 4.0);
        assert_eq!(dominant_share(&Amounts::new(50.0, 0.0, 1.0), &bounds, &total), 0.5);
        assert_eq!(dominant_share(&Amounts::new(0.0, 2.0, 1.0), &bounds, &total), 2000.0);
        assert_eq!(dominant_share(&Amounts::new(0.0, -2.0, 0.0), &bounds, &total), 0.0);
    }
}
