//! Which queue may take from which: the questions asked before and while victims are chosen.
//!
//! Rules: a job may reclaim only as far as its queue's fair share (and, if it may not be preempted, its
//! quota). Two queues are judged at the level where their paths from the top part: the *levelled* queues. A
//! victim may be taken while its levelled queue holds more than its allocatable share (*maintain fair
//! share*), or more than its quota when the reclaimer stays within its own (*guarantee deserved quota*).

use super::amounts::{Amounts, QueueResource, ResourceSet, UNLIMITED};
use super::shares::{QueueShares, QueueTree};
use crate::compatibility::Compatibility;
use crate::ids::QueueId;

/// The job on whose behalf others lose something.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reclaimer {
    /// Leaf queue of the job.
    pub queue: QueueId,
    /// What it asks for.
    pub required: Amounts,
    /// The resources whose saturation is compared because it asks for them; see [`involved_resources`].
    pub involved: ResourceSet,
    /// Whether it may be preempted itself.
    pub preemptible: bool,
}

/// The resources whose saturation is compared because a request or a victim unit has something of them.
/// `plain_gpus` is the part of its GPUs that is not MIG slices: the reference looks at that part only, so
/// requests and victims of nothing but MIG slices are not compared by GPU.
pub fn involved_resources(
    amounts: &Amounts,
    plain_gpus: f64,
    compatibility: Compatibility,
) -> ResourceSet {
    let involved = ResourceSet::positive(amounts);
    if compatibility.is_kai() && plain_gpus <= 0.0 {
        involved.without(QueueResource::Gpu)
    } else {
        involved
    }
}

/// Why something may not be reclaimed; data, for explanations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReclaimRefusal {
    /// The reclaimer's queue would hold more than its fair share.
    AboveFairShare {
        /// Leaf queue of the reclaimer.
        queue: QueueId,
        /// The first resource above.
        resource: QueueResource,
        /// Fair share of that queue, in the native unit of the resource.
        fair_share: f64,
        /// What the queue would hold.
        would_hold: f64,
    },
    /// The reclaimer may not be preempted and a queue above it would hold more such pods than its quota.
    NonPreemptibleAboveQuota {
        /// Queue of the reclaimer, or a parent queue of it.
        queue: QueueId,
        /// The first resource above.
        resource: QueueResource,
        /// Quota of that queue, in the native unit of the resource.
        deserved: f64,
        /// What non-preemptible pods of the queue would hold.
        would_hold: f64,
    },
    /// The victim's levelled queue holds no more than what is guaranteed to it.
    VictimQueueProtected {
        /// The victim's levelled queue.
        victim_level: QueueId,
        /// What it still has allocated when the victim is judged.
        remaining: Amounts,
        /// What is guaranteed to it against this reclaimer; bounds.
        protected: Amounts,
    },
    /// Disruption budgets protect the victims, and their queue would hold less than its quota without them.
    BudgetWithinQuota {
        /// The victims' queue, or one above it.
        queue: QueueId,
        /// The first resource below.
        resource: QueueResource,
        /// Quota of that queue, in the native unit of the resource.
        quota: f64,
        /// What the queue would hold.
        remaining: f64,
    },
    /// A queue of the reclaimer would be above its fair share and at least as saturated as a sibling that
    /// loses something.
    MoreSaturatedThanSibling {
        /// The queue of the reclaimer.
        queue: QueueId,
        /// Sibling of `queue` that loses something.
        sibling: QueueId,
        /// Resource by which the two are compared.
        resource: QueueResource,
        /// Allocated by fair share, of the queue.
        saturation: f64,
        /// Allocated by fair share, of the sibling.
        sibling_saturation: f64,
    },
}

/// Whether a job may reclaim at all. Looks at its leaf queue only; the queues above are judged with the
/// victims.
pub fn can_reclaim(tree: &QueueTree, reclaimer: &Reclaimer) -> Result<(), ReclaimRefusal> {
    let queue = reclaimer.queue;
    let shares = tree.shares(queue);
    let would_hold = shares.allocated + reclaimer.required;
    if let Some(resource) = would_hold.first_above(&shares.fair_share, shares.tolerance) {
        return Err(ReclaimRefusal::AboveFairShare {
            queue,
            resource,
            fair_share: shares.fair_share[resource],
            would_hold: would_hold[resource],
        });
    }
    if reclaimer.preemptible {
        return Ok(());
    }
    let allocated = shares.allocated_non_preemptible;
    check_non_preemptible(queue, shares, allocated, &reclaimer.required)
}

