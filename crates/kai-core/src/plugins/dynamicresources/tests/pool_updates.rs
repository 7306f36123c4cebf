//! Pools that are being updated, and devices that say themselves from where they can be used.

use super::*;

fn offered(world: &World, name: &str) -> i64 {
    world.node(node_id(world, name)).allocatable.get(GPU)
}

#[test]
fn devices_of_an_incomplete_pool_are_not_given() {
    let mut world = cluster(Compatibility::Right, &[2]);
    set(&mut world, Object::Claim(gpu_claim("c", 1)));
    let task = put_pod(&mut world, using("a", &["c"]));
    let n1 = node_id(&world, "n1");
    assert!(check_node(&world, task, n1).is_ok());
    let mut next = slice_of("gpu.example.com", "n1", 1);
    (next.name, next.generation, next.pool_slices) = ("next-0".into(), 2, Some(2));
    next.devices[0].name = "next-device-0".into();
    set(&mut world, Object::Slice(next.clone()));
    assert_eq!(offered(&world, "n1"), 0, "one of two slices of the new generation");
    assert!(check_node(&world, task, n1).is_err());
    next.name = "next-1".into();
    next.devices[0].name = "next-device-1".into();
    set(&mut world, Object::Slice(next));
    assert_eq!(offered(&world, "n1"), 2, "the old slice is out of date");
    assert!(check_node(&world, task, n1).is_ok());
    assert_eq!(world.describe(), world.rebuilt().describe());
    place(&mut world, task, n1, Status::Allocated);
    assert_eq!(devices_of(&world, "c"), ["next-device-0"]);
}

#[test]
fn all_devices_wait_for_pools_that_are_being_updated() {
    let mut world = cluster(Compatibility::Right, &[2]);
    let all = DeviceAlternative { count: DeviceCount::All, ..exactly(GPU_CLASS, 0) };
    set(&mut world, Object::Claim(claim("c", vec![request("r", vec![all])])));
    let task = put_pod(&mut world, using("a", &["c"]));
    let n1 = node_id(&world, "n1");
    assert!(check_node(&world, task, n1).is_ok());
    let mut other = slice_of("gpu.example.com", "n1", 1);
    (other.name, other.pool, other.pool_slices) = ("other".into(), "other".into(), Some(2));
    set(&mut world, Object::Slice(other));
    assert!(check_node(&world, task, n1).is_err());
}

#[test]
fn devices_can_say_themselves_which_node_has_them() {
    let mut world = cluster(Compatibility::Right, &[0, 0]);
    let mut slice = slice_of("gpu.example.com", "pool", 3);
    slice.access = DeviceAccess::PerDevice;
    slice.devices[0].access = Some(DeviceAccess::Node("n1".into()));
    slice.devices[1].access = Some(DeviceAccess::Node("n2".into()));
    set(&mut world, Object::Slice(slice));
    assert_eq!((offered(&world, "n1"), offered(&world, "n2")), (1, 1));
    set(&mut world, Object::Claim(gpu_claim("c", 1)));
    set(&mut world, Object::Claim(gpu_claim("d", 2)));
    let one = put_pod(&mut world, using("a", &["c"]));
    let two = put_pod(&mut world, using("b", &["d"]));
    let n2 = node_id(&world, "n2");
    assert!(check_node(&world, two, n2).is_err(), "the third device is nowhere");
    let start = world.checkpoint();
    place(&mut world, one, n2, Status::Allocated);
    assert_eq!(devices_of(&world, "c"), ["1"]);
    world.rollback(start);
    world.apply(Delta::Remove(ObjectKey::Slice("pool-gpu.example.com".into())));
    assert_eq!((offered(&world, "n1"), offered(&world, "n2")), (0, 0));
}
