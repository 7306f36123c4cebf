//! Volumes and their classes.

use kai_api::names::storage as names;
use kai_api::quantity::Quantity;
use kai_api::view::ObjectMeta;
use kai_core::input::selectors::LabelSelector;
use kai_core::input::storage::{
    StorageCapacitySpec, StorageClassSpec, VolumeClaimSpec, VolumeSpec, VolumeTraits, VolumeWants,
};
use kai_core::input::{ObjectName, Text};

use crate::problem::{Complaints, Translated};
use crate::selectors;
use crate::view::{
    CsiDriver, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
};

/// The mode of a volume that is a raw device.
const BLOCK: &str = "Block";

fn texts(list: &[String]) -> Vec<Text> {
    list.iter().map(|text| text.as_str().into()).collect()
}

fn object_name(metadata: &ObjectMeta) -> ObjectName {
    ObjectName::new(metadata.namespace.as_str(), metadata.name.as_str())
}

fn bytes(quantity: Option<&String>, field: &str, complaints: &mut Complaints) -> i64 {
    let Some(quantity) = quantity else { return 0 };
    let read = Quantity::parse(quantity).map_err(|error| format!("{error}, is {quantity:?}"));
    complaints.check(|| field.to_owned(), read).map_or(0, |read| read.value())
}

pub fn claim(claim: &PersistentVolumeClaim) -> Translated<VolumeClaimSpec> {
    let name = object_name(&claim.metadata);
    let mut complaints = Complaints::about(format!("PersistentVolumeClaim {name}"));
    let spec = &claim.spec;
    let storage = spec.resources.requests.storage.as_ref();
    let owner_pod = match claim.metadata.owner_references.as_slice() {
        [owner] if owner.kind == "Pod" => Some(owner.name.as_str().into()),
        _ => None,
    };
    let object = VolumeClaimSpec {
        name,
        class: selectors::non_empty(spec.storage_class_name.as_ref()),
        bytes: bytes(storage, "spec.resources.requests[storage]", &mut complaints),
        volume: selectors::non_empty(spec.volume_name.as_ref()),
        deleting: claim.metadata.is_terminating(),
        owner_pod,
        selected_node: selectors::non_empty(claim.metadata.annotations.get(names::SELECTED_NODE)),
        wants: VolumeWants {
            access_modes: texts(&spec.access_modes),
            is_block: spec.volume_mode.as_deref() == Some(BLOCK),
            selector: match &spec.selector {
                Some(selector) => selectors::label_selector(Some(selector)),
                None => LabelSelector::default(),
            },
        },
    };
    complaints.only_if_sound(object)
}

pub fn volume(volume: &PersistentVolume) -> Translated<VolumeSpec> {
    let name = volume.metadata.name.as_str();
    let mut complaints = Complaints::about(format!("PersistentVolume {name}"));
    let spec = &volume.spec;
    let storage = spec.capacity.storage.as_ref();
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let phase = volume.status.phase.as_deref();
    let claim = spec.claim_ref.as_ref();
    let claim = claim.map(|one| ObjectName::new(one.namespace.as_str(), one.name.as_str()));
    let object = VolumeSpec {
        name: name.into(),
        class: selectors::non_empty(spec.storage_class_name.as_ref()),
        bytes: bytes(storage, "spec.capacity[storage]", &mut complaints),
        nodes: required.map(selectors::node_terms).unwrap_or_default(),
        claim,
        traits: VolumeTraits {
            access_modes: texts(&spec.access_modes),
            is_block: spec.volume_mode.as_deref() == Some(BLOCK),
            labels: selectors::labels(&volume.metadata.labels),
            is_withdrawn: volume.metadata.is_terminating()
                || matches!(phase, Some("Released" | "Failed")),
        },
    };
    complaints.only_if_sound(object)
}

pub fn class(class: &StorageClass) -> Translated<StorageClassSpec> {
    let mode = class.volume_binding_mode.as_deref();
    let terms = class.allowed_topologies.iter();
    StorageClassSpec {
        name: class.metadata.name.as_str().into(),
        provisioner: class.provisioner.as_str().into(),
        waits_for_consumer: mode == Some("WaitForFirstConsumer"),
        allowed_nodes: terms.map(selectors::topology_term).collect(),
    }
    .into()
}

/// The name of a driver that publishes capacities; none for other drivers.
pub fn driver(driver: &CsiDriver) -> Option<&str> {
    let publishes = driver.spec.storage_capacity.unwrap_or_default();
    publishes.then_some(driver.metadata.name.as_str())
}

/// Free capacity of a class.
pub fn capacity(capacity: &CsiStorageCapacity) -> Translated<StorageCapacitySpec> {
    let name = object_name(&capacity.metadata);
    let mut complaints = Complaints::about(format!("CSIStorageCapacity {name}"));
    let free = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
    let field =
        if capacity.maximum_volume_size.is_some() { "maximumVolumeSize" } else { "capacity" };
    let object = StorageCapacitySpec {
        name,
        class: capacity.storage_class_name.as_str().into(),
        nodes: capacity
            .node_topology
            .as_ref()
            .map(selectors::node_term_of_labels)
            .unwrap_or_default(),
        bytes: bytes(free, field, &mut complaints),
    };
    complaints.only_if_sound(object)
}
