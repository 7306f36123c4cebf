//! Whether a set of victims is acceptable, unit by unit.
//!
//! Rules, all over the shares as they were when the search for this reclaimer started, before any eviction:
//! 1. Before each unit is taken, some strategy must allow taking from the victim's levelled queue as the
//!    earlier units left it. Only then the unit is subtracted, from the leaf and every queue above; so the
//!    last unit may push its queue below what is guaranteed.
//! 2. In the end, at every level of the reclaimer's path: if the queue with the request is above its fair
//!    share of an involved resource, it must stay less saturated than every sibling that lost something.
//!    Involved are the resources of the sibling's units and of the request; the caller says which those are
//!    because the reference overlooks GPUs allocated or requested only as MIG slices.
//! 3. A reclaimer that may not be preempted must fit into the quotas of its whole path.

use super::amounts::{Amounts, ResourceSet, UNLIMITED};
use super::reclaim::{
    ReclaimRefusal, Reclaimer, check_non_preemptible, levelled_queues, protected_amounts,
    stays_within_quota,
};
use super::shares::{QueueShares, QueueTree};
use crate::ids::QueueId;

const NOT_LOST: u32 = u32::MAX;

/// Judges sets of victims for one reclaimer after the other, reusing its memory.
///
/// [`new`](Self::new) or [`begin`](Self::begin) at the start of a search, then for every set of victims
/// [`try_unit`](Self::try_unit) for each unit, grouped by queue, and [`finish`](Self::finish);
/// [`restart`](Self::restart) before the next set. The tree may change its `allocated` amounts meanwhile.
#[derive(Clone, Debug)]
pub struct ReclaimValidator {
    reclaimer: Reclaimer,
    saturation_multiplier: f64,
    /// What every queue had allocated at the start, by slot.
    allocated_at_start: Vec<Amounts>,
    path: Vec<PathQueue>,
    /// The queues that lost something, in the order of their first loss.
    losses: Vec<Loss>,
    /// Where in `losses` a queue is, by slot.
    loss_of: Vec<u32>,
    current: Option<JudgedQueue>,
}

/// A queue on the reclaimer's path, from the leaf upwards.
#[derive(Clone, Copy, Debug)]
struct PathQueue {
    queue: QueueId,
    allocated_non_preemptible: Amounts,
    within_quota: bool,
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    queue: QueueId,
    remaining: Amounts,
    involved: ResourceSet,
}

/// What the last victim queue led to: units come queue by queue, so it is mostly the next one's too.
#[derive(Clone, Copy, Debug)]
struct JudgedQueue {
    victim_queue: QueueId,
    victim_level: QueueId,
    protected: Amounts,
}

impl ReclaimValidator {
    /// A validator for a first search, as [`begin`](Self::begin) starts it.
    pub fn new(tree: &QueueTree, reclaimer: Reclaimer, saturation_multiplier: f64) -> Self {
        let mut validator = Self {
            reclaimer,
            saturation_multiplier,
            allocated_at_start: Vec::new(),
            path: Vec::new(),
            losses: Vec::new(),
            loss_of: Vec::new(),
            current: None,
        };
        validator.begin(tree, reclaimer, saturation_multiplier);
        validator
    }

    /// Starts a search: what the queues hold now is what counts for all its sets of victims.
    pub fn begin(&mut self, tree: &QueueTree, reclaimer: Reclaimer, saturation_multiplier: f64) {
        self.reclaimer = reclaimer;
        self.saturation_multiplier = saturation_multiplier;
        self.allocated_at_start.clear();
        self.allocated_at_start.extend(tree.queues.iter().map(|node| node.shares.allocated));
        self.path.clear();
        self.path.extend(tree.chain(reclaimer.queue).map(|queue| PathQueue {
            queue,
            allocated_non_preemptible: tree.shares(queue).allocated_non_preemptible,
            within_quota: stays_within_quota(&reclaimer.required, tree.shares(queue)),
        }));
        self.losses.clear();
        self.loss_of.clear();
        self.loss_of.resize(tree.queues.len(), NOT_LOST);
        self.current = None;
    }

    /// Forgets the victims, not the search.
    pub fn restart(&mut self) {
        for loss in self.losses.drain(..) {
            self.loss_of[loss.queue.index()] = NOT_LOST;
        }
    }

    /// Forgets the victims and takes another request of the same reclaimer, as if the search had begun with it.
    pub fn restart_for(&mut self, tree: &QueueTree, required: Amounts, involved: ResourceSet) {
        self.restart();
        self.reclaimer.required = required;
        self.reclaimer.involved = involved;
        self.current = None;
        for place in &mut self.path {
            let would_hold = self.allocated_at_start[place.queue.index()] + required;
            let shares = tree.shares(place.queue);
            place.within_quota = would_hold.within(&shares.deserved, shares.tolerance);
        }
    }

    /// Takes one unit from `victim_queue`, if some strategy allows it. A refused unit is not taken.
    ///
    /// `involved` are the resources of the unit whose saturation counts in the end.
    pub fn try_unit(
        &mut self,
        tree: &QueueTree,
        victim_queue: QueueId,
        unit: &Amounts,
        involved: ResourceSet,
    ) -> Result<(), ReclaimRefusal> {
        let JudgedQueue { victim_level, protected, .. } = self.judged(tree, victim_queue);
        let remaining = self.remaining(victim_level);
        if remaining.within(&protected, tree.shares(victim_level).tolerance) {
            return Err(ReclaimRefusal::VictimQueueProtected {
                victim_level,
                remaining,
                protected,
            });
        }
        for queue in tree.chain(victim_queue) {
            let loss = self.loss_mut(queue);
            loss.remaining -= *unit;
            loss.involved = loss.involved.union(involved);
        }
        Ok(())
    }

