//! Devices that must have something in common, taints of devices, and names of alternatives.

use super::*;
use crate::input::devices::SameAttribute;
use crate::input::node::{Taint, TaintEffect};
use crate::input::pod::Toleration;

const RACK: &str = "gpu.example.com/rack";

/// Devices 0, 1, … of `n1`, each on the rack named.
fn on_racks(racks: &[&str]) -> SliceSpec {
    let mut slice = slice_of("gpu.example.com", "n1", racks.len());
    for (device, rack) in slice.devices.iter_mut().zip(racks) {
        device.attributes.insert(RACK.into(), Text::from(*rack));
    }
    slice
}

fn cluster_with(slice: SliceSpec) -> World {
    let mut world = cluster(Compatibility::Right, &[0]);
    set(&mut world, Object::Slice(slice));
    world
}

fn same_rack(requests: &[&str]) -> SameAttribute {
    let requests = requests.iter().map(|name| Text::from(*name)).collect();
    SameAttribute { requests, attribute: RACK.into() }
}

fn placed(world: &mut World, claim: ClaimSpec) -> Vec<String> {
    let name = claim.name.name.clone();
    set(world, Object::Claim(claim));
    let task = put_pod(world, using("a", &[&name]));
    let node = node_id(world, "n1");
    if check_node(world, task, node).is_err() {
        return Vec::new();
    }
    place(world, task, node, Status::Allocated);
    devices_of(world, &name)
}

#[test]
fn devices_agree_in_an_attribute() {
    let two = |requests: &[&str]| {
        let mut claim = gpu_claim("c", 2);
        claim.constraints = vec![same_rack(requests)];
        claim
    };
    let racks = ["r1", "r2", "r1", "r2"];
    assert_eq!(placed(&mut cluster_with(on_racks(&racks)), two(&[])), ["0", "2"]);
    assert_eq!(placed(&mut cluster_with(on_racks(&racks)), two(&["another"])), ["0", "1"]);
    assert!(placed(&mut cluster_with(on_racks(&["r1", "r2"])), two(&[])).is_empty());
    let unknown = slice_of("gpu.example.com", "n1", 2);
    assert!(placed(&mut cluster_with(unknown), two(&[])).is_empty(), "no device has the attribute");
}

#[test]
fn requests_agree_with_each_other() {
    let mut claim = claim(
        "c",
        vec![
            request("one", vec![exactly(GPU_CLASS, 1)]),
            request("two", vec![exactly(GPU_CLASS, 2)]),
        ],
    );
    claim.constraints = vec![same_rack(&["one", "two"])];
    let racks = ["r1", "r2", "r2", "r1", "r2"];
    assert_eq!(placed(&mut cluster_with(on_racks(&racks)), claim), ["1", "2", "4"]);
}

#[test]
fn a_constraint_can_be_about_one_alternative() {
    let alternative = |name: &str, count| DeviceAlternative {
        name: Some(name.into()),
        ..exactly(GPU_CLASS, count)
    };
    let mut claim =
        claim("c", vec![request("r", vec![alternative("big", 2), alternative("small", 1)])]);
    claim.constraints = vec![same_rack(&["r/big"])];
    let mut world = cluster_with(on_racks(&["r1", "r2"]));
    assert_eq!(placed(&mut world, claim), ["0"]);
    let view = world.claims().state_of(&named("c")).unwrap();
    let names: Vec<&str> =
        view.allocation.iter().flat_map(|given| &given.results).map(|one| &*one.request).collect();
    assert_eq!(names, ["r/small"]);
}

#[test]
fn taints_of_devices_must_be_tolerated() {
    let tainted = |effect| {
        let mut slice = slice_of("gpu.example.com", "n1", 2);
        slice.devices[0].taints = vec![Taint { key: "k".into(), value: "v".into(), effect }];
        cluster_with(slice)
    };
    let mut tolerant = gpu_claim("c", 1);
    let toleration = Toleration { key: Some("k".into()), value: None, effect: None };
    tolerant.requests[0].alternatives[0].tolerations = vec![toleration];
    for effect in [TaintEffect::NoSchedule, TaintEffect::NoExecute] {
        assert_eq!(placed(&mut tainted(effect), gpu_claim("c", 1)), ["1"]);
        assert_eq!(placed(&mut tainted(effect), tolerant.clone()), ["0"]);
        assert!(placed(&mut tainted(effect), gpu_claim("c", 2)).is_empty());
    }
    assert_eq!(placed(&mut tainted(TaintEffect::PreferNoSchedule), gpu_claim("c", 1)), ["0"]);
}
