//! Random queues: up to three levels, quotas that bind, parents that are missing.

use kai_core::fairness::{Amounts, UNLIMITED};
use kai_core::input::{QueueSpec, Text, UsageSpec};
use kai_core::time::{Span, Timestamp};
use proptest::option;
use proptest::prelude::*;

use super::one_of;

/// Most queues of a cluster.
pub(crate) const MOST_QUEUES: usize = 7;

/// The name of a queue; some names have no queue. Names and creation times run against each other.
pub(crate) fn queue_name(at: usize) -> Text {
    format!("queue-{}", MOST_QUEUES - at).into()
}

/// Limits of every resource, of GPUs more often than of others.
fn bounds(bounded: u32) -> BoxedStrategy<Amounts> {
    let bound = |weight: u32, numbers: Vec<f64>| prop_oneof![10 => Just(UNLIMITED), weight => one_of(numbers)];
    (
        bound(bounded / 6, vec![0.0, 2_000.0, 8_000.0, 32_000.0]),
        bound(bounded / 6, vec![0.0, 8e9, 64e9]),
        bound(bounded, vec![0.0, 0.5, 1.0, 2.0, 3.0, 6.0]),
    )
        .prop_map(|(cpu, memory, gpu)| Amounts::new(cpu, memory, gpu))
        .boxed()
}

fn queue() -> BoxedStrategy<QueueSpec> {
    let weights = one_of(vec![1.0, 0.0, 2.0, 0.3]).prop_map(|gpu| Amounts::new(1.0, 1.0, gpu));
    let runtimes = option::weighted(0.1, one_of(vec![30.0, 120.0]).prop_map(Span::from_seconds));
    (
        bounds(30),
        bounds(6),
        weights,
        one_of(vec![100, 100, 50, 200]),
        one_of(vec![0.0, 1.0, 2.0]),
        runtimes,
        option::weighted(0.1, one_of(vec![0.0, 1.0, 2.0])),
    )
        .prop_map(|(quota, limit, over_quota_weight, priority, created, runtime, lent)| QueueSpec {
            priority,
            created: Timestamp::from_seconds(created),
            quota,
            limit,
            over_quota_weight,
            preempt_min_runtime: runtime,
            lending_limit: lent.map(|gpus| Amounts::new(UNLIMITED, UNLIMITED, gpus)),
            reclaim_min_runtime: runtime,
            ..QueueSpec::unbounded("")
        })
        .boxed()
}

/// The queue above: one that comes before, none, or rarely one that is missing.
fn parent() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![
        3 => Just(None),
        5 => (0..MOST_QUEUES).prop_map(Some),
    ]
}

/// Queues of a cluster.
pub(crate) fn queues() -> BoxedStrategy<Vec<QueueSpec>> {
    let entry = (queue(), parent(), prop_oneof![30 => Just(false), 1 => Just(true)]);
    proptest::collection::vec(entry, 1..=MOST_QUEUES)
        .prop_map(|entries| {
            let link =
                |(at, (mut queue, parent, dangles)): (usize, (QueueSpec, Option<usize>, bool))| {
                    queue.name = queue_name(at);
                    queue.parent = parent.filter(|_| at > 0).map(|parent| queue_name(parent % at));
                    if dangles {
                        queue.parent = Some("nowhere".into());
                    }
                    queue
                };
            entries.into_iter().enumerate().map(link).collect()
        })
        .boxed()
}

/// The queues that no other names as its parent.
pub(crate) fn leaves(queues: &[QueueSpec]) -> Vec<Text> {
    let is_parent = |name: &Text| queues.iter().any(|queue| queue.parent.as_ref() == Some(name));
    queues.iter().map(|queue| queue.name.clone()).filter(|name| !is_parent(name)).collect()
}

/// Past use of some queue.
pub(crate) fn usage() -> BoxedStrategy<UsageSpec> {
    (0..MOST_QUEUES, 0..10_u8)
        .prop_map(|(queue, tenths)| {
            let used = f64::from(tenths) / 10.0;
            UsageSpec { queue: queue_name(queue), usage: Amounts::new(used, used, used) }
        })
        .boxed()
}
