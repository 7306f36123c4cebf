//! The rules of NUMA alignment on small nodes.

use proptest::prelude::*;

use super::notation::parse_milli;
use super::*;
use crate::compatibility::Compatibility;
use crate::input::node::{NumaScope, NumaZone};
use crate::input::pod::{ContainerDemand, ContainerKind};
use crate::input::{BindRequestSpec, Delta, NumaSpec, Object, ObjectKey, PodSpec};
use crate::plugins::testing::{
    group, named, node, node_id, one_leaf, pod, queue, running, set, task_id, world,
};
use crate::resources::{CPU, GPU, MEMORY};
use crate::status::Status;
use crate::world::ledger::Place;
use crate::world::node::Groups;

const GB: i64 = 1_000_000_000;

/// A zone with cores and GPUs, all of it free.
fn zone(id: usize, cores: i64, gpus: i64) -> NumaZone {
    let amounts: Vec<(Text, i64)> =
        vec![("cpu".into(), cores * 1000), ("nvidia.com/gpu".into(), gpus)];
    NumaZone { id: format!("node-{id}").into(), allocatable: amounts.clone(), available: amounts }
}

fn zones(policy: NumaPolicy, scope: NumaScope, sizes: &[(i64, i64)]) -> NumaSpec {
    let zones = sizes.iter().enumerate().map(|(id, (cores, gpus))| zone(id, *cores, *gpus));
    NumaSpec { node: "n1".into(), policy, scope, zones: zones.collect() }
}

fn cluster_with(arguments: &[(&str, &str)], spec: NumaSpec) -> World {
    let mut plugin = PluginSpec::named("numa");
    for (key, value) in arguments {
        plugin.arguments.insert(Text::from(*key), Text::from(*value));
    }
    let mut world = world(Compatibility::Right, &[plugin]);
    set(&mut world, Object::Node(Box::new(node("n1", 8, &[]))));
    set(&mut world, Object::Numa(spec));
    set(&mut world, Object::PodGroup(Box::new(group("job", one_leaf(1, None)))));
    world
}

fn cluster(spec: NumaSpec) -> World {
    cluster_with(&[], spec)
}

/// A guaranteed pod with cores and GPUs.
fn guaranteed(name: &str, milli: i64, gpus: i64) -> PodSpec {
    let mut spec = pod(name, "job", gpus);
    spec.request.cpu_milli = milli;
    spec.numa.guaranteed = true;
    spec
}

fn recorded(mut spec: PodSpec, record: &str) -> PodSpec {
    spec.numa.recorded_zones = Some(record.into());
    spec
}

fn put_pod(world: &mut World, spec: PodSpec) -> TaskId {
    let name = spec.name.name.clone();
    set(world, Object::Pod(Box::new(spec)));
    task_id(world, &name)
}

fn commit(world: &mut World, task: TaskId, status: Status) {
    let node = node_id(world, "n1");
    let zones = place(world, task, node);
    world.put(task, &Place { node, groups: Groups::new(), zones }, status);
}

/// `(zone, cores in thousandths, GPUs)` that a pod would take.
fn placed(world: &World, task: TaskId) -> Vec<(usize, i64, i64)> {
    let placement = place(world, task, node_id(world, "n1"));
    placement.zones().iter().map(|(zone, taken)| (*zone, taken.get(CPU), taken.get(GPU))).collect()
}

fn free_cores(world: &World) -> Vec<i64> {
    let numa = world.node(node_id(world, "n1")).numa.as_ref().unwrap();
    numa.available().iter().map(|zone| zone.get(CPU)).collect()
}

fn fits(world: &World, task: TaskId) -> bool {
    check_node(world, task, node_id(world, "n1")).is_ok()
}

#[test]
fn a_single_zone_is_the_lowest_that_holds_all() {
    let single = zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 0), (8, 2)]);
    let mut world = cluster(single);
    let small = put_pod(&mut world, guaranteed("a", 3000, 0));
    let with_gpu = put_pod(&mut world, guaranteed("b", 3000, 1));
    let large = put_pod(&mut world, guaranteed("c", 9000, 0));
    assert_eq!(placed(&world, small), [(0, 3000, 0)]);
    assert_eq!(placed(&world, with_gpu), [(1, 3000, 1)]);
    assert!(fits(&world, small) && fits(&world, with_gpu) && !fits(&world, large));
    let refusal = check_node(&world, large, node_id(&world, "n1")).unwrap_err();
    let text = "node cannot NUMA-align the pod's resources under its Topology Manager policy";
    assert_eq!(refusal, NodeRefusal::rule(Rule::Numa, text));
    assert!(placed(&world, large).is_empty());
}

