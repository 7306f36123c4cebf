//! The worked examples of the behaviour description, one test each.

use std::cmp::Ordering;

use super::testing::{add_queue, gpu_queue, gpus, shares_with};
use super::*;
use crate::compatibility::Compatibility::{self, Kai, Right};
use crate::ids::QueueId;
use crate::time::Timestamp;

const GPU: QueueResource = QueueResource::Gpu;

fn divide(queues: &[QueueShares], total: f64, k: f64, mode: Compatibility) -> Vec<f64> {
    let mut tree = QueueTree::default();
    for (position, shares) in queues.iter().enumerate() {
        add_queue(&mut tree, &format!("q{position}"), None, *shares);
    }
    divide_fair_shares(&mut tree, &gpus(total), k, mode);
    tree.queues.iter().map(|node| node.shares.fair_share[GPU]).collect()
}

fn with_weight(shares: QueueShares, weight: f64) -> QueueShares {
    QueueShares { over_quota_weight: gpus(weight), ..shares }
}

fn with_priority(shares: QueueShares, priority: i32) -> QueueShares {
    QueueShares { priority, ..shares }
}

#[test]
fn fair_share_with_remainders_goes_to_the_larger_rest() {
    let queues = [gpu_queue(2.0, 10.0), with_weight(gpu_queue(2.0, 10.0), 4.0)];
    for mode in [Kai, Right] {
        assert_eq!(divide(&queues, 11.0, 0.0, mode), [3.0, 8.0]);
    }
}

#[test]
fn fair_share_with_equal_remainders_goes_to_the_older() {
    let older = QueueShares { created: Timestamp::from_seconds(1.0), ..gpu_queue(2.0, 6.0) };
    let younger = QueueShares { created: Timestamp::from_seconds(2.0), ..gpu_queue(2.0, 6.0) };
    for mode in [Kai, Right] {
        assert_eq!(divide(&[older, younger], 11.0, 0.0, mode), [6.0, 5.0]);
        assert_eq!(divide(&[younger, older], 11.0, 0.0, mode), [5.0, 6.0]);
    }
}

#[test]
fn over_quota_goes_to_the_higher_priority() {
    let queues = [with_priority(gpu_queue(2.0, 6.0), 1), with_priority(gpu_queue(2.0, 6.0), 2)];
    for mode in [Kai, Right] {
        assert_eq!(divide(&queues, 6.0, 0.0, mode), [2.0, 4.0]);
    }
}

#[test]
fn rounding_left_overs_leak_to_lower_priorities_only_like_the_reference() {
    let high = with_priority(gpu_queue(0.0, 5.0), 2);
    let low = with_priority(gpu_queue(0.0, 5.0), 1);
    assert_eq!(divide(&[high, high, low], 3.0, 0.0, Kai), [1.0, 1.0, 1.0]);
    assert_eq!(divide(&[high, high, low], 3.0, 0.0, Right), [2.0, 1.0, 0.0]);
}

#[test]
fn over_subscription_lets_shares_exceed_the_total() {
    for mode in [Kai, Right] {
        assert_eq!(divide(&[gpu_queue(3.0, 2.0)], 1.0, 0.0, mode), [2.0]);
    }
}

#[test]
fn past_usage_bends_the_shares() {
    let used = |usage| QueueShares { usage: gpus(usage), ..gpu_queue(0.0, 10.0) };
    for mode in [Kai, Right] {
        assert_eq!(divide(&[used(0.4), used(0.1)], 10.0, 1.0, mode), [4.0, 6.0]);
        assert_eq!(divide(&[used(0.4), used(0.1)], 10.0, 0.0, mode), [5.0, 5.0]);
    }
}

#[test]
fn children_divide_what_their_parent_got_and_dead_slots_nothing() {
    let mut tree = QueueTree::default();
    let top = add_queue(&mut tree, "top", None, gpu_queue(4.0, 8.0));
    let other = add_queue(&mut tree, "other", None, gpu_queue(4.0, 2.0));
    let left = add_queue(&mut tree, "left", Some(top), gpu_queue(1.0, 4.0));
    let right = add_queue(&mut tree, "right", Some(top), gpu_queue(1.0, 4.0));
    let dead = add_queue(&mut tree, "dead", Some(top), gpu_queue(4.0, 4.0));
    tree.queues[dead.index()].live = false;
    divide_fair_shares(&mut tree, &gpus(8.0), 1.0, Right);
    let shares = [top, other, left, right, dead].map(|queue| tree.shares(queue).fair_share[GPU]);
    assert_eq!(shares, [6.0, 2.0, 3.0, 3.0, 0.0]);
}

