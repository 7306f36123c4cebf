//! GPUs of the device plugin beside devices that are offered through claims.

use super::*;
use crate::placement::fit::When;

/// Whether two pods of eight GPUs fit a node with eight GPUs of its device plugin and eight devices.
fn second_pod_fits(compatibility: Compatibility, when: When) -> bool {
    let mut world = cluster(compatibility, &[0]);
    set(&mut world, Object::Node(Box::new(node("n1", 8, &[]))));
    set(&mut world, Object::Slice(slice_of("gpu.example.com", "n1", 8)));
    let n1 = node_id(&world, "n1");
    let first = put_pod(&mut world, pod("a", "job", 8));
    let second = put_pod(&mut world, pod("b", "job", 8));
    assert!(world.fits(first, world.node(n1), when));
    place(&mut world, first, n1, Status::Allocated);
    world.fits(second, world.node(n1), when)
}

#[test]
fn plain_gpus_come_from_the_device_plugin() {
    for when in [When::Now, When::Later] {
        assert!(!second_pod_fits(Compatibility::Right, when));
        assert!(second_pod_fits(Compatibility::Kai, when));
    }
}

#[test]
fn claims_use_devices_beside_plain_gpus() {
    let mut world = cluster(Compatibility::Right, &[0]);
    set(&mut world, Object::Node(Box::new(node("n1", 8, &[]))));
    set(&mut world, Object::Slice(slice_of("gpu.example.com", "n1", 8)));
    let n1 = node_id(&world, "n1");
    let plain = put_pod(&mut world, pod("a", "job", 8));
    set(&mut world, Object::Claim(gpu_claim("c", 8)));
    let claims = put_pod(&mut world, using("b", &["c"]));
    place(&mut world, plain, n1, Status::Allocated);
    assert!(world.fits(claims, world.node(n1), When::Now));
}

#[test]
fn plain_pod_waits_where_gpus_are_devices_only() {
    for (compatibility, fits) in [(Compatibility::Right, false), (Compatibility::Kai, true)] {
        let mut world = cluster(compatibility, &[4]);
        let plain = put_pod(&mut world, pod("a", "job", 1));
        let n1 = node_id(&world, "n1");
        assert_eq!(world.fits(plain, world.node(n1), When::Now), fits);
        assert_eq!(world.shortages(plain, world.node(n1)).is_none(), fits);
    }
}

#[test]
fn class_behind_the_resource_serves_plain_pods() {
    let mut world = cluster(Compatibility::Right, &[4]);
    set(
        &mut world,
        Object::DeviceClass(DeviceClassSpec {
            name: GPU_CLASS.into(),
            extended_resource: Some("nvidia.com/gpu".into()),
            devices: None,
        }),
    );
    let plain = put_pod(&mut world, pod("a", "job", 1));
    let n1 = node_id(&world, "n1");
    assert!(world.fits(plain, world.node(n1), When::Now));
}