#[test]
fn pods_draw_from_their_zones_one_after_the_other() {
    let mut world = cluster(zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 0), (4, 0)]));
    let tasks = ["a", "b", "c"].map(|name| put_pod(&mut world, guaranteed(name, 3000, 0)));
    let start = world.fingerprint();
    let checkpoint = world.checkpoint();
    commit(&mut world, tasks[0], Status::Allocated);
    commit(&mut world, tasks[1], Status::Allocated);
    assert_eq!(free_cores(&world), [1000, 1000]);
    assert!(!fits(&world, tasks[2]));
    world.evict(tasks[1]);
    assert_eq!(free_cores(&world), [1000, 4000]);
    assert!(fits(&world, tasks[2]));
    world.unevict(tasks[1], Status::Allocated, true);
    assert_eq!(free_cores(&world), [1000, 1000]);
    world.rollback(checkpoint);
    assert_eq!(free_cores(&world), [4000, 4000]);
    assert_eq!(world.fingerprint(), start);
}

#[test]
fn restricted_needs_the_same_number_of_zones_for_all_resources() {
    let spec = zones(NumaPolicy::Restricted, NumaScope::Pod, &[(4, 2), (4, 2), (4, 2)]);
    let mut world = cluster(spec);
    let two_zones = put_pod(&mut world, guaranteed("a", 6000, 3));
    let unequal = put_pod(&mut world, guaranteed("b", 6000, 1));
    let too_much = put_pod(&mut world, guaranteed("c", 13000, 0));
    assert_eq!(placed(&world, two_zones), [(0, 4000, 2), (1, 2000, 1)]);
    assert!(fits(&world, two_zones) && !fits(&world, unequal) && !fits(&world, too_much));
}

#[test]
fn restricted_takes_the_first_set_of_zones_that_fits() {
    let spec = zones(NumaPolicy::Restricted, NumaScope::Pod, &[(4, 0), (4, 0), (4, 0)]);
    let mut world = cluster(spec);
    let first = put_pod(&mut world, guaranteed("a", 4000, 0));
    let wide = put_pod(&mut world, guaranteed("b", 5000, 0));
    let wider = put_pod(&mut world, guaranteed("c", 4000, 0));
    commit(&mut world, first, Status::Allocated);
    assert_eq!(placed(&world, wide), [(1, 4000, 0), (2, 1000, 0)]);
    commit(&mut world, wide, Status::Allocated);
    // One zone is enough by what zones have, but none has four cores left.
    assert!(!fits(&world, wider));
}

#[test]
fn best_effort_takes_what_covers_most_and_never_refuses() {
    let spec = zones(NumaPolicy::BestEffort, NumaScope::Pod, &[(2, 0), (4, 0), (3, 0)]);
    let mut world = cluster(spec);
    let fits_one = put_pod(&mut world, guaranteed("a", 4000, 0));
    let spans = put_pod(&mut world, guaranteed("b", 6000, 0));
    let beyond = put_pod(&mut world, guaranteed("c", 20000, 0));
    assert_eq!(placed(&world, fits_one), [(1, 4000, 0)]);
    // Zones 0 and 2 cover the rest alike: the lower one is taken.
    assert_eq!(placed(&world, spans), [(0, 2000, 0), (1, 4000, 0)]);
    assert_eq!(placed(&world, beyond), [(0, 2000, 0), (1, 4000, 0), (2, 3000, 0)]);
    assert!(fits(&world, beyond));
}

#[test]
fn only_guaranteed_pods_and_devices_are_aligned() {
    let mut world = cluster(zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 1), (4, 1)]));
    let mut burstable = guaranteed("a", 6000, 0);
    burstable.numa.guaranteed = false;
    let mut with_gpus = guaranteed("b", 6000, 2);
    with_gpus.numa.guaranteed = false;
    let burstable = put_pod(&mut world, burstable);
    let with_gpus = put_pod(&mut world, with_gpus);
    assert!(fits(&world, burstable) && placed(&world, burstable).is_empty());
    assert!(!fits(&world, with_gpus), "two GPUs are in no zone");
    let mut one_gpu = guaranteed("c", 6000, 1);
    one_gpu.numa.guaranteed = false;
    let one_gpu = put_pod(&mut world, one_gpu);
    // The CPU of a pod without guarantee comes from the shared pool.
    assert_eq!(placed(&world, one_gpu), [(0, 0, 1)]);
}

