//! How much can at most be taken from a victim queue before every strategy refuses.
//!
//! Let V be the victim's levelled queue, `allocated` what it holds when the search starts, and `protected` what
//! is guaranteed to it against this reclaimer. A unit may be taken exactly while V holds more than
//! `protected` in some resource.
//!
//! **Theorem.** A non-empty set of units of leaves under V can be taken in some order ⇔ for some resource s
//! (the *gate*) and some unit ℓ of the set, the other units together hold less than `allocated(s) − protected(s)`
//! of s.
//! *Proof.* ⇐: take ℓ last. Units are never negative, so before every step what has been taken of s is at
//! most what all units but ℓ hold, hence V still holds more than `protected(s)` and the step is allowed.
//! ⇒: when the last unit ℓ of an order was allowed, V held more than `protected(s)` for some s. ∎
//!
//! The most that can be taken of a resource r is therefore a knapsack per gate s: weight = the unit's amount
//! of s, value = its amount of r, and one unit is free. **Lemma.** The free unit may be assumed to be the
//! heaviest of the set: exchanging the free unit for a heavier one of the same set only lightens the others.
//! So the units are packed by ascending weight, and each unit in turn is tried as the free one on top of the
//! best packing of those before it. Equal units are packed in bundles.
//!
//! The answer is exact over all orders, and marked so, when every amount is a multiple of a grain that makes
//! sums exact in `f64`; otherwise, and when there are too many different packings, it is an
//! upper bound. Either way nothing above it can ever be taken, so a search may stop on it. Orders that the
//! planner does not try (the core of a gang before its surplus) and the judgement of the whole set can only
//! lower what is really taken.

use super::amounts::{Amounts, QueueResource, UNLIMITED};
use super::reclaim::{Reclaimer, levelled_queues, protected_amounts, stays_within_quota};
use super::shares::QueueTree;
use crate::ids::QueueId;

/// Beyond this many different packings an upper bound is given instead.
const MOST_PACKINGS: usize = 1024;

/// Sums of multiples of these are exact in `f64` up to 2^53 of them.
const GRAINS: [f64; 2] = [1.0, 1.0 / 1024.0];
const EXACT_MULTIPLES: f64 = 9_007_199_254_740_992.0;

/// More than what rounding can add up to in a sum of units, relative to what is allocated.
const ROUNDING_SLACK: f64 = 1e-9;

/// What protects a victim queue from a reclaimer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TakeLimit {
    /// The victim's levelled queue: the limit is shared by all leaves below it.
    pub victim_level: QueueId,
    /// What the levelled queue holds when the search starts.
    pub allocated: Amounts,
    /// What is guaranteed to it; bounds.
    pub protected: Amounts,
    /// How much above those still counts as guaranteed.
    pub tolerance: f64,
}

/// The most that can be taken of one resource.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MostTaken {
    /// No order of the units takes more than this.
    pub amount: f64,
    /// Some order of the units takes exactly this.
    pub exact: bool,
}

/// Memory for [`TakeLimit::most_that_may_be_taken`], to be reused.
#[derive(Clone, Debug, Default)]
pub struct TakeScratch {
    items: Vec<Packing>,
    packings: Vec<Packing>,
    merged: Vec<Packing>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Packing {
    weight: f64,
    value: f64,
}

/// What protects the queue of a victim in the leaf `victim_queue`, by what the queues hold now.
pub fn take_limit(tree: &QueueTree, reclaimer: &Reclaimer, victim_queue: QueueId) -> TakeLimit {
    let (reclaimer_level, victim_level) = levelled_queues(tree, reclaimer.queue, victim_queue);
    let within_quota = stays_within_quota(&reclaimer.required, tree.shares(reclaimer_level));
    let victim = tree.shares(victim_level);
    TakeLimit {
        victim_level,
        allocated: victim.allocated,
        protected: protected_amounts(victim, within_quota),
        tolerance: victim.tolerance,
    }
}

impl TakeLimit {
    /// Whether one more unit may be taken after `taken`.
    pub fn allows_more_after(&self, taken: &Amounts) -> bool {
        !(self.allocated - *taken).within(&self.protected, self.tolerance)
    }

