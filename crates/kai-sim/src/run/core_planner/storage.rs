//! Volumes and what belongs to them in the core's words.

use kai_core::input::storage::{
    StorageCapacitySpec, StorageClassSpec, StorageKey, StorageObject, VolumeClaimSpec, VolumeSpec,
    VolumeTraits, VolumeWants,
};
use kai_core::input::{Object, ObjectKey, ObjectName, Text};

use super::selectors::{node_terms, nodes_with, text};
use crate::format::{BindingMode, PersistentVolume, VolumeClaim, VolumeClaimPhase};
use crate::state::ClusterState;

pub(super) fn translate(state: &ClusterState) -> Vec<(ObjectKey, Object)> {
    let storage = &state.storage;
    let mut objects = Vec::new();
    let mut add = |key: StorageKey, object: StorageObject| {
        objects.push((ObjectKey::Storage(key), Object::Storage(object)));
    };
    for claim in &storage.claims {
        let spec = claim_spec(claim);
        add(StorageKey::Claim(spec.name.clone()), StorageObject::Claim(spec));
    }
    for volume in &storage.volumes {
        add(StorageKey::Volume(text(&volume.name)), StorageObject::Volume(volume_spec(volume)));
    }
    for class in &storage.classes {
        let spec = StorageClassSpec {
            name: text(&class.name),
            provisioner: text(&class.provisioner),
            waits_for_consumer: class.binding_mode == BindingMode::WaitForFirstConsumer,
            allowed_nodes: Vec::new(),
        };
        add(StorageKey::Class(text(&class.name)), StorageObject::Class(spec));
    }
    for driver in storage.drivers.iter().filter(|driver| driver.storage_capacity) {
        let name = text(&driver.name);
        add(StorageKey::Driver(name.clone()), StorageObject::Driver(name));
    }
    for capacity in &storage.capacities {
        let name = ObjectName::new("", capacity.name.as_str());
        let spec = StorageCapacitySpec {
            name: name.clone(),
            class: text(&capacity.storage_class),
            nodes: nodes_with(&capacity.match_labels),
            bytes: capacity.capacity_bytes,
        };
        add(StorageKey::Capacity(name), StorageObject::Capacity(spec));
    }
    objects
}

fn class_of(name: &str) -> Option<Text> {
    Some(name).filter(|name| !name.is_empty()).map(text)
}

fn claim_spec(claim: &VolumeClaim) -> VolumeClaimSpec {
    let waits = claim.phase == VolumeClaimPhase::Pending;
    VolumeClaimSpec {
        name: ObjectName::new(claim.namespace.as_str(), claim.name.as_str()),
        class: class_of(&claim.storage_class),
        bytes: claim.size_bytes,
        volume: claim.volume.as_deref().filter(|_| !waits).map(text),
        deleting: claim.deleting,
        owner_pod: claim.owner.as_deref().map(text),
        selected_node: None,
        wants: VolumeWants::default(),
    }
}

fn volume_spec(volume: &PersistentVolume) -> VolumeSpec {
    VolumeSpec {
        name: text(&volume.name),
        class: class_of(&volume.storage_class),
        bytes: volume.capacity_bytes,
        nodes: node_terms(&volume.node_affinity),
        claim: volume
            .claim
            .as_ref()
            .map(|claim| ObjectName::new(claim.namespace.as_str(), claim.name.as_str())),
        traits: VolumeTraits::default(),
    }
}
