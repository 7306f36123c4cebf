//! Whether a request fits the bounds of a queue and of its parent queues.
//!
//! Rules: nothing may make a queue hold more than its limit; what may not be preempted may not make a queue
//! hold more non-preemptible pods than its quota; what takes a queue above its quota leaves free what its siblings
//! neither use nor lend of theirs. The first violation is named: from the leaf upwards, in
//! each queue CPU, memory, GPU. Resources not asked for are not looked at, so a queue already above a bound
//! still takes jobs that do not touch it.

use super::amounts::{Amounts, QueueResource, UNLIMITED, sum_in_any_order};
use super::shares::{QueueShares, QueueTree};
use crate::ids::QueueId;

/// Which bound a request would break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViolationKind {
    /// The limit of a queue, for all pods.
    OverLimit,
    /// The quota, for pods that may not be preempted.
    NonPreemptibleOverQuota,
    /// What sibling queues neither use nor lend of their quotas.
    OverLendingLimit,
}

/// A bound that a request would break; data, rendered by [`super::text`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapacityViolation {
    /// The queue whose bound it is.
    pub queue: QueueId,
    /// The first resource of the queue that would exceed the bound.
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

/// The check of a job or a task before it is placed: the limit, then for what may not be preempted the quota.
pub fn check_capacity(
    tree: &QueueTree,
    queue: QueueId,
    requested: &Amounts,
    preemptible: bool,
) -> Result<(), CapacityViolation> {
    check_limit(tree, queue, requested)?;
    if !preemptible {
        check_non_preemptible_quota(tree, queue, requested)?;
    }
    check_lending(tree, queue, requested)
}

/// The quotas that siblings of `queue`, and of every queue above it, keep for themselves.
fn check_lending(
    tree: &QueueTree,
    leaf: QueueId,
    requested: &Amounts,
) -> Result<(), CapacityViolation> {
    if tree.queues.iter().all(|node| node.shares.lending_limit.is_none()) {
        return Ok(());
    }
    for queue in tree.chain(leaf) {
        let shares = tree.shares(queue);
        for resource in QueueResource::ALL {
            let (asked, allocated) = (requested[resource], shares.allocated[resource]);
            let quota = shares.deserved[resource];
            let is_within_quota =
                quota == UNLIMITED || allocated + asked <= quota + shares.tolerance;
            if asked == 0.0 || is_within_quota {
                continue;
            }
            let siblings = match tree.parent(queue) {
                Some(parent) => tree.live_children(parent).collect::<Vec<_>>(),
                None => tree.top_queues().collect(),
            };
            let others = siblings.into_iter().filter(|sibling| *sibling != queue);
            let withheld = sum_in_any_order(
                others
                    .map(|sibling| tree.shares(sibling))
                    .map(|sibling| sibling.withheld(resource, sibling.allocated[resource])),
            );
            let allocated =
                sum_in_any_order(tree.top_queues().map(|top| tree.shares(top).allocated[resource]));
            let free = tree.total[resource] - allocated - withheld;
            if withheld > 0.0 && asked > free + shares.tolerance {
                let kind = ViolationKind::OverLendingLimit;
                let bound = (allocated + free).max(quota);
                return Err(CapacityViolation {
                    queue,
                    resource,
                    kind,
                    bound,
                    allocated,
                    requested: asked,
                });
            }
        }
    }
    Ok(())
}

/// The limits of `queue` and of every queue above it.
pub fn check_limit(
    tree: &QueueTree,
    queue: QueueId,
    requested: &Amounts,
) -> Result<(), CapacityViolation> {
    check_chain(tree, queue, requested, ViolationKind::OverLimit)
}

/// The quotas of `queue` and of every queue above it, for a job that may not be preempted.
pub fn check_non_preemptible_quota(
    tree: &QueueTree,
    queue: QueueId,
    requested: &Amounts,
) -> Result<(), CapacityViolation> {
    check_chain(tree, queue, requested, ViolationKind::NonPreemptibleOverQuota)
}

fn check_chain(
    tree: &QueueTree,
    leaf: QueueId,
    requested: &Amounts,
    kind: ViolationKind,
) -> Result<(), CapacityViolation> {
    for queue in tree.chain(leaf) {
        let shares = tree.shares(queue);
        let (bounds, amounts) = bounds_and_allocated(shares, kind);
        for resource in QueueResource::ALL {
            let (bound, allocated) = (bounds[resource], amounts[resource]);
            let requested = requested[resource];
            let is_above = bound + shares.tolerance < allocated + requested;
            if bound != UNLIMITED && requested != 0.0 && is_above {
                let violation =
                    CapacityViolation { queue, resource, kind, bound, allocated, requested };
                return Err(violation);
            }
        }
    }
    Ok(())
}

fn bounds_and_allocated(shares: &QueueShares, kind: ViolationKind) -> (&Amounts, &Amounts) {
    match kind {
        ViolationKind::OverLimit => (&shares.max_allowed, &shares.allocated),
        ViolationKind::NonPreemptibleOverQuota | ViolationKind::OverLendingLimit => {
            (&shares.deserved, &shares.allocated_non_preemptible)
        }
    }
}