#[test]
fn parts_of_cores_and_ignored_resources_are_not_aligned() {
    let spec = zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 1), (4, 1)]);
    let mut world = cluster_with(&[("ignoreList", "nvidia.com/gpu, memory")], spec);
    let odd = put_pod(&mut world, guaranteed("a", 4500, 0));
    assert!(fits(&world, odd) && placed(&world, odd).is_empty());
    let gpus = put_pod(&mut world, guaranteed("b", 1000, 2));
    assert_eq!(placed(&world, gpus), [(0, 1000, 0)]);
}

fn container(kind: ContainerKind, milli: i64) -> ContainerDemand {
    ContainerDemand { kind, amounts: vec![("cpu".into(), milli)] }
}

#[test]
fn containers_are_aligned_one_by_one() {
    let spec = zones(NumaPolicy::SingleNumaNode, NumaScope::Container, &[(4, 0), (4, 0)]);
    let mut world = cluster(spec);
    let mut several = guaranteed("a", 6000, 0);
    several.numa.containers = vec![
        container(ContainerKind::Init, 4000),
        container(ContainerKind::Sidecar, 3000),
        container(ContainerKind::App, 3000),
    ];
    let several = put_pod(&mut world, several);
    assert_eq!(placed(&world, several), [(0, 3000, 0), (1, 3000, 0)]);
    let mut third = guaranteed("b", 6000, 0);
    third.numa.containers = vec![container(ContainerKind::App, 3000); 3];
    let third = put_pod(&mut world, third);
    assert!(!fits(&world, third), "no zone fits a third of them");
    let mut init = guaranteed("c", 6000, 0);
    init.numa.containers =
        vec![container(ContainerKind::Init, 5000), container(ContainerKind::App, 1000)];
    let init = put_pod(&mut world, init);
    assert!(!fits(&world, init), "what ends before the others must be possible too");
}

#[test]
fn a_pod_as_a_whole_asks_for_its_peak() {
    let spec = zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(8, 0)]);
    let mut world = cluster(spec);
    let mut spec = guaranteed("a", 0, 0);
    spec.numa.containers = vec![
        container(ContainerKind::Sidecar, 1000),
        container(ContainerKind::Init, 5000),
        container(ContainerKind::App, 2000),
        container(ContainerKind::App, 500),
    ];
    let task = put_pod(&mut world, spec);
    assert_eq!(placed(&world, task), [(0, 6000, 0)]);
}

#[test]
fn fewer_zones_score_higher() {
    let mut world = cluster(zones(NumaPolicy::Restricted, NumaScope::Pod, &[(4, 0); 4]));
    set(&mut world, Object::Node(Box::new(node("n2", 8, &[]))));
    let score_on =
        |world: &World, task, name: &str| score(world, task, world.node(node_id(world, name)));
    let one = put_pod(&mut world, guaranteed("a", 4000, 0));
    let two = put_pod(&mut world, guaranteed("b", 8000, 0));
    let none = put_pod(&mut world, guaranteed("c", 17000, 0));
    assert_eq!(score_on(&world, one, "n1"), 100.0);
    assert_eq!(score_on(&world, two, "n1"), 50.0);
    assert_eq!(score_on(&world, none, "n1"), 0.0);
    assert_eq!(score_on(&world, one, "n2"), 25.0, "as if it had as many zones as any node");
    let burstable = put_pod(&mut world, pod("d", "job", 0));
    assert_eq!(score_on(&world, burstable, "n1"), 0.0);
    assert_eq!(score_on(&world, burstable, "n2"), 0.0);
    set(&mut world, Object::Numa(zones(NumaPolicy::None, NumaScope::Pod, &[(4, 0); 2])));
    assert_eq!(score_on(&world, one, "n1"), 50.0);
    assert!(fits(&world, none) && placed(&world, one).is_empty());
    world.apply(Delta::Remove(ObjectKey::Numa("n1".into())));
    assert_eq!(world.most_zones, 0);
}

