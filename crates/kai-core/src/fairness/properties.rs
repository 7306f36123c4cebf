//! Facts that hold for every tree.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::testing::add_queue;
use super::*;
use crate::compatibility::Compatibility;
use crate::ids::QueueId;
use crate::time::Timestamp;

const NOISE: f64 = 1e-6;

fn modes() -> impl Strategy<Value = Compatibility> {
    prop_oneof![Just(Compatibility::Kai), Just(Compatibility::Right)]
}

/// Small enough to meet bounds exactly, with halves.
fn amount() -> impl Strategy<Value = f64> {
    (0..13_u8).prop_map(|halves| f64::from(halves) / 2.0)
}

/// What pods ask for: often nothing of a resource.
fn asked_amount() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), amount()]
}

fn bound() -> impl Strategy<Value = f64> {
    prop_oneof![4 => amount(), 1 => Just(UNLIMITED)]
}

fn all_three(number: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Amounts> {
    [number.clone(), number.clone(), number]
        .prop_map(|[cpu, memory, gpu]| Amounts::new(cpu, memory, gpu))
}

fn queue_shares() -> impl Strategy<Value = QueueShares> + Clone {
    let bounds = (all_three(bound().boxed()), all_three(bound().boxed()));
    let weights = all_three((0..4_u8).prop_map(|tenths| f64::from(tenths) * 0.1).boxed());
    let allocated = (all_three(amount().boxed()), all_three(amount().boxed()));
    let asked = all_three((0..40_u8).prop_map(|halves| f64::from(halves) / 2.0).boxed());
    let usage = all_three((0..11_u8).prop_map(|tenths| f64::from(tenths) / 10.0).boxed());
    let fair_share = all_three(bound().boxed());
    (bounds, weights, allocated, asked, usage, fair_share, 0..3_i32, 0..3_u8)
        .prop_map(
            |(bounds, over_quota_weight, allocated, asked, usage, fair_share, priority, age)| {
                QueueShares {
                    deserved: bounds.0,
                    max_allowed: bounds.1,
                    lending_limit: None,
                    over_quota_weight,
                    allocated: allocated.0,
                    allocated_non_preemptible: allocated.0.min(allocated.1),
                    request: allocated.0 + asked,
                    usage,
                    fair_share,
                    priority,
                    created: Timestamp::from_seconds(f64::from(age)),
                    tolerance: 0.0,
                }
            },
        )
        .boxed()
}

/// Queues that want more than there is: what is left above the quotas is divided with many broken rests.
fn contending_queue() -> impl Strategy<Value = QueueShares> {
    (0..30_u8, 30..200_u8, 1..30_u8, 0..2_i32).prop_map(|(deserved, request, weight, priority)| {
        QueueShares {
            over_quota_weight: testing::gpus(f64::from(weight) * 0.1),
            priority,
            ..testing::gpu_queue(f64::from(deserved) * 0.1, f64::from(request) * 0.1)
        }
    })
}

/// Trees of up to eight queues; a queue's parent always comes before it.
fn tree() -> impl Strategy<Value = QueueTree> {
    vec((queue_shares(), any::<prop::sample::Index>()), 2..9).prop_map(|queues| {
        let mut tree = QueueTree::default();
        for (slot, (shares, place)) in queues.into_iter().enumerate() {
            // Place 0 is the top, the others are the queues so far.
            let parent = place.index(slot + 1).checked_sub(1).map(QueueId::new);
            add_queue(&mut tree, &format!("q{slot}"), parent, shares);
        }
        tree
    })
}

fn leaves(tree: &QueueTree) -> Vec<QueueId> {
    let slots = (0..tree.queues.len()).map(QueueId::new);
    slots.filter(|&queue| tree.node(queue).children.is_empty()).collect()
}

fn siblings(queues: &[QueueShares]) -> (QueueTree, Vec<QueueId>) {
    let mut tree = QueueTree::default();
    let ids = queues
        .iter()
        .enumerate()
        .map(|(slot, shares)| {
            let shares = QueueShares { fair_share: Amounts::ZERO, ..*shares };
            add_queue(&mut tree, &format!("q{slot}"), None, shares)
        })
        .collect();
    (tree, ids)
}

fn divided(queues: &[QueueShares], total: f64, k: f64, mode: Compatibility) -> (Vec<f64>, f64) {
    let (mut tree, ids) = siblings(queues);
    let left = divide_among_siblings(&mut tree, &ids, QueueResource::Gpu, total, k, mode);
    let shares = ids.iter().map(|&queue| tree.shares(queue).fair_share[QueueResource::Gpu]);
    (shares.collect(), left)
}

fn deserved_part(shares: &QueueShares, total: f64) -> f64 {
    let quota = shares.deserved[QueueResource::Gpu];
    let quota = if quota == UNLIMITED { total } else { quota };
    quota.min(shares.requestable(QueueResource::Gpu))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn division_gives_out_no_more_than_there_is_or_is_deserved(
        queues in vec(queue_shares(), 1..7), total in 0..60_u8, k in 0..3_u8, mode in modes(),
    ) {
        let total = f64::from(total);
        let (shares, left) = divided(&queues, total, f64::from(k), mode);
        let deserved: f64 = queues.iter().map(|queue| deserved_part(queue, total)).sum();
        let given: f64 = shares.iter().sum();
        prop_assert!(left >= 0.0);
        let (mut tree, ids) = siblings(&queues);
        let corpse = add_queue(&mut tree, "dead", None, queues[0]);
        tree.queues[corpse.index()].live = false;
        let with_dead = [ids, vec![corpse]].concat();
        let gpu = QueueResource::Gpu;
        let same_left =
            divide_among_siblings(&mut tree, &with_dead, gpu, total, f64::from(k), mode);
        prop_assert_eq!(left, same_left);
        if deserved >= total {
            prop_assert_eq!((given, left), (deserved, 0.0));
        } else {
            prop_assert!((given + left - total).abs() < NOISE);
        }
        for (queue, share) in queues.iter().zip(&shares) {
            prop_assert!(*share >= deserved_part(queue, total));
            // Making up for a broken rest may exceed what is asked for, by less than the one unit given.
            prop_assert!(*share < queue.requestable(QueueResource::Gpu) + 1.0);
        }
    }

    #[test]
    fn the_order_of_siblings_and_dead_slots_change_nothing(
        mut tree in tree(), dead in queue_shares(), scale in 1.0..20.0_f64,
        total in all_three(amount().boxed()), mode in modes(), seed in any::<u64>(),
    ) {
        let mut shuffled = QueueTree::default();
        // Slots in another order: the step has no common factor with any length below 9.
        let length = tree.queues.len();
        let start = (seed % length as u64) as usize;
        let order: Vec<_> = (0..length).map(|step| (start + step * 11) % length).collect();
        let moved = |queue: QueueId| {
            let position = order.iter().position(|&slot| slot == queue.index());
            QueueId::new(position.expect("every slot is somewhere"))
        };
        for &slot in &order {
            let mut node = tree.queues[slot].clone();
            node.parent = node.parent.map(moved);
            node.children = node.children.into_iter().rev().map(moved).collect();
            shuffled.queues.push(node);
        }
        let total = Amounts::from_fn(|resource| total[resource] * scale);
        let corpse = add_queue(&mut shuffled, "dead", Some(QueueId::new(0)), dead);
        shuffled.queues[corpse.index()].live = false;
        divide_fair_shares(&mut tree, &total, 1.0, mode);
        divide_fair_shares(&mut shuffled, &total, 1.0, mode);
        for (position, &slot) in order.iter().enumerate() {
            let (one, other) = (&tree.queues[slot], &shuffled.queues[position]);
            prop_assert_eq!(one.shares.fair_share, other.shares.fair_share);
        }
    }

    #[test]
    fn the_order_of_slots_changes_no_bit_of_a_share(
        queues in vec(contending_queue(), 3..9), total in 0.0..60.0_f64, mode in modes(),
        usage in vec(0.0..1.0_f64, 9),
    ) {
        let gpu = QueueResource::Gpu;
        let (mut forwards, ids) = siblings(&queues);
        for (node, usage) in forwards.queues.iter_mut().zip(usage) {
            node.shares.usage[gpu] = usage;
        }
        let mut backwards = forwards.clone();
        backwards.queues.reverse();
        let left = divide_among_siblings(&mut forwards, &ids, gpu, total, 1.0, mode);
        let other_left = divide_among_siblings(&mut backwards, &ids, gpu, total, 1.0, mode);
        prop_assert_eq!(left.to_bits(), other_left.to_bits());
        for (one, other) in forwards.queues.iter().zip(backwards.queues.iter().rev()) {
            let (one, other) = (one.shares.fair_share[gpu], other.shares.fair_share[gpu]);
            prop_assert_eq!(one.to_bits(), other.to_bits());
        }
    }

    #[test]
    fn lower_priorities_cannot_touch_a_higher_one_when_right(
        mut queues in vec(contending_queue(), 3..9), total in 0..60_u8,
    ) {
        let total = f64::from(total);
        let mut greedier = queues.clone();
        for (queue, greedy) in queues.iter_mut().zip(&mut greedier) {
            if queue.priority == 0 {
                queue.over_quota_weight[QueueResource::Gpu] = 0.0;
                greedy.over_quota_weight[QueueResource::Gpu] = 1.0;
            }
        }
        let before = divided(&queues, total, 1.0, Compatibility::Right).0;
        let after = divided(&greedier, total, 1.0, Compatibility::Right).0;
        for (position, queue) in queues.iter().enumerate() {
            if queue.priority > 0 {
                prop_assert_eq!(before[position], after[position]);
            }
        }
    }

    #[test]
    fn the_highest_priority_never_gets_less_when_right_than_like_the_reference(
        queues in vec(queue_shares(), 2..7), total in 0..60_u8, k in 0..3_u8,
    ) {
        let (total, k) = (f64::from(total), f64::from(k));
        let right = divided(&queues, total, k, Compatibility::Right).0;
        let kai = divided(&queues, total, k, Compatibility::Kai).0;
        let highest = queues.iter().map(|queue| queue.priority).max();
        for (position, queue) in queues.iter().enumerate() {
            if Some(queue.priority) == highest {
                prop_assert!(right[position] >= kai[position]);
            }
        }
    }

    #[test]
    fn queue_order_is_the_same_from_both_sides(
        left in queue_shares(), right in queue_shares(), job in all_three(amount().boxed()),
        victims in all_three(amount().boxed()), total in all_three(amount().boxed()),
    ) {
        let (tree, ids) = siblings(&[left, right]);
        let [left, right] = [ids[0], ids[1]].map(|queue| Contender {
            queue: tree.node(queue), job: Some(&job), victims: Some(&victims),
        });
        let order = compare(&left, &right, &total);
        prop_assert_ne!(order, Ordering::Equal);
        prop_assert_eq!(order.reverse(), compare(&right, &left, &total));
    }
}

/// The rules for a set of victims, evaluated from scratch: the refused unit, then whether the whole is accepted.
fn judge_from_scratch(
    tree: &QueueTree,
    reclaimer: &Reclaimer,
    multiplier: f64,
    units: &[(QueueId, Amounts)],
) -> (Option<usize>, bool) {
    let mut remaining: BTreeMap<QueueId, Amounts> = BTreeMap::new();
    let mut involved: BTreeMap<QueueId, ResourceSet> = BTreeMap::new();
    let path = |queue: QueueId| -> Vec<QueueId> {
        let mut path: Vec<_> = tree.chain(queue).collect();
        path.reverse();
        path
    };
    let left_of = |remaining: &BTreeMap<QueueId, Amounts>, queue: QueueId| {
        remaining.get(&queue).copied().unwrap_or(tree.shares(queue).allocated)
    };
    for (position, (queue, unit)) in units.iter().enumerate() {
        let (own, other) = (path(reclaimer.queue), path(*queue));
        let pairs: Vec<_> = own.into_iter().zip(other).collect();
        let differing = pairs.iter().find(|(own, other)| own != other);
        let (own, other) = *differing.unwrap_or(&pairs[pairs.len() - 1]);
        let rem = left_of(&remaining, other);
        let (own, other) = (tree.shares(own), tree.shares(other));
        if !maintains_fair_share(other, &rem)
            && !guarantees_deserved_quota(&reclaimer.required, own, other, &rem)
        {
            return (Some(position), false);
        }
        for queue in tree.chain(*queue) {
            remaining.insert(queue, left_of(&remaining, queue) - *unit);
            let known = involved.entry(queue).or_default();
            *known = known.union(ResourceSet::positive(unit));
        }
    }
    let accepted = tree.chain(reclaimer.queue).all(|queue| {
        let shares = tree.shares(queue);
        let would_hold = left_of(&remaining, queue) + reclaimer.required;
        let quota_kept = reclaimer.preemptible
            || (shares.allocated_non_preemptible + reclaimer.required)
                .within(&shares.deserved, 0.0);
        quota_kept
            && remaining.iter().all(|(&sibling, rem)| {
                let is_sibling = sibling != queue && tree.parent(sibling) == tree.parent(queue);
                let due = &tree.shares(sibling).fair_share;
                !is_sibling
                    || involved[&sibling].union(reclaimer.involved).iter().all(|resource| {
                        let ratio = |amount: f64, due: f64| match due {
                            0.0 if amount > 0.0 => f64::INFINITY,
                            0.0 | UNLIMITED => 0.0,
                            due => amount / due,
                        };
                        let own = ratio(would_hold[resource], shares.fair_share[resource]);
                        let other = ratio(rem[resource], due[resource]);
                        own <= 1.0 || due[resource] <= 0.0 || own * multiplier < other
                    })
            })
    });
    (None, accepted)
}

fn judge_by_validator(
    validator: &mut ReclaimValidator,
    tree: &QueueTree,
    units: &[(QueueId, Amounts)],
) -> (Option<usize>, bool) {
    for (position, (queue, unit)) in units.iter().enumerate() {
        let involved = ResourceSet::positive(unit);
        if validator.try_unit(tree, *queue, unit, involved).is_err() {
            return (Some(position), false);
        }
    }
    (None, validator.finish(tree).is_ok())
}

/// A tree, a reclaimer in one of its leaves, and units of its leaves.
fn reclaim_case() -> impl Strategy<Value = (QueueTree, Reclaimer, Vec<(QueueId, Amounts)>)> {
    let place = any::<prop::sample::Index>;
    let unit = (place(), all_three(asked_amount().boxed()));
    let reclaimer = (place(), all_three(asked_amount().boxed()), any::<bool>());
    (tree(), reclaimer, vec(unit, 0..6)).prop_map(
        |(tree, (place, required, preemptible), units)| {
            let leaves = leaves(&tree);
            let queue = *place.get(&leaves);
            let involved = ResourceSet::positive(&required);
            let reclaimer = Reclaimer { queue, required, involved, preemptible };
            let units =
                units.into_iter().map(|(place, unit)| (*place.get(&leaves), unit)).collect();
            (tree, reclaimer, units)
        },
    )
}

/// Calls `visit` with every order of `items`.
fn each_order<T: Copy>(items: &mut Vec<T>, from: usize, visit: &mut impl FnMut(&[T])) {
    if from == items.len() {
        visit(items);
    }
    for position in from..items.len() {
        items.swap(from, position);
        each_order(items, from + 1, visit);
        items.swap(from, position);
    }
}

/// The most of each resource that any order takes, by trying all of them.
fn most_by_trying(tree: &QueueTree, reclaimer: Reclaimer, units: &[(QueueId, Amounts)]) -> Amounts {
    let mut validator = ReclaimValidator::new(tree, reclaimer, 1.0);
    let mut most = Amounts::ZERO;
    each_order(&mut units.to_vec(), 0, &mut |order| {
        validator.restart();
        let mut taken = Amounts::ZERO;
        for (queue, unit) in order {
            if validator.try_unit(tree, *queue, unit, ResourceSet::EMPTY).is_err() {
                break;
            }
            taken += *unit;
            most = Amounts::from_fn(|resource| most[resource].max(taken[resource]));
        }
    });
    most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_validator_agrees_with_the_rules_from_scratch(
        (mut tree, reclaimer, units) in reclaim_case(), multiplier in 1..3_u8,
        other_units in reclaim_case(),
    ) {
        let multiplier = f64::from(multiplier);
        let expected = judge_from_scratch(&tree, &reclaimer, multiplier, &units);
        // A validator that was used for another search and another set of victims must not remember them.
        let (other_tree, other_reclaimer, other_units) = other_units;
        let mut validator = ReclaimValidator::new(&other_tree, other_reclaimer, 1.0);
        judge_by_validator(&mut validator, &other_tree, &other_units);
        validator.begin(&tree, reclaimer, multiplier);
        judge_by_validator(&mut validator, &tree, &units[..units.len() / 2]);
        validator.restart();
        // What the tree holds after the start of the search does not count.
        for node in &mut tree.queues {
            node.shares.allocated = Amounts::new(99.0, 0.0, 99.0);
            node.shares.allocated_non_preemptible = Amounts::new(99.0, 0.0, 0.0);
        }
        prop_assert_eq!(judge_by_validator(&mut validator, &tree, &units), expected);
    }

    #[test]
    fn the_most_that_may_be_taken_is_what_trying_all_orders_takes(
        (tree, reclaimer, units) in reclaim_case(), victim in any::<prop::sample::Index>(),
    ) {
        let victim = *victim.get(&leaves(&tree));
        let limit = take_limit(&tree, &reclaimer, victim);
        let below = |queue: QueueId| tree.chain(queue).any(|above| above == limit.victim_level);
        // Where the levelled queue is the reclaimer's too, leaves below it have other levels.
        if below(reclaimer.queue) {
            return Ok(());
        }
        let units: Vec<_> = units.into_iter().filter(|(queue, _)| below(*queue)).collect();
        let tried = most_by_trying(&tree, reclaimer, &units);
        let sizes: Vec<_> = units.iter().map(|(_, unit)| *unit).collect();
        let mut scratch = TakeScratch::default();
        for resource in QueueResource::ALL {
            let most = limit.most_that_may_be_taken(resource, &sizes, &mut scratch);
            prop_assert_eq!(most, MostTaken { amount: tried[resource], exact: true });
        }
    }

    #[test]
    fn the_most_that_may_be_taken_is_never_too_little(
        (mut tree, reclaimer, units) in reclaim_case(), scale in 0.01..3.0_f64,
    ) {
        let scaled = |amounts: Amounts| Amounts::from_fn(|resource| match amounts[resource] {
            UNLIMITED => UNLIMITED,
            amount => amount * scale,
        });
        for node in &mut tree.queues {
            node.shares.allocated = scaled(node.shares.allocated);
            node.shares.deserved = scaled(node.shares.deserved);
            node.shares.fair_share = scaled(node.shares.fair_share);
        }
        let victim = *leaves(&tree).last().expect("every tree has a leaf");
        let limit = take_limit(&tree, &reclaimer, victim);
        let below = |queue: QueueId| tree.chain(queue).any(|above| above == limit.victim_level);
        if below(reclaimer.queue) {
            return Ok(());
        }
        let units: Vec<_> = units
            .into_iter()
            .filter(|(queue, _)| below(*queue))
            .map(|(queue, unit)| (queue, scaled(unit)))
            .collect();
        let tried = most_by_trying(&tree, reclaimer, &units);
        let sizes: Vec<_> = units.iter().map(|(_, unit)| *unit).collect();
        let mut scratch = TakeScratch::default();
        for resource in QueueResource::ALL {
            let most = limit.most_that_may_be_taken(resource, &sizes, &mut scratch);
            prop_assert!(most.amount >= tried[resource]);
        }
    }
}

#[test]
fn too_many_packings_still_give_an_upper_bound() {
    let size = |step: u32| f64::from(step * step % 9973 + 1);
    let units: Vec<_> = (0..300).map(|step| testing::gpus(size(step))).collect();
    let everything: f64 = (0..300).map(size).sum();
    let largest = (0..300).map(size).fold(0.0, f64::max);
    let limit = TakeLimit {
        victim_level: QueueId::new(0),
        allocated: testing::gpus(everything),
        protected: testing::gpus(everything - 5000.0),
        tolerance: 0.0,
    };
    let mut scratch = TakeScratch::default();
    let most = limit.most_that_may_be_taken(QueueResource::Gpu, &units, &mut scratch);
    assert_eq!(most, MostTaken { amount: 4999.0 + largest, exact: false });
}