    /// The most of `resource` that any order of `units` takes from the leaves under the victim's levelled
    /// queue. `units` are all units that could be taken from them.
    pub fn most_that_may_be_taken(
        &self,
        resource: QueueResource,
        units: &[Amounts],
        scratch: &mut TakeScratch,
    ) -> MostTaken {
        let mut most = MostTaken { amount: 0.0, exact: true };
        for gate in QueueResource::ALL {
            let protected = self.protected[gate];
            if protected == UNLIMITED || self.allocated[gate] <= protected {
                continue;
            }
            let capacity =
                GateCapacity::before_closing(self.allocated[gate], protected, units, gate);
            let through_gate = scratch.pack(units, gate, resource, &capacity);
            if through_gate.amount > most.amount {
                most = through_gate;
            } else if through_gate.amount == most.amount {
                most.exact |= through_gate.exact;
            }
        }
        if exact_grain(units, resource, 0.0).is_none() {
            // Another order may add up to a little more.
            most.amount *= 1.0 + ROUNDING_SLACK;
            most.exact = false;
        }
        most
    }
}

/// How much weight all units but the last may have.
struct GateCapacity {
    amount: f64,
    exact: bool,
}

impl GateCapacity {
    fn before_closing(
        allocated: f64,
        protected: f64,
        units: &[Amounts],
        gate: QueueResource,
    ) -> Self {
        if let Some(grain) = exact_grain(units, gate, allocated) {
            // In multiples of the grain, more than `protected` means at least the next multiple.
            let least_allocated = ((protected / grain).floor() + 1.0) * grain;
            Self { amount: allocated - least_allocated, exact: true }
        } else {
            let slack = ROUNDING_SLACK * allocated.max(1.0);
            Self { amount: allocated - protected + slack, exact: false }
        }
    }
}

/// A grain of which `allocated` and every unit's amount of `resource` are multiples and their sum an exact one.
fn exact_grain(units: &[Amounts], resource: QueueResource, allocated: f64) -> Option<f64> {
    let amounts = || units.iter().map(|unit| unit[resource]).chain([allocated]);
    let total: f64 = amounts().sum();
    GRAINS.into_iter().find(|grain| {
        total / grain <= EXACT_MULTIPLES && amounts().all(|amount| (amount / grain).fract() == 0.0)
    })
}

impl TakeScratch {
    fn pack(
        &mut self,
        units: &[Amounts],
        gate: QueueResource,
        resource: QueueResource,
        gate_capacity: &GateCapacity,
    ) -> MostTaken {
        self.items.clear();
        self.items
            .extend(units.iter().map(|unit| Packing { weight: unit[gate], value: unit[resource] }));
        self.items.sort_by(|a, b| {
            a.weight.total_cmp(&b.weight).then_with(|| a.value.total_cmp(&b.value))
        });
        self.packings.clear();
        self.packings.push(Packing { weight: 0.0, value: 0.0 });
        let all_but_last: f64 = self.items.iter().rev().skip(1).map(|item| item.weight).sum();
        if all_but_last <= gate_capacity.amount {
            let amount = self.items.iter().map(|item| item.value).sum();
            return MostTaken { amount, exact: gate_capacity.exact };
        }
        let mut amount: f64 = 0.0;
        let mut start = 0;
        while start < self.items.len() {
            let item = self.items[start];
            let copies = self.items[start..].iter().take_while(|&other| *other == item).count();
            start += copies;
            // Of equal units the last is the free one, on top of packings with all the others.
            self.add_copies(item, copies - 1, gate_capacity.amount);
            // The last packing is the most valuable one.
            let best_before = self.packings.last().map_or(0.0, |packing| packing.value);
            amount = amount.max(best_before + item.value);
            self.add_item(item, gate_capacity.amount);
            if self.packings.len() > MOST_PACKINGS {
                return MostTaken { amount: self.relaxed(gate_capacity.amount), exact: false };
            }
        }
        MostTaken { amount, exact: gate_capacity.exact }
    }

    /// Every packing with any number of the copies: bundles of 1, 2, 4… make up every number.
    fn add_copies(&mut self, item: Packing, copies: usize, capacity: f64) {
        let (mut left, mut bundle) = (copies, 1);
        while left > 0 && self.packings.len() <= MOST_PACKINGS {
            let size = bundle.min(left) as f64;
            let bundled = Packing { weight: item.weight * size, value: item.value * size };
            self.add_item(bundled, capacity);
            left -= bundle.min(left);
            bundle *= 2;
        }
    }

    /// Every packing with and without `item`, less those that are heavier than a better one.
    fn add_item(&mut self, item: Packing, capacity: f64) {
        let with_item = |packing: &Packing| Packing {
            weight: packing.weight + item.weight,
            value: packing.value + item.value,
        };
        self.merged.clear();
        let mut without = self.packings.iter().copied().peekable();
        let mut with = self
            .packings
            .iter()
            .map(with_item)
            .take_while(|packing| packing.weight <= capacity)
            .peekable();
        loop {
            let next = match (without.peek(), with.peek()) {
                (Some(a), Some(b)) if b.weight < a.weight => with.next(),
                (Some(_), _) => without.next(),
                (None, _) => with.next(),
            };
            let Some(packing) = next else { break };
            match self.merged.last_mut() {
                Some(last) if packing.value <= last.value => {}
                Some(last) if packing.weight == last.weight => *last = packing,
                _ => self.merged.push(packing),
            }
        }
        std::mem::swap(&mut self.packings, &mut self.merged);
    }

    /// An upper bound: the most valuable unit free, the others divisible at will.
    fn relaxed(&mut self, capacity: f64) -> f64 {
        let free = self.items.iter().fold(0.0, |most: f64, item| most.max(item.value));
        let density = |item: &Packing| match item.weight {
            0.0 => f64::INFINITY,
            weight => item.value / weight,
        };
        self.items.sort_by(|a, b| density(b).total_cmp(&density(a)));
        let mut free_capacity = capacity;
        let mut packed = 0.0;
        for item in &self.items {
            if item.weight <= free_capacity {
                free_capacity -= item.weight;
                packed += item.value;
            } else {
                packed += item.value * (free_capacity / item.weight);
                break;
            }
        }
        free + packed
    }
}
