//! The rules of claims on small clusters.

mod agreement;
mod in_flight;
mod partitions;
mod plugin_gpus;
mod pool_updates;

use proptest::prelude::*;

use super::*;
use crate::compatibility::Compatibility;
use crate::ids::{NodeId, TaskId};
use crate::input::devices::{
    AllocatedDevice, Allocation, DeviceAccess, DeviceAlternative, DeviceCount, DeviceRef,
    DeviceRequest, DeviceSpec, NamedAmounts,
};
use crate::input::{
    BindRequestSpec, ClaimSpec, Delta, DeviceClassSpec, Object, ObjectKey, PodSpec, SliceSpec,
};
use crate::plugins::testing::{
    group, named, node, node_id, one_leaf, pod, running, set, task_id, world,
};
use crate::report::refusal::{NodeRefusal, TaskRefusal};
use crate::resources::GPU;
use crate::status::Status;
use crate::world::node::Groups;

const GPU_CLASS: &str = "gpu.example.com";
const NIC_CLASS: &str = "nic.example.com";

fn class(name: &str) -> Object {
    Object::DeviceClass(DeviceClassSpec {
        name: name.into(),
        extended_resource: None,
        devices: None,
    })
}

fn slice_of(driver: &str, node: &str, count: usize) -> SliceSpec {
    SliceSpec {
        name: format!("{node}-{driver}").into(),
        driver: driver.into(),
        pool: node.into(),
        generation: 1,
        pool_slices: Some(1),
        counter_sets: Vec::new(),
        access: DeviceAccess::Node(node.into()),
        devices: (0..count).map(|device| DeviceSpec::named(device.to_string())).collect(),
    }
}

fn device(driver: &str, node: &str, device: usize) -> DeviceRef {
    DeviceRef { driver: driver.into(), pool: node.into(), device: device.to_string().into() }
}

fn exactly(class: &str, count: i64) -> DeviceAlternative {
    DeviceAlternative {
        name: None,
        class: class.into(),
        count: DeviceCount::Exactly(count),
        devices: None,
        capacity: NamedAmounts::new(),
        admin_access: false,
        tolerations: Vec::new(),
    }
}

fn request(name: &str, alternatives: Vec<DeviceAlternative>) -> DeviceRequest {
    DeviceRequest { name: name.into(), alternatives }
}

fn claim(name: &str, requests: Vec<DeviceRequest>) -> ClaimSpec {
    ClaimSpec {
        name: named(name),
        labels: [("kai.scheduler/queue".into(), "queue".into())].into(),
        owner_pod: None,
        requests,
        constraints: Vec::new(),
        for_extended_resource: false,
        allocation: None,
        reserved_for: Vec::new(),
    }
}

fn gpu_claim(name: &str, count: i64) -> ClaimSpec {
    claim(name, vec![request("request", vec![exactly(GPU_CLASS, count)])])
}

fn given(mut claim: ClaimSpec, node: &str, devices: &[usize], pods: &[&str]) -> ClaimSpec {
    let results = devices.iter().map(|at| AllocatedDevice {
        request: "request".into(),
        device: device("gpu.example.com", node, *at),
        share: None,
    });
    claim.allocation = Some(Allocation { results: results.collect(), nodes: Vec::new() });
    claim.reserved_for = pods.iter().map(|pod| Text::from(*pod)).collect();
    claim
}

fn using(name: &str, claims: &[&str]) -> PodSpec {
    let mut spec = pod(name, "job", 0);
    spec.claims = claims.iter().map(|claim| Text::from(*claim)).collect();
    spec
}

/// Nodes `n1`, `n2`, … with this many GPUs each, through slices.
fn cluster(compatibility: Compatibility, gpus: &[usize]) -> World {
    let mut world = world(compatibility, &[]);
    set(&mut world, class(GPU_CLASS));
    set(&mut world, class(NIC_CLASS));
    for (at, count) in gpus.iter().enumerate() {
        let name = format!("n{}", at + 1);
        set(&mut world, Object::Node(Box::new(node(&name, 0, &[]))));
        set(&mut world, Object::Slice(slice_of("gpu.example.com", &name, *count)));
    }
    set(&mut world, Object::PodGroup(Box::new(group("job", one_leaf(1, None)))));
    world
}

