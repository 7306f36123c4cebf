//! Jobs that differ in nothing but their names are not all tried, and reports of earlier cycles are used again: plans are
//! those of a planner that tries each job in each cycle.

use std::sync::Arc;

use kai_core::input::{Delta, Object, ObjectKey, ObjectName};
use kai_core::plan::{CyclePlan, plan};
use kai_core::status::Status;
use kai_core::world::World;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::repeatable::{same_plan, without_effort};
use crate::worlds::{Cluster, messy_cluster, now, tidy_cluster};

/// The cluster with two more of each job of which no pod runs.
fn repeated(mut cluster: Cluster) -> Cluster {
    let waits = |group: &ObjectName, cluster: &Cluster| {
        let mut pods = cluster.pods.iter().filter(|pod| pod.group.as_ref() == Some(&group.name));
        pods.all(|pod| pod.status == Status::Pending && pod.node.is_none())
    };
    let waiting: Vec<_> =
        cluster.groups.iter().filter(|group| waits(&group.name, &cluster)).cloned().collect();
    for group in waiting {
        let pods = cluster.pods.iter().filter(|pod| pod.group.as_ref() == Some(&group.name.name));
        let pods: Vec<_> = pods.cloned().collect();
        for copy in ["again", "once-more"] {
            let renamed = |name: &str| format!("{name}-{copy}");
            let mut group = group.clone();
            group.name.name = renamed(&group.name.name).into();
            group.uid = renamed(&group.uid).into();
            for mut pod in pods.clone() {
                pod.group = Some(group.name.name.clone());
                pod.name.name = renamed(&pod.name.name).into();
                pod.uid = renamed(&pod.uid).into();
                cluster.pods.push(pod);
            }
            cluster.groups.push(group);
        }
    }
    cluster
}

fn repeated_cluster() -> impl Strategy<Value = Cluster> {
    prop_oneof![messy_cluster().boxed(), tidy_cluster().boxed()].prop_map(repeated)
}

/// Clusters of the same configuration, one after the other, and which of their objects change between cycles.
fn cycles() -> impl Strategy<Value = (Cluster, Vec<Vec<Delta>>)> {
    (repeated_cluster(), messy_cluster()).prop_flat_map(|(cluster, other)| {
        let objects = [cluster.objects(), repeated(other).objects()].concat();
        let object = proptest::sample::select(objects);
        let delta = (object, 0..3_u8).prop_map(|(object, what)| match (what, &object) {
            (0, Object::Pod(pod)) => Delta::Remove(ObjectKey::Pod(pod.name.clone())),
            _ => Delta::Set(object),
        });
        (Just(cluster), vec(vec(delta, 0..4), 1..5))
    })
}

/// A plan without the numbers of broken bounds: the sum that a lending limit looks at depends in its last bit on the order
/// in which queues came. Their texts stay.
fn without_bounds(mut plan: CyclePlan) -> CyclePlan {
    plan.waiting.iter_mut().for_each(|report| Arc::make_mut(report).bounds.clear());
    plan
}

proptest! {
    #![proptest_config(crate::cases(300))]

    #[test]
    fn jobs_alike_get_what_each_would_get_alone(cluster in repeated_cluster()) {
        let mut world = cluster.world();
        let fast = plan(&mut world, now());
        world.set_naive_search(true);
        let naive = plan(&mut world, now());
        same_plan(&without_effort(fast), &without_effort(naive))?;
    }

    #[test]
    fn what_earlier_cycles_left_changes_no_plan((cluster, cycles) in cycles()) {
        let mut world = cluster.world();
        for deltas in cycles {
            plan(&mut world, now());
            for delta in deltas {
                world.apply(delta);
            }
            let mut anew: World = world.rebuilt();
            let [followed, rebuilt] = [&mut world, &mut anew].map(|world| plan(world, now()));
            same_plan(&without_bounds(followed), &without_bounds(rebuilt))?;
        }
    }
}
