//! Which of two queues comes first.
//!
//! Rule, the first difference deciding: a queue not above its fair share in all resources; one that its next
//! job leaves within its quota; the higher priority; one that its next job does not make hold what it has no
//! share of; the smaller dominant share with the job and without the victims; the smaller dominant share as
//! it is; the smaller allocatable share; the older. Equal age is left to chance by the reference; here the
//! name decides, so two queues never tie.
//!
//! The order is the same from both sides but not always transitive: of three queues alike in all but their
//! allocatable shares, two may be incomparable by share and ordered by age against the third. Feed it to a
//! tournament or a heap, not to a sort that insists on a total order.

use std::cmp::Ordering;

use super::amounts::{Amounts, QueueResource, compare_numbers};
use super::shares::{QueueNode, QueueShares, dominant_share};

/// A queue and what it would gain and lose if it came first.
#[derive(Clone, Copy, Debug)]
pub struct Contender<'a> {
    /// The queue with its shares as of now.
    pub queue: &'a QueueNode,
    /// What its next job asks for; at inner levels the job of the best leaf. None when victims are ordered.
    pub job: Option<&'a Amounts>,
    /// The sum of what its victims so far hold.
    pub victims: Option<&'a Amounts>,
}

impl Contender<'_> {
    fn allocated_with_job(&self) -> Amounts {
        let allocated = self.queue.shares.allocated;
        self.job.map_or(allocated, |&job| allocated + job)
    }
}

/// `Less` when `left` comes first.
pub fn compare(left: &Contender<'_>, right: &Contender<'_>, cluster_total: &Amounts) -> Ordering {
    let (l, r) = (&left.queue.shares, &right.queue.shares);
    let (l_with_job, r_with_job) = (left.allocated_with_job(), right.allocated_with_job());
    let early = is_over_utilised(l)
        .cmp(&is_over_utilised(r))
        .then_with(|| is_starved(&r_with_job, r).cmp(&is_starved(&l_with_job, l)))
        .then_with(|| r.priority.cmp(&l.priority));
    if early.is_ne() {
        return early;
    }
    let (l_allowed, r_allowed) = (l.allocatable(), r.allocatable());
    let share_with_job = |side: &Contender<'_>, with_job: Amounts, allowed: &Amounts| {
        let allocated = side.victims.map_or(with_job, |&victims| with_job - victims);
        dominant_share(&allocated, allowed, cluster_total)
    };
    holds_without_share(&l_with_job, &l_allowed)
        .cmp(&holds_without_share(&r_with_job, &r_allowed))
        .then_with(|| {
            let l_share = share_with_job(left, l_with_job, &l_allowed);
            compare_numbers(l_share, share_with_job(right, r_with_job, &r_allowed))
        })
        .then_with(|| {
            let l_share = dominant_share(&l.allocated, &l_allowed, cluster_total);
            compare_numbers(l_share, dominant_share(&r.allocated, &r_allowed, cluster_total))
        })
        .then_with(|| compare_allowed(&l_allowed, &r_allowed))
        .then_with(|| l.created.cmp(&r.created))
        .then_with(|| left.queue.name.cmp(&right.queue.name))
}

/// Within the quota, even with the job.
fn is_starved(with_job: &Amounts, shares: &QueueShares) -> bool {
    with_job.within(&shares.deserved, shares.tolerance)
}

/// Above the fair share in every resource; one resource within it is enough not to be.
fn is_over_utilised(shares: &QueueShares) -> bool {
    QueueResource::ALL
        .into_iter()
        .all(|resource| shares.fair_share[resource] + shares.tolerance < shares.allocated[resource])
}

fn holds_without_share(allocated: &Amounts, allowed: &Amounts) -> bool {
    QueueResource::ALL
        .into_iter()
        .any(|resource| allowed[resource] == 0.0 && allocated[resource] > 0.0)
}

fn compare_allowed(left: &Amounts, right: &Amounts) -> Ordering {
    match (left.bounds_le(right), right.bounds_le(left)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}