fn put_pod(world: &mut World, spec: PodSpec) -> TaskId {
    let name = spec.name.name.clone();
    set(world, Object::Pod(Box::new(spec)));
    task_id(world, &name)
}

fn place(world: &mut World, task: TaskId, node: NodeId, status: Status) {
    let place = crate::world::ledger::Place {
        node,
        groups: Groups::new(),
        zones: crate::plugins::numa::ZonePlacement::default(),
    };
    world.put(task, &place, status);
}

fn devices_of(world: &World, name: &str) -> Vec<String> {
    let view = world.claims().state_of(&named(name)).unwrap();
    let results = view.allocation.iter().flat_map(|given| &given.results);
    results.map(|result| result.device.device.to_string()).collect()
}

fn text_of(result: Result<(), TaskRefusal>) -> String {
    result.unwrap_err().text.to_string()
}

fn node_text(result: Result<(), NodeRefusal>) -> String {
    match result {
        Err(NodeRefusal::Rule { text, .. }) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn slices_add_gpus_to_their_node() {
    let mut world = cluster(Compatibility::Right, &[2]);
    let n1 = node_id(&world, "n1");
    assert_eq!(world.node(n1).allocatable.get(GPU), 2);
    set(&mut world, Object::Slice(slice_of("nic.example.com", "n1", 3)));
    assert_eq!(world.node(n1).allocatable.get(GPU), 2);
    world.apply(Delta::Remove(ObjectKey::Slice("n1-gpu.example.com".into())));
    assert_eq!(world.node(n1).allocatable.get(GPU), 0);
}

#[test]
fn claims_count_in_the_request_whichever_comes_first() {
    let mut world = cluster(Compatibility::Right, &[4]);
    let task = put_pod(&mut world, using("a", &["c"]));
    assert_eq!(world.shape_of(task).claimed_gpus, 0);
    set(&mut world, Object::Claim(gpu_claim("c", 3)));
    assert_eq!(world.shape_of(task).claimed_gpus, 3);
    set(&mut world, Object::Claim(claim("c", vec![request("r", vec![exactly(NIC_CLASS, 3)])])));
    assert_eq!(world.shape_of(task).claimed_gpus, 0);
    world.apply(Delta::Remove(ObjectKey::Claim(named("c"))));
    assert!(world.task(task).claims.is_empty());
}

#[test]
fn requests_beyond_all_bounds_saturate() {
    let mut world = cluster(Compatibility::Kai, &[2]);
    set(&mut world, Object::Claim(gpu_claim("c", i64::MAX)));
    set(&mut world, Object::Claim(gpu_claim("d", i64::MAX)));
    let task = put_pod(&mut world, using("a", &["c", "d"]));
    assert!(world.shape_of(task).claimed_gpus > 1_000_000_000);
    assert!(check_node(&world, task, node_id(&world, "n1")).is_err());
}

#[test]
fn choices_and_all_devices_count_by_what_there_is() {
    let all = DeviceAlternative { count: DeviceCount::All, ..exactly(GPU_CLASS, 0) };
    let choice = vec![exactly(GPU_CLASS, 8), exactly(GPU_CLASS, 2)];
    for (compatibility, of_all, of_choice) in
        [(Compatibility::Right, 4, 2), (Compatibility::Kai, 1, 0)]
    {
        let mut world = cluster(compatibility, &[2, 4]);
        set(&mut world, Object::Claim(claim("all", vec![request("r", vec![all.clone()])])));
        set(&mut world, Object::Claim(claim("choice", vec![request("r", choice.clone())])));
        let of_all_task = put_pod(&mut world, using("a", &["all"]));
        let of_choice_task = put_pod(&mut world, using("b", &["choice"]));
        assert_eq!(world.shape_of(of_all_task).claimed_gpus, of_all);
        assert_eq!(world.shape_of(of_choice_task).claimed_gpus, of_choice);
        if compatibility == Compatibility::Right {
            set(&mut world, Object::Slice(slice_of("gpu.example.com", "n2", 8)));
            assert_eq!(world.shape_of(of_all_task).claimed_gpus, 8);
            assert_eq!(world.shape_of(of_choice_task).claimed_gpus, 8);
        }
    }
}

#[test]
fn a_claim_costs_the_same_before_and_after_it_is_allocated() {
    for compatibility in [Compatibility::Right, Compatibility::Kai] {
        let mut world = cluster(compatibility, &[2]);
        // Devices of a GPU driver through a class that is not about GPUs.
        let plain = claim("c", vec![request("request", vec![exactly(NIC_CLASS, 2)])]);
        set(&mut world, Object::Claim(plain.clone()));
        let task = put_pod(&mut world, using("a", &["c"]));
        assert_eq!(world.shape_of(task).claimed_gpus, 0);
        set(&mut world, Object::Claim(given(plain, "n1", &[0, 1], &["a"])));
        assert_eq!(world.shape_of(task).claimed_gpus, 0);
    }
}

#[test]
fn every_pod_of_a_shared_claim_counts_it() {
    for (compatibility, second) in [(Compatibility::Right, 1), (Compatibility::Kai, 0)] {
        let mut world = cluster(compatibility, &[2]);
        set(&mut world, Object::Claim(given(gpu_claim("c", 1), "n1", &[0], &["a", "b"])));
        let first = put_pod(&mut world, running(using("a", &[]), "n1"));
        let other = put_pod(&mut world, running(using("b", &[]), "n1"));
        assert_eq!(world.shape_of(first).claimed_gpus, 1);
        assert_eq!(world.shape_of(other).claimed_gpus, second);
    }
}

#[test]
fn a_pod_with_claims_is_refused_where_they_are_not_understood() {
    let mut world = cluster(Compatibility::Right, &[2]);
    world.config.params.dynamic_resources = false;
    let task = put_pod(&mut world, using("a", &["c", "d"]));
    assert_eq!(
        text_of(check_task(&world, task)),
        "pod team/a cannot be scheduled, it references resource claims <c, d> while dynamic \
         resource allocation is not available in the cluster"
    );
    let plain = put_pod(&mut world, using("b", &[]));
    assert!(check_task(&world, plain).is_ok());
}

#[test]
fn claims_must_exist_with_their_classes_and_capacity_for_consumers() {
    let mut world = cluster(Compatibility::Right, &[2]);
    let task = put_pod(&mut world, using("a", &["c"]));
    assert_eq!(
        text_of(check_task(&world, task)),
        "failed to get resource claim team/c: could not find ResourceClaim \"team/c\""
    );
    set(&mut world, Object::Claim(claim("c", vec![request("r", vec![exactly("new", 1)])])));
    assert_eq!(
        text_of(check_task(&world, task)),
        "device class new does not exist for claim team/c"
    );
    let mut full = gpu_claim("c", 1);
    full.reserved_for = (0..255).map(|at| Text::from(format!("other-{at}"))).collect();
    set(&mut world, Object::Claim(full.clone()));
    assert!(check_task(&world, task).is_ok());
    full.reserved_for.push("another".into());
    set(&mut world, Object::Claim(full));
    assert_eq!(
        text_of(check_task(&world, task)),
        "resource claim team/c has reached its maximum number of consumers (256)"
    );
}

#[test]
fn shared_gpu_claims_name_their_queue() {
    let mut world = cluster(Compatibility::Right, &[2]);
    let task = put_pod(&mut world, using("a", &["c"]));
    let mut unlabelled = gpu_claim("c", 1);
    unlabelled.labels.clear();
    set(&mut world, Object::Claim(unlabelled.clone()));
    assert_eq!(
        text_of(check_task(&world, task)),
        "pod team/a cannot be scheduled: DRA claim c is a shared GPU claim but does not have a \
         queue label (kai.scheduler/queue)"
    );
    let mut other = unlabelled.clone();
    other.labels.insert("kai.scheduler/queue".into(), "other".into());
    set(&mut world, Object::Claim(other));
    assert_eq!(
        text_of(check_task(&world, task)),
        "pod team/a cannot be scheduled: DRA claim c is a shared GPU claim with wrong queue label \
         (expected queue: queue, claim queue label: other)"
    );
    let mut owned = unlabelled.clone();
    owned.owner_pod = Some("a".into());
    set(&mut world, Object::Claim(owned));
    assert!(check_task(&world, task).is_ok());
    let mut nic = claim("c", vec![request("r", vec![exactly(NIC_CLASS, 1)])]);
    nic.labels.clear();
    set(&mut world, Object::Claim(nic));
    assert!(check_task(&world, task).is_ok());
}

#[test]
fn an_allocated_claim_binds_its_pods_to_its_nodes() {
    let mut world = cluster(Compatibility::Right, &[1, 1]);
    set(&mut world, Object::Claim(gpu_claim("c", 1)));
    let first = put_pod(&mut world, using("a", &["c"]));
    let second = put_pod(&mut world, using("b", &["c"]));
    let (n1, n2) = (node_id(&world, "n1"), node_id(&world, "n2"));
    assert!(check_node(&world, first, n1).is_ok() && check_node(&world, first, n2).is_ok());
    place(&mut world, first, n1, Status::Allocated);
    assert_eq!(
        node_text(check_node(&world, second, n2)),
        "claim team/c node selector does not match node n2"
    );
    assert!(check_node(&world, second, n1).is_ok());
}

#[test]
fn devices_are_given_in_order_and_never_twice() {
    let mut world = cluster(Compatibility::Right, &[3]);
    let n1 = node_id(&world, "n1");
    for (name, count) in [("c", 1), ("d", 2), ("e", 1)] {
        set(&mut world, Object::Claim(gpu_claim(name, count)));
        put_pod(&mut world, using(&format!("pod-{name}"), &[name]));
    }
    let start = world.checkpoint();
    let [c, d, e] = ["pod-c", "pod-d", "pod-e"].map(|name| task_id(&world, name));
    place(&mut world, c, n1, Status::Allocated);
    place(&mut world, d, n1, Status::Allocated);
    assert_eq!(devices_of(&world, "c"), ["0"]);
    assert_eq!(devices_of(&world, "d"), ["1", "2"]);
    assert_eq!(node_text(check_node(&world, e, n1)), "cannot allocate all DRA claims on node n1");
    let allocations = world.claim_allocations(d);
    assert_eq!((&*allocations[0].0, allocations[0].1.results.len()), ("d", 2));
    assert_eq!(world.node(n1).amounts.idle.get(GPU), 0);
    world.rollback(start);
    assert!(devices_of(&world, "d").is_empty());
    assert!(check_node(&world, e, n1).is_ok());
}

#[test]
fn an_evicted_pod_frees_its_devices_and_can_have_them_back() {
    let mut world = cluster(Compatibility::Right, &[2]);
    let n1 = node_id(&world, "n1");
    set(&mut world, Object::Claim(given(gpu_claim("c", 2), "n1", &[1, 0], &["a"])));
    set(&mut world, Object::Claim(gpu_claim("d", 1)));
    let victim = put_pod(&mut world, running(using("a", &["c"]), "n1"));
    let waits = put_pod(&mut world, using("b", &["d"]));
    assert!(check_node(&world, waits, n1).is_err());
    let start = world.fingerprint();
    let checkpoint = world.checkpoint();
    world.evict(victim);
    assert_eq!(world.claims().state_of(&named("c")).unwrap().reserved_for.len(), 0);
    assert!(check_node(&world, waits, n1).is_ok());
    assert!(world.keeps_devices(victim));
    world.unevict(victim, Status::Running, false);
    assert_eq!(devices_of(&world, "c"), ["1", "0"]);
    world.evict(victim);
    place(&mut world, waits, n1, Status::Pipelined);
    assert_eq!(devices_of(&world, "d"), ["0"]);
    assert!(!world.keeps_devices(victim));
    assert!(check_node(&world, victim, n1).is_err());
    world.rollback(checkpoint);
    assert_eq!(world.fingerprint(), start);
}

#[test]
fn the_last_consumer_frees_a_shared_claim() {
    let mut world = cluster(Compatibility::Right, &[1]);
    let n1 = node_id(&world, "n1");
    set(&mut world, Object::Claim(given(gpu_claim("c", 1), "n1", &[0], &["a", "b"])));
    let first = put_pod(&mut world, running(using("a", &["c"]), "n1"));
    let second = put_pod(&mut world, running(using("b", &["c"]), "n1"));
    // One device, counted once.
    assert_eq!(world.node(n1).amounts.idle.get(GPU), 0);
    assert_eq!(world.node(n1).amounts.used.get(GPU), 1);
    world.evict(first);
    assert_eq!(devices_of(&world, "c"), ["0"]);
    assert_eq!(world.node(n1).amounts.releasing.get(GPU), 0);
    world.evict(second);
    assert!(devices_of(&world, "c").is_empty());
    assert_eq!(world.node(n1).amounts.releasing.get(GPU), 1);
    assert_eq!(world.node(n1).amounts.idle.get(GPU), 0);
    world.unevict(first, Status::Running, false);
    assert_eq!(world.node(n1).amounts.releasing.get(GPU), 0);
    world.unevict(second, Status::Running, false);
    assert_eq!(world.node(n1).amounts.releasing.get(GPU), 0);
    assert_eq!(world.node(n1).amounts.idle.get(GPU), 0);
}

#[test]
fn a_pod_joins_a_device_in_use_at_no_cost() {
    for compatibility in [Compatibility::Right, Compatibility::Kai] {
        let mut world = cluster(compatibility, &[1]);
        let n1 = node_id(&world, "n1");
        set(&mut world, Object::Claim(given(gpu_claim("c", 1), "n1", &[0], &["a", "b"])));
        put_pod(&mut world, running(using("a", &["c"]), "n1"));
        let joins = put_pod(&mut world, using("b", &["c"]));
        assert_eq!(world.shape_of(joins).request.get(GPU), 1);
        assert_eq!(world.shared_gpus(joins, n1), 1);
        place(&mut world, joins, n1, Status::Allocated);
        assert_eq!(world.node(n1).amounts.idle.get(GPU), 0);
        assert_eq!(world.node(n1).amounts.used.get(GPU), 1);
    }
}

#[test]
fn claims_allocated_in_the_cycle_are_shared_too_but_not_by_kai() {
    for (compatibility, discount) in [(Compatibility::Right, 1), (Compatibility::Kai, 0)] {
        let mut world = cluster(compatibility, &[1]);
        let n1 = node_id(&world, "n1");
        set(&mut world, Object::Claim(gpu_claim("c", 1)));
        let first = put_pod(&mut world, using("a", &["c"]));
        let second = put_pod(&mut world, using("b", &["c"]));
        place(&mut world, first, n1, Status::Allocated);
        assert_eq!(world.shared_gpus(second, n1), discount);
    }
}

#[test]
fn all_claims_of_a_pod_are_satisfied_together() {
    let mut world = cluster(Compatibility::Right, &[2]);
    let n1 = node_id(&world, "n1");
    let only_first = DeviceAlternative {
        devices: Some(vec![device("gpu.example.com", "n1", 0)]),
        ..exactly(GPU_CLASS, 1)
    };
    set(&mut world, Object::Claim(gpu_claim("any", 1)));
    set(&mut world, Object::Claim(claim("first", vec![request("request", vec![only_first])])));
    let task = put_pod(&mut world, using("a", &["any", "first"]));
    assert!(check_node(&world, task, n1).is_ok());
    place(&mut world, task, n1, Status::Allocated);
    // The first claim moves over so that the picky one can be served.
    assert_eq!(devices_of(&world, "any"), ["1"]);
    assert_eq!(devices_of(&world, "first"), ["0"]);
}

#[test]
fn alternatives_are_tried_in_order_and_looks_take_nothing() {
    let mut world = cluster(Compatibility::Right, &[2]);
    let n1 = node_id(&world, "n1");
    let choice = request("r", vec![exactly(GPU_CLASS, 3), exactly(GPU_CLASS, 2)]);
    set(&mut world, Object::Claim(claim("choice", vec![choice])));
    let look =
        DeviceAlternative { admin_access: true, count: DeviceCount::All, ..exactly(GPU_CLASS, 0) };
    set(&mut world, Object::Claim(claim("look", vec![request("r", vec![look])])));
    let all = DeviceAlternative { count: DeviceCount::All, ..exactly(GPU_CLASS, 0) };
    set(&mut world, Object::Claim(claim("all", vec![request("r", vec![all])])));
    let chooses = put_pod(&mut world, using("a", &["choice"]));
    let looks = put_pod(&mut world, using("b", &["look"]));
    let takes_all = put_pod(&mut world, using("c", &["all"]));
    assert_eq!(world.shape_of(looks).claimed_gpus, 0);
    place(&mut world, looks, n1, Status::Allocated);
    assert_eq!(devices_of(&world, "look").len(), 2);
    assert!(check_node(&world, takes_all, n1).is_ok());
    place(&mut world, chooses, n1, Status::Allocated);
    assert_eq!(devices_of(&world, "choice").len(), 2);
    assert!(check_node(&world, takes_all, n1).is_err());
}

#[test]
fn devices_of_several_nodes_are_found_from_each() {
    let mut world = cluster(Compatibility::Right, &[0, 0]);
    let mut wide = slice_of("nic.example.com", "fabric", 1);
    wide.access = DeviceAccess::AllNodes;
    set(&mut world, Object::Slice(wide));
    set(&mut world, Object::Claim(claim("c", vec![request("r", vec![exactly(NIC_CLASS, 1)])])));
    let task = put_pod(&mut world, using("a", &["c"]));
    let (n1, n2) = (node_id(&world, "n1"), node_id(&world, "n2"));
    place(&mut world, task, n1, Status::Allocated);
    assert!(
        check_node(&world, task, n2).is_ok(),
        "a device of all nodes does not bind the claim to one"
    );
}

#[test]
fn bind_requests_under_way_hold_their_devices() {
    let mut world = cluster(Compatibility::Right, &[1]);
    let n1 = node_id(&world, "n1");
    set(&mut world, Object::Claim(gpu_claim("c", 1)));
    set(&mut world, Object::Claim(gpu_claim("d", 1)));
    put_pod(&mut world, using("a", &["c"]));
    let waits = put_pod(&mut world, using("b", &["d"]));
    let decided = given(gpu_claim("c", 1), "n1", &[0], &[]).allocation.unwrap();
    let bind = BindRequestSpec {
        pod: named("a"),
        node: "n1".into(),
        gpu_groups: Vec::new(),
        numa_zones: None,
        claim_allocations: vec![("c".into(), decided)],
        failed: false,
    };
    set(&mut world, Object::BindRequest(bind.clone()));
    assert_eq!(devices_of(&world, "c"), ["0"]);
    assert!(check_node(&world, waits, n1).is_err());
    set(&mut world, Object::BindRequest(BindRequestSpec { failed: true, ..bind.clone() }));
    assert!(check_node(&world, waits, n1).is_ok());
    set(&mut world, Object::BindRequest(bind));
    world.apply(Delta::Remove(ObjectKey::Pod(named("a"))));
    assert!(check_node(&world, waits, n1).is_ok());
}

#[test]
fn extended_resources_are_served_by_their_class() {
    let mut world = cluster(Compatibility::Right, &[]);
    set(&mut world, Object::Node(Box::new(node("n1", 0, &[]))));
    let mut plugged = node("n2", 0, &[]);
    plugged.allocatable.other = vec![("example.com/nic".into(), 2000)];
    set(&mut world, Object::Node(Box::new(plugged)));
    set(&mut world, Object::Slice(slice_of("nic.example.com", "n1", 2)));
    set(
        &mut world,
        Object::DeviceClass(DeviceClassSpec {
            name: NIC_CLASS.into(),
            extended_resource: Some("example.com/nic".into()),
            devices: None,
        }),
    );
    let wants = |name: &str, milli: i64| {
        let mut spec = using(name, &[]);
        spec.request.other = vec![("example.com/nic".into(), milli)];
        spec
    };
    let two = put_pod(&mut world, wants("a", 2000));
    let three = put_pod(&mut world, wants("b", 3000));
    let (n1, n2) = (node_id(&world, "n1"), node_id(&world, "n2"));
    assert!(check_node(&world, three, n1).is_err());
    assert!(check_node(&world, three, n2).is_ok(), "the device plugin's amounts decide there");
    let slot = world.names.find("example.com/nic").unwrap();
    assert!(world.is_left_to_devices(world.shape_of(two), world.node(n1), slot));
    assert!(!world.is_left_to_devices(world.shape_of(two), world.node(n2), slot));
    let start = world.fingerprint();
    let checkpoint = world.checkpoint();
    place(&mut world, two, n1, Status::Allocated);
    let allocations = world.claim_allocations(two);
    assert_eq!(&*allocations[0].0, EXTENDED_CLAIM);
    let requests: Vec<_> = allocations[0].1.results.iter().map(|result| &*result.request).collect();
    assert_eq!(requests, ["container-0-request-0"; 2]);
    assert_eq!(world.claims.taken.len(), 2);
    world.evict(two);
    assert!(world.claims.taken.is_empty());
    world.unevict(two, Status::Allocated, true);
    assert_eq!(world.claims.taken.len(), 2);
    world.rollback(checkpoint);
    assert_eq!(world.fingerprint(), start);
}

#[test]
fn kai_exempts_only_sharing_pods_from_the_plain_fit() {
    let mut world = cluster(Compatibility::Kai, &[1]);
    set(
        &mut world,
        Object::DeviceClass(DeviceClassSpec {
            name: NIC_CLASS.into(),
            extended_resource: Some("example.com/nic".into()),
            devices: None,
        }),
    );
    let mut spec = using("a", &[]);
    spec.request.other = vec![("example.com/nic".into(), 1000)];
    let whole = put_pod(&mut world, spec.clone());
    spec.name = named("b");
    spec.request.gpu = crate::input::pod::GpuRequest::Fraction { portion: 0.5, devices: 1 };
    let shares = put_pod(&mut world, spec);
    let slot = world.names.find("example.com/nic").unwrap();
    let n1 = world.node(node_id(&world, "n1"));
    assert!(!world.is_left_to_devices(world.shape_of(whole), n1, slot));
    assert!(world.is_left_to_devices(world.shape_of(shares), n1, slot));
}

#[test]
fn init_containers_use_the_devices_of_those_behind_them() {
    use crate::input::pod::{ContainerDemand, ContainerKind};
    let mut world = cluster(Compatibility::Right, &[]);
    set(&mut world, Object::Node(Box::new(node("n1", 0, &[]))));
    set(&mut world, Object::Slice(slice_of("nic.example.com", "n1", 3)));
    set(
        &mut world,
        Object::DeviceClass(DeviceClassSpec {
            name: NIC_CLASS.into(),
            extended_resource: Some("example.com/nic".into()),
            devices: None,
        }),
    );
    let container =
        |kind, milli| ContainerDemand { kind, amounts: vec![("example.com/nic".into(), milli)] };
    let mut spec = using("a", &[]);
    spec.numa.containers = vec![
        container(ContainerKind::Init, 3000),
        container(ContainerKind::Init, 2000),
        container(ContainerKind::App, 2000),
    ];
    let task = put_pod(&mut world, spec);
    let n1 = node_id(&world, "n1");
    assert!(check_node(&world, task, n1).is_ok(), "three devices are enough for all");
    place(&mut world, task, n1, Status::Allocated);
    let results = &world.claim_allocations(task)[0].1.results;
    let count = |name: &str| results.iter().filter(|result| &*result.request == name).count();
    assert_eq!(count("container-0-request-0"), 3);
    assert_eq!(count("container-1-request-0"), 2);
    assert_eq!(count("container-2-request-0"), 2);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Place(usize, usize, bool),
    Evict(usize),
    Unevict(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_usize, 0..2_usize, any::<bool>())
            .prop_map(|(pod, node, now)| Step::Place(pod, node, now)),
        (0..6_usize).prop_map(Step::Evict),
        (0..6_usize).prop_map(Step::Unevict),
    ]
}

fn busy_world(compatibility: Compatibility) -> (World, Vec<TaskId>) {
    let mut world = cluster(compatibility, &[3, 3]);
    set(&mut world, Object::Claim(given(gpu_claim("shared", 1), "n1", &[2], &["p0", "p1"])));
    set(&mut world, Object::Claim(given(gpu_claim("own", 2), "n2", &[0, 1], &["p2"])));
    for name in ["x", "y"] {
        set(&mut world, Object::Claim(gpu_claim(name, 1)));
    }
    let pods = [
        running(using("p0", &["shared"]), "n1"),
        running(using("p1", &["shared"]), "n1"),
        running(using("p2", &["own"]), "n2"),
        using("p3", &["x"]),
        using("p4", &["x", "y"]),
        using("p5", &["shared"]),
    ];
    let tasks = pods.into_iter().map(|spec| put_pod(&mut world, spec)).collect();
    (world, tasks)
}

proptest! {
    /// Whatever a cycle does, a rollback restores everything; and no device serves two claims.
    #[test]
    fn a_rollback_restores_all(steps in proptest::collection::vec(step(), 0..20), kai: bool) {
        let compatibility = if kai { Compatibility::Kai } else { Compatibility::Right };
        let (mut world, tasks) = busy_world(compatibility);
        let nodes = [node_id(&world, "n1"), node_id(&world, "n2")];
        let start = world.fingerprint();
        let checkpoint = world.checkpoint();
        for step in steps {
            match step {
                Step::Place(pod, node, now) => {
                    let may = world.task(tasks[pod]).state.status == Status::Pending
                        && check_node(&world, tasks[pod], nodes[node]).is_ok();
                    if may {
                        let status = if now { Status::Allocated } else { Status::Pipelined };
                        place(&mut world, tasks[pod], nodes[node], status);
                    }
                }
                Step::Evict(pod) => {
                    if world.task(tasks[pod]).state.status.is_active_allocated() {
                        world.evict(tasks[pod]);
                    }
                }
                Step::Unevict(pod) => {
                    let status = world.task(tasks[pod]).state.status;
                    if status == Status::Releasing && world.keeps_devices(tasks[pod]) {
                        world.unevict(tasks[pod], Status::Running, false);
                    }
                }
            }
            prop_assert!(world.claims.taken.values().all(|holders| holders.len() == 1));
        }
        world.rollback(checkpoint);
        prop_assert_eq!(world.fingerprint(), start);
        prop_assert_eq!(world.claims.taken.len(), 3);
    }
}