    /// Judges the units taken so far as a whole.
    pub fn finish(&self, tree: &QueueTree) -> Result<(), ReclaimRefusal> {
        let reclaimer = &self.reclaimer;
        for place in &self.path {
            let would_hold = self.remaining(place.queue) + reclaimer.required;
            let parent = tree.parent(place.queue);
            for loss in &self.losses {
                if loss.queue == place.queue || tree.parent(loss.queue) != parent {
                    continue;
                }
                let compared = loss.involved.union(reclaimer.involved);
                let own = (place.queue, would_hold);
                check_saturation(tree, compared, own, loss, self.saturation_multiplier)?;
            }
            if !reclaimer.preemptible {
                let shares = tree.shares(place.queue);
                let allocated = place.allocated_non_preemptible;
                check_non_preemptible(place.queue, shares, allocated, &reclaimer.required)?;
            }
        }
        Ok(())
    }

    /// Whether the units taken so far were over quota: every queue that lost something, apart from those of the
    /// reclaimer, was above its quota of a resource and keeps its quota of every resource of which it was above.
    pub fn keeps_quotas(&self, tree: &QueueTree) -> Result<(), ReclaimRefusal> {
        let is_reclaimers = |queue| self.path.iter().any(|place| place.queue == queue);
        for loss in self.losses.iter().filter(|loss| !is_reclaimers(loss.queue)) {
            let QueueShares { deserved, tolerance, .. } = tree.shares(loss.queue);
            let allocated = self.allocated_at_start[loss.queue.index()];
            let is_above =
                |amount: f64, quota: f64| quota != UNLIMITED && amount > quota + tolerance;
            let mut above =
                loss.involved.iter().filter(|r| is_above(allocated[*r], deserved[*r])).peekable();
            if above.peek().is_none() {
                return Err(ReclaimRefusal::VictimQueueProtected {
                    victim_level: loss.queue,
                    remaining: allocated,
                    protected: *deserved,
                });
            }
            for resource in above {
                let (quota, remaining) = (deserved[resource], loss.remaining[resource]);
                if remaining < quota - tolerance {
                    let queue = loss.queue;
                    return Err(ReclaimRefusal::BudgetWithinQuota {
                        queue,
                        resource,
                        quota,
                        remaining,
                    });
                }
            }
        }
        Ok(())
    }

    /// What `queue` still holds after the units taken so far.
    pub fn remaining(&self, queue: QueueId) -> Amounts {
        match self.loss_of[queue.index()] {
            NOT_LOST => self.allocated_at_start[queue.index()],
            position => self.losses[position as usize].remaining,
        }
    }

    fn loss_mut(&mut self, queue: QueueId) -> &mut Loss {
        let slot = queue.index();
        if self.loss_of[slot] == NOT_LOST {
            self.loss_of[slot] = self.losses.len() as u32;
            let remaining = self.allocated_at_start[slot];
            self.losses.push(Loss { queue, remaining, involved: ResourceSet::EMPTY });
        }
        &mut self.losses[self.loss_of[slot] as usize]
    }

    fn judged(&mut self, tree: &QueueTree, victim_queue: QueueId) -> JudgedQueue {
        if let Some(known) = self.current.filter(|judged| judged.victim_queue == victim_queue) {
            return known;
        }
        let (reclaimer_level, victim_level) =
            levelled_queues(tree, self.reclaimer.queue, victim_queue);
        let within_quota =
            self.path.iter().any(|place| place.queue == reclaimer_level && place.within_quota);
        let protected = protected_amounts(tree.shares(victim_level), within_quota);
        let judged = JudgedQueue { victim_queue, victim_level, protected };
        self.current = Some(judged);
        judged
    }
}

fn check_saturation(
    tree: &QueueTree,
    compared: ResourceSet,
    (queue, would_hold): (QueueId, Amounts),
    loss: &Loss,
    saturation_multiplier: f64,
) -> Result<(), ReclaimRefusal> {
    let QueueShares { fair_share, tolerance, .. } = tree.shares(queue);
    let sibling_fair_share = &tree.shares(loss.queue).fair_share;
    for resource in compared.iter() {
        let own = saturation(would_hold[resource], fair_share[resource]);
        let sibling = saturation(loss.remaining[resource], sibling_fair_share[resource]);
        // An unlimited fair share has saturation 0, so two of them never refuse each other.
        if own > 1.0 + tolerance
            && sibling_fair_share[resource] > 0.0
            && own * saturation_multiplier >= sibling - tolerance
        {
            return Err(ReclaimRefusal::MoreSaturatedThanSibling {
                queue,
                sibling: loss.queue,
                resource,
                saturation: own,
                sibling_saturation: sibling,
            });
        }
    }
    Ok(())
}

fn saturation(allocated: f64, fair_share: f64) -> f64 {
    if fair_share == UNLIMITED || (fair_share == 0.0 && allocated <= 0.0) {
        0.0
    } else if fair_share == 0.0 {
        f64::INFINITY
    } else {
        allocated / fair_share
    }
}
