//! Devices that depend on each other: a GPU and its partitions, and devices of which several claims have shares.

use super::*;
use crate::input::devices::{
    CapacityPolicy, CapacityRange, CounterSet, CounterUse, DeviceCapacity,
};

const DRIVER: &str = "gpu.example.com";

fn amounts(name: &str, amount: i64) -> NamedAmounts {
    [(Text::from(name), amount)].into()
}

/// A device that takes so much of the memory of the GPU `set`.
fn consuming(name: &str, set: &str, memory: i64) -> DeviceSpec {
    let mut device = DeviceSpec::named(name);
    device.consumes.push(CounterUse { set: set.into(), counters: amounts("memory", memory) });
    device
}

/// A GPU of 40 as a whole and as two halves.
fn partitioned() -> SliceSpec {
    let mut slice = slice_of(DRIVER, "n1", 0);
    slice.counter_sets = vec![CounterSet { name: "gpu-0".into(), counters: amounts("memory", 40) }];
    slice.devices = vec![
        consuming("whole", "gpu-0", 40),
        consuming("half-a", "gpu-0", 20),
        consuming("half-b", "gpu-0", 20),
    ];
    slice
}

fn cluster_with(slice: SliceSpec) -> World {
    let mut world = cluster(Compatibility::Right, &[0]);
    world.apply(Delta::Remove(ObjectKey::Slice("n1-gpu.example.com".into())));
    set(&mut world, Object::Slice(slice));
    world
}

/// A claim for one of these devices.
fn claim_of(name: &str, devices: &[&str]) -> ClaimSpec {
    let reference = |device: &&str| DeviceRef {
        driver: DRIVER.into(),
        pool: "n1".into(),
        device: Text::from(*device),
    };
    let mut wanted = exactly(GPU_CLASS, 1);
    wanted.devices = Some(devices.iter().map(reference).collect());
    claim(name, vec![request("request", vec![wanted])])
}

/// Which claims, one after the other, got devices on `n1`, each for a pod of its own.
fn served(world: &mut World, claims: Vec<ClaimSpec>) -> Vec<bool> {
    let mut tasks = Vec::new();
    for claim in claims {
        let name = claim.name.name.clone();
        set(world, Object::Claim(claim));
        tasks.push(put_pod(world, using(&format!("pod-{name}"), &[&name])));
    }
    let n1 = node_id(world, "n1");
    let mut serve = |task: TaskId| {
        let fits = check_node(world, task, n1).is_ok();
        if fits {
            place(world, task, n1, Status::Allocated);
        }
        fits
    };
    tasks.into_iter().map(&mut serve).collect()
}

#[test]
fn gpu_and_its_partitions_are_never_given_at_once() {
    let mut world = cluster_with(partitioned());
    let claims = vec![
        claim_of("a", &["half-a"]),
        claim_of("b", &["whole"]),
        claim_of("c", &["half-b", "whole"]),
    ];
    assert_eq!(served(&mut world, claims), [true, false, true]);
    assert_eq!(devices_of(&world, "c"), ["half-b"]);
    let claims = vec![claim_of("a", &["whole"]), claim_of("b", &["half-a", "half-b"])];
    assert_eq!(served(&mut cluster_with(partitioned()), claims), [true, false]);
}

#[test]
fn requests_of_one_claim_do_not_take_a_gpu_and_its_partition() {
    let mut several = claim_of("c", &["whole", "half-a", "half-b"]);
    several.requests[0].alternatives[0].count = DeviceCount::Exactly(2);
    let mut world = cluster_with(partitioned());
    assert_eq!(served(&mut world, vec![several.clone()]), [true]);
    assert_eq!(devices_of(&world, "c"), ["half-a", "half-b"]);
    several.requests[0].alternatives[0].count = DeviceCount::Exactly(3);
    assert_eq!(served(&mut cluster_with(partitioned()), vec![several]), [false]);
}

#[test]
fn evicted_pod_gives_the_counters_back() {
    let mut world = cluster_with(partitioned());
    let claims = vec![claim_of("a", &["whole"]), claim_of("b", &["half-a"])];
    assert_eq!(served(&mut world, claims), [true, false]);
    let (gone, waits) = (task_id(&world, "pod-a"), task_id(&world, "pod-b"));
    world.evict(gone);
    assert!(check_node(&world, waits, node_id(&world, "n1")).is_ok());
}