#[test]
fn records_of_pods_on_the_node_are_drawn() {
    let single = zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 0), (4, 0)]);
    let mut world = cluster(single);
    let record = r#"[{"zone":"node-1","amount":{"cpu":"3","example.com/unknown":"1"}}]"#;
    let sits = put_pod(&mut world, recorded(running(guaranteed("a", 3000, 0), "n1"), record));
    assert_eq!(free_cores(&world), [4000, 1000]);
    let stray =
        r#"[{"zone":"node-0","amount":{"cpu":"1"}},{"zone":"node-7","amount":{"cpu":"1"}}]"#;
    put_pod(&mut world, recorded(running(guaranteed("b", 2000, 0), "n1"), stray));
    assert_eq!(free_cores(&world), [4000, 1000], "a record with an unknown zone is ignored");
    world.evict(sits);
    assert_eq!(free_cores(&world), [4000, 4000]);
}

#[test]
fn terminating_pods_hold_no_zones() {
    let mut world = cluster(zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 0)]));
    let record = r#"[{"zone":"node-0","amount":{"cpu":"3"}}]"#;
    let mut releasing = recorded(running(guaranteed("a", 3000, 0), "n1"), record);
    releasing.status = Status::Releasing;
    put_pod(&mut world, releasing);
    assert_eq!(free_cores(&world), [4000]);
}

#[test]
fn a_bind_request_gives_zones_until_the_pod_does() {
    let mut world = cluster(zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 0), (4, 0)]));
    put_pod(&mut world, guaranteed("a", 3000, 0));
    let bind = BindRequestSpec {
        pod: named("a"),
        node: "n1".into(),
        gpu_groups: Vec::new(),
        numa_zones: Some(r#"[{"zone":"node-1","amount":{"cpu":"3"}}]"#.into()),
        claim_allocations: Vec::new(),
        failed: false,
    };
    set(&mut world, Object::BindRequest(bind));
    assert_eq!(free_cores(&world), [4000, 1000]);
    let zones = r#"[{"zone":"node-0","amount":{"cpu":"2"}}]"#;
    put_pod(&mut world, recorded(running(guaranteed("a", 3000, 0), "n1"), zones));
    assert_eq!(free_cores(&world), [2000, 4000]);
}

#[test]
fn reported_amounts_are_taken_as_they_are_when_configured() {
    let mut spec = zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 0), (4, 0)]);
    spec.zones[0].available = vec![("cpu".into(), 500)];
    let record = r#"[{"zone":"node-1","amount":{"cpu":"3"}}]"#;
    let mut world = cluster_with(&[("reconstructAvailable", "false")], spec);
    let sits = put_pod(&mut world, recorded(running(guaranteed("a", 3000, 0), "n1"), record));
    assert_eq!(free_cores(&world), [500, 4000]);
    world.evict(sits);
    assert_eq!(free_cores(&world), [500, 7000]);
}

#[test]
fn without_the_plugin_zones_have_no_influence() {
    let mut world = world(Compatibility::Right, &[]);
    set(&mut world, Object::Node(Box::new(node("n1", 8, &[]))));
    set(&mut world, Object::Numa(zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(1, 0)])));
    let task = put_pod(&mut world, guaranteed("a", 3000, 0));
    assert!(fits(&world, task) && placed(&world, task).is_empty());
}

#[test]
fn predicted_zones_are_written_as_kai_writes_them() {
    let mut spec = zones(NumaPolicy::Restricted, NumaScope::Pod, &[(4, 1), (4, 1)]);
    for zone in &mut spec.zones {
        zone.allocatable.push(("memory".into(), 8 * GB));
        zone.allocatable.push(("example.com/nic".into(), 2000));
    }
    let mut world = cluster(spec);
    let mut wants = guaranteed("a", 5000, 2);
    wants.request.memory_bytes = 9 * GB;
    wants.request.other = vec![("example.com/nic".into(), 3000)];
    let task = put_pod(&mut world, wants);
    commit(&mut world, task, Status::Allocated);
    let zones = world.predicted_zones(task);
    let text = write_zones(&zones).unwrap();
    assert_eq!(
        &*text,
        "[{\"zone\":\"node-0\",\"amount\":{\"cpu\":\"4\",\"example.com/nic\":\"2\",\"memory\":\
         \"8000000000\",\"nvidia.com/gpu\":\"1\"}},{\"zone\":\"node-1\",\"amount\":{\"cpu\":\"1\",\
         \"example.com/nic\":\"1\",\"memory\":\"1000000000\",\"nvidia.com/gpu\":\"1\"}}]"
    );
    let numa = world.node(node_id(&world, "n1")).numa.as_ref().unwrap();
    let read = notation::read(&text, numa, &world.names).unwrap();
    assert_eq!(read.zones()[1].1.get(MEMORY), GB);
    let slots = |placement: &ZonePlacement| -> Vec<Vec<(usize, i64)>> {
        placement.zones().iter().map(|(_, taken)| taken.non_zero().collect()).collect()
    };
    assert_eq!(slots(&read), slots(&world.task(task).state.zones));
    assert_eq!(write_zones(&[]), None);
}

