//! Bad input is refused with the object and the field named, and leaves the world as it was. Odd input that is
//! allowed never makes anything panic.

use kai_core::fairness::{Amounts, UNLIMITED};
use kai_core::input::node::{NumaPolicy, NumaScope, NumaZone};
use kai_core::input::pod::GpuRequest;
use kai_core::input::pod_group::{GroupLeaf, GroupSet};
use kai_core::input::{
    Delta, NodeSpec, NumaSpec, Object, PodGroupSpec, PodSpec, QueueSpec, UsageSpec,
};
use kai_core::plan::plan;
use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};
use kai_core::world::World;
use proptest::prelude::*;

use crate::worlds::nodes::bare_node;
use crate::worlds::pods::bare_pod;
use crate::worlds::{messy_cluster, named, now, show};

fn queue(name: &str) -> QueueSpec {
    QueueSpec { over_quota_weight: Amounts::ZERO, ..QueueSpec::unbounded(name) }
}

fn group(name: &str, tree: GroupSet) -> PodGroupSpec {
    PodGroupSpec { tree: tree.into(), ..crate::time_slicing::group(name, 1) }
}

fn bad_node(change: impl FnOnce(&mut NodeSpec)) -> Object {
    let mut spec = bare_node("node");
    change(&mut spec);
    Object::Node(Box::new(spec))
}

fn bad_queue(change: impl FnOnce(&mut QueueSpec)) -> Object {
    let mut spec = queue("queue");
    change(&mut spec);
    Object::Queue(spec)
}

fn bad_pod(change: impl FnOnce(&mut PodSpec)) -> Object {
    let mut spec = bare_pod("pod");
    change(&mut spec);
    Object::Pod(Box::new(spec))
}

fn asks(gpu: GpuRequest) -> Object {
    bad_pod(|pod| pod.request.gpu = gpu)
}

fn bad_zone(allocatable: i64, available: i64) -> Object {
    let zone = NumaZone {
        id: "node-0".into(),
        allocatable: vec![("cpu".into(), allocatable)],
        available: vec![("cpu".into(), available)],
    };
    Object::Numa(NumaSpec {
        node: "node".into(),
        policy: NumaPolicy::SingleNumaNode,
        scope: NumaScope::Pod,
        zones: vec![zone],
    })
}

fn usage(number: f64) -> Object {
    Object::Usage(UsageSpec { queue: "queue".into(), usage: Amounts::new(number, 0.0, 0.0) })
}

/// Bad objects of every kind that can be bad, with the field that is to be named.
fn bad_objects() -> Vec<(Object, &'static str, &'static str)> {
    let mut bad = Vec::new();
    for number in [-1, i64::MAX, i64::MIN] {
        let amount = || vec![("example.com/thing".into(), number)];
        let mig = || vec![("nvidia.com/mig-1g.5gb".into(), number)];
        let node = "Node node";
        bad.push((bad_node(|n| n.allocatable.cpu_milli = number), node, "allocatable.cpu"));
        bad.push((bad_node(|n| n.allocatable.memory_bytes = number), node, "allocatable.memory"));
        bad.push((bad_node(|n| n.allocatable.pods = number), node, "allocatable.pods"));
        bad.push((bad_node(|n| n.allocatable.gpus = number), node, "allocatable.gpus"));
        bad.push((bad_node(|n| n.allocatable.mig = mig()), node, "allocatable.mig"));
        bad.push((bad_node(|n| n.allocatable.other = amount()), node, "allocatable.other"));
        let zones = "NodeResourceTopology node";
        bad.push((bad_zone(number, 0), zones, "zones.allocatable"));
        bad.push((bad_zone(0, number), zones, "zones.available"));
        let pod = "Pod team/pod";
        bad.push((bad_pod(|p| p.request.cpu_milli = number), pod, "requests.cpu"));
        bad.push((bad_pod(|p| p.request.memory_bytes = number), pod, "requests.memory"));
        bad.push((bad_pod(|p| p.request.other = amount()), pod, "requests.other"));
        bad.push((bad_pod(|p| p.request.overhead = amount()), pod, "overhead"));
        bad.push((asks(GpuRequest::Whole { count: number }), pod, "nvidia.com/gpu"));
        bad.push((asks(GpuRequest::Mig(mig())), pod, "nvidia.com/mig"));
        bad.push((asks(GpuRequest::Memory { mib: number, devices: 1 }), pod, "gpu-memory"));
        let devices = "gpu-fraction-num-devices";
        bad.push((asks(GpuRequest::Memory { mib: 1, devices: number }), pod, devices));
        bad.push((asks(GpuRequest::Fraction { portion: 0.5, devices: number }), pod, devices));
    }
    bad.push((asks(GpuRequest::Memory { mib: 0, devices: 1 }), "Pod team/pod", "gpu-memory"));
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5] {
        let fraction = GpuRequest::Fraction { portion: number, devices: 1 };
        bad.push((asks(fraction), "Pod team/pod", "gpu-fraction"));
        let amounts = Amounts::new(UNLIMITED, UNLIMITED, number);
        bad.push((bad_queue(|q| q.quota = amounts), "Queue queue", "quota"));
        bad.push((bad_queue(|q| q.limit = amounts), "Queue queue", "limit"));
        if !number.is_finite() {
            let weights = Amounts::new(1.0, 1.0, number);
            let queue = bad_queue(|queue| queue.over_quota_weight = weights);
            bad.push((queue, "Queue queue", "overQuotaWeight"));
        }
        bad.push((usage(number), "Usage of queue queue", "usage"));
    }
    for portion in [0.0, 1.01] {
        let fraction = GpuRequest::Fraction { portion, devices: 1 };
        bad.push((asks(fraction), "Pod team/pod", "gpu-fraction"));
    }
    let own = Some("queue".into());
    bad.push((bad_queue(|q| q.parent = own), "Queue queue", "parentQueue"));
    let mut deep = GroupSet::default();
    for _ in 0..100 {
        deep = GroupSet { sets: vec![deep], ..GroupSet::default() };
    }
    bad.push((
        Object::PodGroup(Box::new(group("group", deep))),
        "PodGroup team/group",
        "subGroups",
    ));
    bad.extend(nameless());
    bad
}