#[test]
fn allocated_claims_hold_counters_whichever_comes_first() {
    let mut taken = claim_of("taken", &["half-a"]);
    let device = DeviceRef { driver: DRIVER.into(), pool: "n1".into(), device: "half-a".into() };
    taken.allocation = Some(Allocation {
        results: vec![AllocatedDevice { request: "request".into(), device, share: None }],
        nodes: Vec::new(),
    });
    taken.reserved_for = vec!["holder".into()];
    for slice_first in [true, false] {
        let mut world = cluster(Compatibility::Right, &[0]);
        world.apply(Delta::Remove(ObjectKey::Slice("n1-gpu.example.com".into())));
        if slice_first {
            set(&mut world, Object::Slice(partitioned()));
        }
        set(&mut world, Object::Claim(taken.clone()));
        put_pod(&mut world, running(using("holder", &["taken"]), "n1"));
        set(&mut world, Object::Slice(partitioned()));
        let claims = vec![claim_of("a", &["whole"]), claim_of("b", &["half-b"])];
        assert_eq!(served(&mut world, claims), [false, true]);
    }
}

#[test]
fn counters_of_another_slice_of_the_pool_count() {
    let mut counters = partitioned();
    counters.name = "counters".into();
    counters.devices.clear();
    counters.pool_slices = Some(2);
    let mut devices = partitioned();
    devices.counter_sets.clear();
    devices.pool_slices = Some(2);
    let claims = || vec![claim_of("a", &["half-a"]), claim_of("b", &["whole"])];
    let mut incomplete = cluster_with(devices.clone());
    assert_eq!(served(&mut incomplete, claims()), [false, false]);
    let mut complete = cluster_with(devices.clone());
    set(&mut complete, Object::Slice(counters));
    assert_eq!(served(&mut complete, claims()), [true, false]);
    devices.pool_slices = Some(1);
    let mut without_counters = cluster_with(devices);
    assert_eq!(served(&mut without_counters, claims()), [false, false]);
}

#[test]
fn node_offers_as_many_gpus_as_can_be_given_at_once() {
    for (compatibility, gpus) in [(Compatibility::Right, 2), (Compatibility::Kai, 3)] {
        let mut world = cluster(compatibility, &[0]);
        set(&mut world, Object::Slice(partitioned()));
        assert_eq!(world.node(node_id(&world, "n1")).allocatable.get(GPU), gpus);
    }
}

/// One device of which claims have shares of at least 10 of 80.
fn shareable() -> SliceSpec {
    let range = CapacityRange { min: 10, max: None, step: Some(10) };
    let policy = CapacityPolicy { valid_range: Some(range), ..CapacityPolicy::default() };
    let mut device = DeviceSpec::named("0");
    device.is_shareable = true;
    device.capacity.insert("memory".into(), DeviceCapacity { value: 80, policy: Some(policy) });
    let mut slice = slice_of(DRIVER, "n1", 0);
    slice.devices = vec![device];
    slice
}

fn claim_of_share(name: &str, memory: i64) -> ClaimSpec {
    let mut wanted = exactly(GPU_CLASS, 1);
    wanted.capacity = amounts("gpu.example.com/memory", memory);
    claim(name, vec![request("request", vec![wanted])])
}

#[test]
fn shares_of_a_device_fit_its_capacity() {
    let mut world = cluster_with(shareable());
    let claims = vec![
        claim_of_share("a", 45),
        claim_of_share("b", 31),
        claim_of_share("c", 30),
        claim_of_share("d", 1),
    ];
    assert_eq!(served(&mut world, claims), [true, false, true, false], "50 and 30 are all");
    let share = |claim: &str| {
        let view = world.claims().state_of(&named(claim)).unwrap();
        view.allocation.unwrap().results[0].share.clone().unwrap()
    };
    assert_eq!(share("a").consumed, amounts("memory", 50));
    assert_eq!(share("c").consumed, amounts("memory", 30));
    assert_ne!(share("a").id, share("c").id);
    assert_eq!(world.node(node_id(&world, "n1")).allocatable.get(GPU), 8);
}

#[test]
fn device_without_a_policy_is_shared_until_its_capacity_is_taken() {
    let mut slice = shareable();
    let unbounded = DeviceCapacity { value: 80, policy: None };
    slice.devices[0].capacity.insert("memory".into(), unbounded);
    let mut world = cluster_with(slice);
    let claims = vec![
        claim_of_share("a", 40),
        claim_of_share("b", 30),
        claim_of_share("c", 20),
        claim_of_share("d", 10),
    ];
    assert_eq!(served(&mut world, claims), [true, true, false, true]);
    let allocatable = world.node(node_id(&world, "n1")).allocatable.get(GPU);
    assert!(allocatable >= 3, "three claims of one GPU each do not fit {allocatable}");
}

#[test]
fn capacity_that_a_device_does_not_have_is_not_served() {
    let mut whole = slice_of(DRIVER, "n1", 1);
    whole.devices[0].capacity.insert("memory".into(), DeviceCapacity { value: 80, policy: None });
    let is_served = |slice: &SliceSpec, memory| {
        served(&mut cluster_with(slice.clone()), vec![claim_of_share("c", memory)])
    };
    assert_eq!(is_served(&whole, 80), [true]);
    assert_eq!(is_served(&whole, 81), [false]);
    assert_eq!(is_served(&slice_of(DRIVER, "n1", 1), 1), [false]);
}
