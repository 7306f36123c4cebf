//! Fair-share division: how sibling queues share what their parent (or the cluster) has.
//!
//! Rule, per resource and sibling group with total T:
//! 1. Every queue gets what it asks for up to its quota, whatever its priority. Together they may get more
//!    than T; then nothing is left to divide. What a queue neither asks for nor lends of its quota is not divided.
//! 2. What is left goes to the queues that still want something, by priority from high to low, within a
//!    priority in rounds in proportion to weight (bent by past usage through `k`). A queue that wants more
//!    than it is offered gets the whole units of the offer, and the broken rest is remembered.
//! 3. Broken rests are made up in units of one, largest rest first, then older queue, then name.
//!
//! Where a high priority ends: the reference runs step 2 for *all* priorities before step 3 for any, so the
//! rounding left-overs of a high priority are divided among lower ones before the high one sees them. That
//! order is kept under [`Compatibility::Kai`]; under [`Compatibility::Right`] a priority is finished,
//! broken rests included, before the next begins.
//!
//! Sums run in the order priority, name, so neither slot order nor the order of siblings matters, not even
//! in the last bit.

use std::cmp::Ordering;

use super::amounts::{Amounts, QueueResource, UNLIMITED, compare_numbers};
use super::shares::{QueueShares, QueueTree};
use crate::compatibility::Compatibility;
use crate::ids::QueueId;

/// Divides `cluster_total` over the whole tree, top-down, and stores the result in every live queue's
/// `fair_share`; what was there before is forgotten.
pub fn divide_fair_shares(
    tree: &mut QueueTree,
    cluster_total: &Amounts,
    k: f64,
    compatibility: Compatibility,
) {
    for node in &mut tree.queues {
        node.shares.fair_share = Amounts::ZERO;
    }
    let mut groups = vec![(*cluster_total, tree.top_queues().collect::<Vec<_>>())];
    while let Some((total, mut siblings)) = groups.pop() {
        sort_for_division(tree, &mut siblings);
        for resource in QueueResource::ALL {
            divide_sorted(tree, &siblings, resource, total[resource], k, compatibility);
        }
        for queue in siblings {
            let children: Vec<_> = tree.live_children(queue).collect();
            if !children.is_empty() {
                groups.push((tree.shares(queue).fair_share, children));
            }
        }
    }
}

/// Divides `total` of one resource among the live ones of `siblings`, on top of the fair shares they already
/// have. Returns what no queue got, never below zero.
pub fn divide_among_siblings(
    tree: &mut QueueTree,
    siblings: &[QueueId],
    resource: QueueResource,
    total: f64,
    k: f64,
    compatibility: Compatibility,
) -> f64 {
    let mut sorted: Vec<_> =
        siblings.iter().copied().filter(|&queue| tree.node(queue).live).collect();
    sort_for_division(tree, &mut sorted);
    divide_sorted(tree, &sorted, resource, total, k, compatibility)
}

fn sort_for_division(tree: &QueueTree, siblings: &mut [QueueId]) {
    siblings.sort_by(|&left, &right| {
        let by_priority = tree.shares(right).priority.cmp(&tree.shares(left).priority);
        by_priority.then_with(|| tree.compare_names(left, right))
    });
}

fn divide_sorted(
    tree: &mut QueueTree,
    sorted: &[QueueId],
    resource: QueueResource,
    total: f64,
    k: f64,
    compatibility: Compatibility,
) -> f64 {
    let mut division = Division { tree, resource, k, left: total };
    division.give_deserved(sorted, total);
    if division.left <= 0.0 {
        return 0.0;
    }
    let same_priority = |tree: &QueueTree, a: QueueId, b: QueueId| {
        tree.shares(a).priority == tree.shares(b).priority
    };
    let mut rests_by_priority = Vec::new();
    let mut unvisited = sorted;
    while let Some(&first) = unvisited.first() {
        let end = unvisited
            .iter()
            .position(|&queue| !same_priority(division.tree, first, queue))
            .unwrap_or(unvisited.len());
        let (group, lower) = unvisited.split_at(end);
        unvisited = lower;
        let rests = division.give_by_weight(group);
        if compatibility.is_kai() {
            rests_by_priority.push(rests);
        } else {
            division.make_up_rests(rests);
        }
    }
    for rests in rests_by_priority {
        division.make_up_rests(rests);
    }
    division.left.max(0.0)
}

/// What a queue was offered beyond whole units.
struct BrokenRest {
    queue: QueueId,
    rest: f64,
}

/// One division under way.
struct Division<'a> {
    tree: &'a mut QueueTree,
    resource: QueueResource,
    k: f64,
    /// What no queue was given yet.
    left: f64,
}