#[test]
fn records_are_read_whatever_their_form() {
    let mut world = cluster(zones(NumaPolicy::Restricted, NumaScope::Pod, &[(4, 1)]));
    put_pod(&mut world, guaranteed("a", 1000, 0));
    let numa = world.node(node_id(&world, "n1")).numa.as_ref().unwrap();
    let read = |text: &str| notation::read(text, numa, &world.names);
    let spaced =
        " [ { \"more\" : [1, {\"x\": null}] , \"amount\": {\"cpu\": 2 }, \"zone\":\"node-0\" } ] ";
    assert_eq!(read(spaced).unwrap().zones()[0].1.get(CPU), 2000);
    assert_eq!(read("[]").unwrap().zones().len(), 0);
    for broken in ["", "[", "{}", "[{}]", "[{\"zone\":\"node-0\"}", "[{\"zone\":\"node-0\"}] x"] {
        assert_eq!(read(broken), None, "{broken}");
    }
    let nested = format!("[{{\"x\":{}}}]", "[".repeat(100_000));
    assert_eq!(read(&nested), None);
}

#[test]
fn quantities_are_read_as_kubernetes_writes_them() {
    for (text, milli) in [
        ("3", Some(3000)),
        ("3500m", Some(3500)),
        ("1.5", Some(1500)),
        ("2k", Some(2_000_000)),
        ("1Ki", Some(1_024_000)),
        ("1e3", Some(1_000_000)),
        ("1E-3", Some(1)),
        ("100n", Some(1)),
        ("0", Some(0)),
        ("", None),
        (".", None),
        ("-1", None),
        ("1Q", None),
        ("9999999999E", None),
    ] {
        assert_eq!(parse_milli(text), milli, "{text}");
    }
}

proptest! {
    /// Whatever is drawn and returned, a rollback restores it, and a pod that fits draws all it asks for.
    #[test]
    fn a_rollback_restores_all(
        steps in proptest::collection::vec((0..5_usize, any::<bool>()), 0..24),
        restricted: bool,
        by_container: bool,
    ) {
        let policy = if restricted { NumaPolicy::Restricted } else { NumaPolicy::SingleNumaNode };
        let scope = if by_container { NumaScope::Container } else { NumaScope::Pod };
        let mut world = cluster(zones(policy, scope, &[(4, 1), (6, 1), (4, 0)]));
        let tasks: Vec<TaskId> = (0..5)
            .map(|at| put_pod(&mut world, guaranteed(&format!("p{at}"), 1000 * (at + 1), at % 2)))
            .collect();
        let start = world.fingerprint();
        let checkpoint = world.checkpoint();
        for (at, come) in steps {
            let status = world.task(tasks[at]).state.status;
            if come && status == Status::Pending && fits(&world, tasks[at]) {
                commit(&mut world, tasks[at], Status::Allocated);
                let zones = world.task(tasks[at]).state.zones.zones();
                let drawn: i64 = zones.iter().map(|(_, taken)| taken.get(CPU)).sum();
                prop_assert_eq!(drawn, 1000 * (at as i64 + 1));
            } else if !come && status.is_active_allocated() {
                world.evict(tasks[at]);
            }
            prop_assert!(free_cores(&world).iter().all(|free| *free >= 0));
        }
        world.rollback(checkpoint);
        prop_assert_eq!(world.fingerprint(), start);
    }
}

#[test]
fn decisions_in_flight_hold_their_zones() {
    let single = zones(NumaPolicy::SingleNumaNode, NumaScope::Pod, &[(4, 0), (4, 0)]);
    let mut world = cluster_with(&[("reconstructAvailable", "true")], single);
    set(&mut world, Object::Queue(queue("queue")));
    for name in ["a", "b", "c"] {
        put_pod(&mut world, guaranteed(name, 3000, 0));
    }
    let now = crate::time::Timestamp::default();
    let made = crate::plan::plan(&mut world, now);
    crate::plan::assume(&mut world, &made);
    assert_eq!(free_cores(&world), [1000, 1000]);
    assert_eq!(world.describe(), world.rebuilt().describe());
    assert!(crate::plan::plan(&mut world, now).steps.is_empty(), "no zone has three cores left");
}