/// 8 GPUs; A and B deserve 4 each. A holds `allocated`, B asks for `wanted`.
fn reclaim_example(allocated: f64, wanted: f64) -> (QueueTree, QueueId, Reclaimer) {
    let mut tree = QueueTree::default();
    let a = add_queue(&mut tree, "a", None, gpu_queue(4.0, 8.0));
    let b = add_queue(&mut tree, "b", None, gpu_queue(4.0, wanted));
    tree.queues[a.index()].shares.allocated = gpus(allocated);
    divide_fair_shares(&mut tree, &gpus(8.0), 1.0, Right);
    let required = gpus(wanted);
    let involved = ResourceSet::positive(&required);
    (tree, a, Reclaimer { queue: b, required, involved, preemptible: true })
}

fn take_units(tree: &QueueTree, a: QueueId, reclaimer: Reclaimer, units: &[f64]) -> bool {
    let mut validator = ReclaimValidator::new(tree, reclaimer, 1.0);
    units.iter().all(|&unit| {
        let unit = gpus(unit);
        validator.try_unit(tree, a, &unit, ResourceSet::positive(&unit)).is_ok()
    }) && validator.finish(tree).is_ok()
}

#[test]
fn reclaim_takes_units_while_the_queue_is_above_what_is_guaranteed() {
    let (tree, a, reclaimer) = reclaim_example(8.0, 2.0);
    assert_eq!(tree.shares(a).fair_share[GPU], 6.0);
    assert_eq!(tree.shares(reclaimer.queue).fair_share[GPU], 2.0);
    assert_eq!(can_reclaim(&tree, &reclaimer), Ok(()));
    assert!(may_be_victim(&tree, &reclaimer, a));
    assert!(take_units(&tree, a, reclaimer, &[1.0, 1.0]));
    assert!(take_units(&tree, a, reclaimer, &[4.0]));

    let (tree, a, reclaimer) = reclaim_example(8.0, 3.0);
    assert_eq!(tree.shares(a).fair_share[GPU], 5.0);
    assert!(take_units(&tree, a, reclaimer, &[1.0, 1.0, 1.0]));
}

#[test]
fn reclaim_is_refused_where_no_strategy_holds() {
    let (mut tree, a, reclaimer) = reclaim_example(4.0, 2.0);
    tree.queues[a.index()].shares.fair_share = gpus(4.0);
    assert!(!take_units(&tree, a, reclaimer, &[1.0]));
}

#[test]
fn a_search_can_say_how_much_is_missing() {
    let (tree, a, reclaimer) = reclaim_example(8.0, 4.0);
    let limit = take_limit(&tree, &reclaimer, a);
    let mut scratch = TakeScratch::default();
    let units = [gpus(3.0), gpus(3.0), gpus(2.0)];
    let most = limit.most_that_may_be_taken(GPU, &units, &mut scratch);
    // B stays within its quota, so A is protected up to its own: 8 − 4. After 3 another 3 may be taken.
    assert_eq!(most, MostTaken { amount: 6.0, exact: true });
    assert!(limit.allows_more_after(&gpus(3.0)));
    assert!(!limit.allows_more_after(&gpus(4.0)));
}

#[test]
fn saturation_must_stay_below_the_siblings() {
    let mut tree = QueueTree::default();
    let d1 = add_queue(&mut tree, "d1", None, shares_with(4.0, 0.0, 4.0));
    let d2 = add_queue(&mut tree, "d2", None, shares_with(6.0, 0.0, 4.0));
    let required = gpus(1.0);
    let involved = ResourceSet::positive(&required);
    let reclaimer = Reclaimer { queue: d1, required, involved, preemptible: true };
    let mut validator = ReclaimValidator::new(&tree, reclaimer, 1.0);
    assert_eq!(validator.try_unit(&tree, d2, &required, involved), Ok(()));
    let refusal = ReclaimRefusal::MoreSaturatedThanSibling {
        queue: d1,
        sibling: d2,
        resource: GPU,
        saturation: 1.25,
        sibling_saturation: 1.25,
    };
    assert_eq!(validator.finish(&tree), Err(refusal));
}

#[test]
fn mig_only_units_are_compared_by_gpu_only_when_right() {
    let mut tree = QueueTree::default();
    let d1 = add_queue(&mut tree, "d1", None, shares_with(4.0, 0.0, 4.0));
    let d2 = add_queue(&mut tree, "d2", None, shares_with(6.0, 0.0, 4.0));
    let required = gpus(1.0);
    let accepted = |mode| {
        let involved = involved_resources(&required, 0.0, mode);
        let reclaimer = Reclaimer { queue: d1, required, involved, preemptible: true };
        let mut validator = ReclaimValidator::new(&tree, reclaimer, 1.0);
        validator.try_unit(&tree, d2, &required, involved).is_ok()
            && validator.finish(&tree).is_ok()
    };
    assert!(accepted(Kai));
    assert!(!accepted(Right));
}