fn nameless() -> [(Object, &'static str, &'static str); 4] {
    let name = "metadata.name";
    let tree = GroupSet::default();
    [
        (bad_node(|node| node.name = "".into()), "Node ", name),
        (bad_queue(|queue| queue.name = "".into()), "Queue ", name),
        (bad_pod(|pod| pod.name = named("")), "Pod team/", name),
        (Object::PodGroup(Box::new(group("", tree))), "PodGroup team/", name),
    ]
}

/// Refused with this object and field, and nothing changed.
fn is_refused(
    world: &mut World,
    object: &Object,
    name: &str,
    field: &str,
) -> Result<(), TestCaseError> {
    let before = world.describe();
    let effect = world.apply(Delta::Set(object.clone()));
    prop_assert!(!effect.changed, "{}", show::object(object));
    let named = effect.problems.iter().any(|found| found.object == name && found.field == field);
    prop_assert!(named, "{:?} for {}", effect.problems, show::object(object));
    show::same(&before, &world.describe())
}

#[test]
fn every_bad_field_is_named_and_changes_nothing() {
    let mut empty = World::new(kai_core::config::Config::default());
    let mut world = World::new(kai_core::config::Config::default());
    world.apply(Delta::Set(Object::Node(Box::new(bare_node("node")))));
    world.apply(Delta::Set(Object::Queue(queue("queue"))));
    world.apply(Delta::Set(Object::Pod(Box::new(bare_pod("pod")))));
    for (object, name, field) in bad_objects() {
        is_refused(&mut empty, &object, name, field).unwrap();
        is_refused(&mut world, &object, name, field).unwrap();
    }
}

#[test]
fn removing_what_is_not_there_changes_nothing() {
    let mut world = World::new(kai_core::config::Config::default());
    for key in bad_objects().iter().map(|(object, _, _)| crate::worlds::key_of(object)) {
        assert!(!world.apply(Delta::Remove(key)).changed);
    }
}

/// Objects that are allowed and odd: extremes of every number that has no bound of its own.
fn odd_objects() -> Vec<Object> {
    let many = i64::MAX.to_string();
    let labels = ["nvidia.com/gpu.memory", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"];
    let node = bad_node(|node| {
        node.name = "odd".into();
        node.allocatable.gpus = 10_000;
        node.allocatable.mig = vec![("nvidia.com/mig-9223372036854775807g.5gb".into(), 10_000)];
        node.labels = labels.iter().map(|label| ((*label).into(), (*many).into())).collect();
    });
    let moments = [Timestamp { nanos: i64::MIN }, Timestamp { nanos: i64::MAX }];
    let leaf = GroupLeaf { name: "default".into(), min_available: u32::MAX, topology: None };
    let tree = GroupSet { min_members: Some(u32::MAX), leaves: vec![leaf], ..GroupSet::default() };
    let mut odd_group = group("group-0", tree);
    odd_group.created = moments[1];
    odd_group.last_start = Some(moments[1]);
    odd_group.last_eviction = Some(moments[0]);
    odd_group.stale_since = Some(moments[0]);
    odd_group.staleness_grace = Some(Span { nanos: i64::MAX });
    odd_group.preemption_delay = Some(Span { nanos: i64::MAX });
    let empty = group("group-1", GroupSet::default());
    let mut odd_queue = queue("queue-7");
    odd_queue.created = moments[0];
    odd_queue.priority = i32::MIN;
    odd_queue.quota = Amounts::new(f64::MAX, f64::MAX, f64::MAX);
    odd_queue.limit = odd_queue.quota;
    odd_queue.over_quota_weight = odd_queue.quota;
    odd_queue.reclaim_min_runtime = Some(Span { nanos: i64::MAX });
    let running = bad_pod(|pod| {
        pod.name = named("odd-0");
        pod.created = moments[0];
        pod.status = Status::Releasing;
        pod.stuck_at = Some(moments[1]);
        pod.node = Some("odd".into());
        pod.request.gpu = GpuRequest::Memory { mib: 1 << 30, devices: 100 };
        pod.gpu_groups = vec!["same".into(), "same".into()];
    });
    vec![
        node,
        Object::PodGroup(Box::new(odd_group)),
        Object::PodGroup(Box::new(empty)),
        Object::Queue(odd_queue),
        running,
    ]
}

proptest! {
    #![proptest_config(crate::cases(150))]

    #[test]
    fn bad_objects_are_refused_in_any_world(cluster in messy_cluster(), at in any::<usize>()) {
        let mut world = cluster.world();
        let bad = bad_objects();
        let (object, name, field) = bad[at % bad.len()].clone();
        is_refused(&mut world, &object, name, field)?;
    }

    #[test]
    fn odd_objects_make_nothing_panic(cluster in messy_cluster(), odd in any::<u8>()) {
        let mut world = cluster.world();
        for (at, object) in odd_objects().into_iter().enumerate() {
            if odd & (1 << at) != 0 {
                prop_assert_eq!(world.apply(Delta::Set(object)).problems, []);
            }
        }
        show::none(&kai_core::check::miscounts(&world), "")?;
        let before = world.describe();
        plan(&mut world, now());
        show::same(&before, &world.describe())?;
    }
}
