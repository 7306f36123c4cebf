//! Device classes, slices and claims in the core's words.

use kai_core::input::devices::{
    AllocatedDevice, Allocation, DeviceAccess, DeviceAlternative, DeviceCount, DeviceRef,
    DeviceRequest, DeviceSpec, NamedAmounts,
};
use kai_core::input::{ClaimSpec, DeviceClassSpec, Object, ObjectKey, ObjectName, SliceSpec, Text};
use kai_core::world::World;

use super::selectors::{kubernetes_node_terms, kubernetes_selector, labels, text};
use crate::format::{
    self, ClaimAllocation, ClaimConsumer, ClaimStatus, ResourceClaim, ResourceSlice,
};
use crate::outcome::CycleOutcome;
use crate::state::ClusterState;

pub(super) fn translate(state: &ClusterState) -> Vec<(ObjectKey, Object)> {
    let mut objects = Vec::new();
    for class in &state.device_classes {
        let extended_resource = class.extended_resource.as_deref().map(text);
        let name = text(&class.name);
        let spec = DeviceClassSpec { name: name.clone(), extended_resource, devices: None };
        objects.push((ObjectKey::DeviceClass(name), Object::DeviceClass(spec)));
    }
    for slice in &state.resource_slices {
        objects.push((ObjectKey::Slice(text(&slice.name)), Object::Slice(slice_spec(slice))));
    }
    for claim in &state.resource_claims {
        let spec = claim_spec(claim);
        objects.push((ObjectKey::Claim(spec.name.clone()), Object::Claim(spec)));
    }
    objects
}

fn slice_spec(slice: &ResourceSlice) -> SliceSpec {
    let access = match (&slice.node, &slice.node_selector) {
        (Some(node), _) => DeviceAccess::Node(text(node)),
        (None, Some(selector)) => DeviceAccess::Nodes(kubernetes_node_terms(selector)),
        (None, None) => DeviceAccess::AllNodes,
    };
    let pool = slice.pool.as_ref().or(slice.node.as_ref()).unwrap_or(&slice.name);
    SliceSpec {
        name: text(&slice.name),
        driver: text(&slice.driver),
        pool: text(pool),
        generation: 0,
        pool_slices: None,
        counter_sets: Vec::new(),
        access,
        devices: slice.devices.iter().map(|name| DeviceSpec::named(text(name))).collect(),
    }
}

fn claim_spec(claim: &ResourceClaim) -> ClaimSpec {
    let request = |request: &format::ClaimRequest| DeviceRequest {
        name: text(&request.name),
        alternatives: vec![DeviceAlternative {
            name: None,
            class: text(&request.device_class),
            // Kubernetes reads a count of 0 as 1.
            count: DeviceCount::Exactly(request.count.max(1)),
            devices: None,
            capacity: NamedAmounts::new(),
            admin_access: false,
            tolerations: Vec::new(),
        }],
    };
    let nothing = ClaimStatus::default();
    let status = claim.status.as_ref().unwrap_or(&nothing);
    ClaimSpec {
        name: ObjectName::new(claim.namespace.as_str(), claim.name.as_str()),
        labels: labels(&claim.labels),
        owner_pod: None,
        requests: claim.requests.iter().map(request).collect(),
        constraints: Vec::new(),
        for_extended_resource: false,
        allocation: status.allocation.as_ref().map(allocation),
        reserved_for: status
            .reserved_for
            .iter()
            .map(|user| text(&user.name))
            .collect::<Vec<Text>>(),
    }
}

fn allocation(given: &ClaimAllocation) -> Allocation {
    let device = |device: &format::AllocatedDevice| AllocatedDevice {
        request: text(&device.request),
        device: DeviceRef {
            driver: text(&device.driver),
            pool: text(&device.pool),
            device: text(&device.device),
        },
        share: None,
    };
    Allocation {
        results: given.devices.results.iter().map(device).collect(),
        nodes: given.node_selector.as_ref().map(kubernetes_node_terms).unwrap_or_default(),
    }
}

/// Claims as the world shows them. What the drivers reported stays as it was.
pub(super) fn claims_back(state: &ClusterState, world: &World, outcome: &mut CycleOutcome) {
    for claim in &state.resource_claims {
        let name = ObjectName::new(claim.namespace.as_str(), claim.name.as_str());
        let Some(view) = world.claims().state_of(&name) else { continue };
        let before = claim.status.clone().unwrap_or_default();
        let consumer = |pod: &Text| ClaimConsumer {
            api_group: String::new(),
            resource: "pods".to_owned(),
            name: pod.to_string(),
            uid: pod.to_string(),
        };
        let unchanged = before.allocation.as_ref().map(allocation).as_ref() == view.allocation;
        let status = ClaimStatus {
            allocation: if unchanged {
                before.allocation.clone()
            } else {
                view.allocation.map(allocation_back)
            },
            reserved_for: view.reserved_for.iter().map(consumer).collect(),
            devices: before.devices,
        };
        let name = crate::format::ObjectName {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
        };
        outcome.claims.insert(name, status);
    }
}

fn allocation_back(given: &Allocation) -> ClaimAllocation {
    let device = |given: &AllocatedDevice| format::AllocatedDevice {
        request: given.request.to_string(),
        driver: given.device.driver.to_string(),
        pool: given.device.pool.to_string(),
        device: given.device.device.to_string(),
    };
    ClaimAllocation {
        devices: format::AllocatedDevices {
            results: given.results.iter().map(device).collect(),
            config: Vec::new(),
        },
        node_selector: kubernetes_selector(&given.nodes),
        allocation_timestamp: None,
    }
}