#[test]
fn a_non_preemptible_reclaimer_must_fit_into_every_quota() {
    let mut tree = QueueTree::default();
    let top = add_queue(&mut tree, "top", None, shares_with(0.0, 1.0, 9.0));
    let leaf = add_queue(&mut tree, "leaf", Some(top), shares_with(0.0, 4.0, 4.0));
    let required = gpus(2.0);
    let involved = ResourceSet::positive(&required);
    let reclaimer = Reclaimer { queue: leaf, required, involved, preemptible: false };
    assert_eq!(can_reclaim(&tree, &reclaimer), Ok(()));
    let refusal = ReclaimRefusal::NonPreemptibleAboveQuota {
        queue: top,
        resource: GPU,
        deserved: 1.0,
        would_hold: 2.0,
    };
    assert_eq!(ReclaimValidator::new(&tree, reclaimer, 1.0).finish(&tree), Err(refusal));
}

#[test]
fn queue_order_prefers_the_smaller_share_with_the_job() {
    let mut tree = QueueTree::default();
    let fuller = add_queue(&mut tree, "fuller", None, shares_with(1.0, 2.0, 2.0));
    let emptier = add_queue(&mut tree, "emptier", None, shares_with(0.0, 2.0, 2.0));
    let job = gpus(1.0);
    let contender = |queue| Contender { queue: tree.node(queue), job: Some(&job), victims: None };
    let order = compare(&contender(fuller), &contender(emptier), &gpus(4.0));
    assert_eq!(order, Ordering::Greater);
    let victims = gpus(2.0);
    let robbed = Contender { victims: Some(&victims), ..contender(fuller) };
    assert_eq!(compare(&robbed, &contender(emptier), &gpus(4.0)), Ordering::Less);
}

#[test]
fn levelled_queues_are_the_first_that_differ() {
    let mut tree = QueueTree::default();
    let shares = shares_with(0.0, 0.0, 0.0);
    let root = add_queue(&mut tree, "root", None, shares);
    let left = add_queue(&mut tree, "left", Some(root), shares);
    let right = add_queue(&mut tree, "right", Some(root), shares);
    let leaf = add_queue(&mut tree, "leaf", Some(left), shares);
    let other_root = add_queue(&mut tree, "other", None, shares);
    assert_eq!(levelled_queues(&tree, leaf, right), (left, right));
    assert_eq!(levelled_queues(&tree, leaf, other_root), (root, other_root));
    assert_eq!(levelled_queues(&tree, leaf, left), (left, left));
    assert_eq!(levelled_queues(&tree, leaf, leaf), (leaf, leaf));
}

#[test]
fn the_first_violation_is_named_from_the_leaf_upwards() {
    let mut tree = QueueTree::default();
    let mut shares = shares_with(2.0, 2.0, 2.0);
    shares.max_allowed = Amounts::new(UNLIMITED, UNLIMITED, 3.0);
    shares.allocated_non_preemptible = gpus(2.0);
    let top = add_queue(&mut tree, "top", None, shares);
    let leaf = add_queue(&mut tree, "leaf", Some(top), shares_with(0.0, 5.0, 5.0));
    assert_eq!(check_capacity(&tree, leaf, &gpus(1.0), true), Ok(()));
    assert_eq!(check_capacity(&tree, leaf, &Amounts::new(1e9, 1e9, 0.0), false), Ok(()));
    let violation = check_capacity(&tree, leaf, &gpus(1.5), true).unwrap_err();
    assert_eq!((violation.queue, violation.kind), (top, ViolationKind::OverLimit));
    let violation = check_capacity(&tree, leaf, &gpus(1.0), false).unwrap_err();
    assert_eq!(violation.kind, ViolationKind::NonPreemptibleOverQuota);
    assert_eq!((violation.bound, violation.allocated, violation.requested), (2.0, 2.0, 1.0));
}

#[test]
fn reclaim_messages_name_the_level_where_the_queues_part() {
    let mut tree = QueueTree::default();
    let top = add_queue(&mut tree, "top", None, shares_with(2.5, 2.0, 3.0));
    let leaf = add_queue(&mut tree, "leaf", Some(top), shares_with(2.5, 2.0, 3.0));
    let lone = add_queue(&mut tree, "lone", None, shares_with(0.0, UNLIMITED, 3.0));
    let message = |mode| text::reclaim_message(&tree, ("n", "p"), leaf, ("n", "j"), lone, mode);
    assert_eq!(
        message(Kai),
        "Pod n/p was preempted by workload n/j.\n\
         top uses <GPU: 2, CPU: 0 (cores), memory: 0 (GB)> with a quota of \
         <GPU: 2, CPU: Unlimited (cores), memory: Unlimited (GB)>, fair-share of \
         <GPU: 3, CPU: Unlimited (cores), memory: Unlimited (GB)> and queue priority of <0>.\n\
         lone uses <GPU: 0, CPU: 0 (cores), memory: 0 (GB)> with a quota of \
         <GPU: 0, CPU: Unlimited (cores), memory: Unlimited (GB)>, fair-share of \
         <GPU: 3, CPU: Unlimited (cores), memory: Unlimited (GB)> and queue priority of <0>."
    );
    assert!(message(Right).contains("top uses <GPU: 2.5, "));
    assert!(message(Right).contains("quota of <GPU: Unlimited, "));
}