/// Whether non-preemptible pods stay within the quota of `queue` when `required` comes on top of `allocated`.
pub(super) fn check_non_preemptible(
    queue: QueueId,
    shares: &QueueShares,
    allocated: Amounts,
    required: &Amounts,
) -> Result<(), ReclaimRefusal> {
    let would_hold = allocated + *required;
    match would_hold.first_above(&shares.deserved, shares.tolerance) {
        None => Ok(()),
        Some(resource) => Err(ReclaimRefusal::NonPreemptibleAboveQuota {
            queue,
            resource,
            deserved: shares.deserved[resource],
            would_hold: would_hold[resource],
        }),
    }
}

/// The queues of two root paths that are compared: the first pair at equal depth that differs, or, when one
/// path contains the other, the last common queue twice.
pub fn levelled_queues(tree: &QueueTree, left: QueueId, right: QueueId) -> (QueueId, QueueId) {
    let (left_depth, right_depth) = (tree.depth(left), tree.depth(right));
    let lift = |queue: QueueId, by: usize| tree.chain(queue).nth(by).unwrap_or(queue);
    let mut left = lift(left, left_depth.saturating_sub(right_depth));
    let mut right = lift(right, right_depth.saturating_sub(left_depth));
    while let (Some(left_parent), Some(right_parent)) = (tree.parent(left), tree.parent(right)) {
        if left == right || left_parent == right_parent {
            break;
        }
        (left, right) = (left_parent, right_parent);
    }
    (left, right)
}

/// Whether jobs of `victim_queue` are worth considering as victims. Cheaper and rougher than the test of
/// each victim.
pub fn may_be_victim(tree: &QueueTree, reclaimer: &Reclaimer, victim_queue: QueueId) -> bool {
    let (reclaimer_level, victim_level) = levelled_queues(tree, reclaimer.queue, victim_queue);
    let victim = tree.shares(victim_level);
    if !stays_within_quota(&reclaimer.required, tree.shares(reclaimer_level)) {
        return maintains_fair_share(victim, &victim.allocated);
    }
    let compared = || {
        ResourceSet::positive(&reclaimer.required)
            .iter()
            .filter(|&resource| victim.deserved[resource] != UNLIMITED)
            .map(|resource| (victim.allocated[resource], victim.deserved[resource]))
    };
    compared().any(|(allocated, quota)| allocated > quota)
        || compared().all(|(allocated, quota)| allocated >= quota)
}

/// The strategy *maintain fair share*: the victim's levelled queue, holding `remaining`, is above its
/// allocatable share in some resource.
pub fn maintains_fair_share(victim_level: &QueueShares, remaining: &Amounts) -> bool {
    !remaining.within(&victim_level.allocatable(), victim_level.tolerance)
}

/// The strategy *guarantee deserved quota*: the reclaimer's levelled queue stays within its quota in every
/// resource and the victim's, holding `remaining`, is above its own in some.
pub fn guarantees_deserved_quota(
    required: &Amounts,
    reclaimer_level: &QueueShares,
    victim_level: &QueueShares,
    remaining: &Amounts,
) -> bool {
    stays_within_quota(required, reclaimer_level)
        && !remaining.within(&victim_level.deserved, victim_level.tolerance)
}

pub(super) fn stays_within_quota(required: &Amounts, reclaimer_level: &QueueShares) -> bool {
    let would_hold = reclaimer_level.allocated + *required;
    would_hold.within(&reclaimer_level.deserved, reclaimer_level.tolerance)
}

/// What is guaranteed to the victim's levelled queue: a victim may be taken from it exactly while it holds
/// more than this in some resource.
///
/// Some strategy holds ⇔ ∃r `rem(r) > allocatable(r)`, or the reclaimer stays within its quota and
/// ∃r `rem(r) > deserved(r)` ⇔ ∃r `rem(r) > protected(r)`, `protected` being the tighter of both bounds
/// where both strategies apply and the allocatable share where only the first does.
pub(super) fn protected_amounts(victim_level: &QueueShares, within_quota: bool) -> Amounts {
    let allocatable = victim_level.allocatable();
    if within_quota { allocatable.tighter_bound(victim_level.deserved) } else { allocatable }
}