impl Division<'_> {
    fn shares(&self, queue: QueueId) -> &QueueShares {
        self.tree.shares(queue)
    }

    fn give(&mut self, queue: QueueId, amount: f64) {
        self.tree.queues[queue.index()].shares.fair_share[self.resource] += amount;
        self.left -= amount;
    }

    fn give_deserved(&mut self, siblings: &[QueueId], total: f64) {
        for &queue in siblings {
            let shares = self.shares(queue);
            let deserved = match shares.deserved[self.resource] {
                UNLIMITED => total,
                quota => quota,
            };
            let amount = deserved.min(shares.requestable(self.resource));
            let withheld = shares.withheld(self.resource, amount);
            self.give(queue, amount);
            self.left -= withheld;
        }
    }

    /// Step 2 for the queues of one priority.
    fn give_by_weight(&mut self, group: &[QueueId]) -> Vec<BrokenRest> {
        let mut rests = Vec::new();
        let mut share_weights = vec![0.0; group.len()];
        loop {
            let offered_in_round = self.left;
            let weight_sum = self.share_weights(group, &mut share_weights);
            if weight_sum == 0.0 {
                break;
            }
            let mut someone_wanted_less = false;
            for (&queue, &share_weight) in group.iter().zip(&share_weights) {
                if self.left == 0.0 {
                    break;
                }
                let weight = self.shares(queue).over_quota_weight[self.resource];
                if self.is_satisfied(queue) || weight == 0.0 {
                    continue;
                }
                let offer = offered_in_round * (share_weight / weight_sum);
                let want = self.want(queue);
                let amount = accept(queue, want, offer, &mut rests);
                if amount != 0.0 {
                    self.give(queue, amount);
                    someone_wanted_less |= want < offer;
                }
            }
            if !someone_wanted_less || self.left == 0.0 {
                break;
            }
        }
        rests
    }

    /// Fills in the share weight of every unsatisfied queue of `group` and returns their sum.
    fn share_weights(&self, group: &[QueueId], share_weights: &mut [f64]) -> f64 {
        let mut wanting_weight = 0.0;
        for &queue in group {
            if self.want(queue) > 0.0 {
                wanting_weight += self.shares(queue).over_quota_weight[self.resource];
            }
        }
        if wanting_weight == 0.0 {
            return 0.0;
        }
        let mut sum = 0.0;
        for (&queue, share_weight) in group.iter().zip(share_weights) {
            if self.is_satisfied(queue) {
                continue;
            }
            let shares = self.shares(queue);
            let weight = shares.over_quota_weight[self.resource] / wanting_weight;
            // Kept as two roundings: a fused multiply-add would differ in the last bit.
            let bend = self.k * (weight - shares.usage[self.resource]);
            *share_weight = (weight + bend).max(0.0);
            sum += *share_weight;
        }
        sum
    }

    fn is_satisfied(&self, queue: QueueId) -> bool {
        let shares = self.shares(queue);
        let (limit, got) = (shares.max_allowed[self.resource], shares.fair_share[self.resource]);
        shares.request[self.resource] <= got || (limit != UNLIMITED && limit <= got)
    }

    fn want(&self, queue: QueueId) -> f64 {
        let shares = self.shares(queue);
        (shares.requestable(self.resource) - shares.fair_share[self.resource]).max(0.0)
    }

    /// Step 3 for the rests of one priority.
    fn make_up_rests(&mut self, mut rests: Vec<BrokenRest>) {
        rests.sort_by(|left, right| self.compare_rests(left, right));
        for BrokenRest { queue, .. } in rests {
            if self.left <= 0.0 {
                break;
            }
            let amount = self.left.min(1.0);
            self.give(queue, amount);
        }
    }

    fn compare_rests(&self, left: &BrokenRest, right: &BrokenRest) -> Ordering {
        let by_rest = compare_numbers(right.rest, left.rest);
        by_rest
            .then_with(|| self.shares(left.queue).created.cmp(&self.shares(right.queue).created))
            .then_with(|| self.tree.compare_names(left.queue, right.queue))
    }
}

/// What a queue takes of an offer, its broken rest remembered or, once it has all it wants, forgotten. A
/// rest of an earlier round stays when the offer of this round has none.
fn accept(queue: QueueId, want: f64, offer: f64, rests: &mut Vec<BrokenRest>) -> f64 {
    let remembered = rests.iter().position(|rest| rest.queue == queue);
    if want <= offer {
        if let Some(position) = remembered {
            rests.swap_remove(position);
        }
        return want;
    }
    let whole = offer.floor().max(0.0);
    let rest = offer - whole;
    if rest > 0.0 {
        match remembered {
            Some(position) => rests[position].rest = rest,
            None => rests.push(BrokenRest { queue, rest }),
        }
    }
    whole
}
