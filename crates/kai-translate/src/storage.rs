//! Volumes and their classes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kai_api::names::storage as names;
use kai_api::quantity::Quantity;
use kai_core::input::selectors::LabelSelector;
use kai_core::input::storage::{
    StorageCapacitySpec, StorageClassSpec, VolumeClaimSpec, VolumeSpec, VolumeTraits, VolumeWants,
};
use kai_core::input::{ObjectName, Text};

use crate::problem::{Complaints, Translated};
use crate::selectors;

/// The mode of a volume that is a raw device.
const BLOCK: &str = "Block";

fn texts(list: Option<&Vec<String>>) -> Vec<Text> {
    list.into_iter().flatten().map(|text| text.as_str().into()).collect()
}

fn object_name(metadata: &ObjectMeta) -> ObjectName {
    ObjectName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

fn bytes(quantity: Option<&ApiQuantity>, field: &str, complaints: &mut Complaints) -> i64 {
    let Some(quantity) = quantity else { return 0 };
    let read =
        Quantity::parse(&quantity.0).map_err(|error| format!("{error}, is {:?}", quantity.0));
    complaints.check(|| field.to_owned(), read).map_or(0, |read| read.value())
}

pub fn claim(claim: &PersistentVolumeClaim) -> Translated<VolumeClaimSpec> {
    let name = object_name(&claim.metadata);
    let mut complaints = Complaints::about(format!("PersistentVolumeClaim {name}"));
    let spec = claim.spec.clone().unwrap_or_default();
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let storage = requests.and_then(|requests| requests.get("storage"));
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    let owner_pod = match owners {
        [owner] if owner.kind == "Pod" => Some(owner.name.as_str().into()),
        _ => None,
    };
    let object = VolumeClaimSpec {
        name,
        class: selectors::non_empty(spec.storage_class_name.as_ref()),
        bytes: bytes(storage, "spec.resources.requests[storage]", &mut complaints),
        volume: selectors::non_empty(spec.volume_name.as_ref()),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        owner_pod,
        selected_node: selectors::non_empty(
            claim.metadata.annotations.as_ref().and_then(|all| all.get(names::SELECTED_NODE)),
        ),
        wants: VolumeWants {
            access_modes: texts(spec.access_modes.as_ref()),
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
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let mut complaints = Complaints::about(format!("PersistentVolume {name}"));
    let spec = volume.spec.clone().unwrap_or_default();
    let storage = spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let claim = spec.claim_ref.as_ref().map(|claim| {
        ObjectName::new(
            claim.namespace.as_deref().unwrap_or_default(),
            claim.name.as_deref().unwrap_or_default(),
        )
    });
    let object = VolumeSpec {
        name: name.into(),
        class: selectors::non_empty(spec.storage_class_name.as_ref()),
        bytes: bytes(storage, "spec.capacity[storage]", &mut complaints),
        nodes: required.map(selectors::node_terms).unwrap_or_default(),
        claim,
        traits: VolumeTraits {
            access_modes: texts(spec.access_modes.as_ref()),
            is_block: spec.volume_mode.as_deref() == Some(BLOCK),
            labels: selectors::labels(&volume.metadata.labels.clone().unwrap_or_default()),
            is_withdrawn: volume.metadata.deletion_timestamp.is_some()
                || matches!(phase, Some("Released" | "Failed")),
        },
    };
    complaints.only_if_sound(object)
}

pub fn class(class: &StorageClass) -> Translated<StorageClassSpec> {
    let mode = class.volume_binding_mode.as_deref();
    let terms = class.allowed_topologies.iter().flatten();
    StorageClassSpec {
        name: class.metadata.name.as_deref().unwrap_or_default().into(),
        provisioner: class.provisioner.as_str().into(),
        waits_for_consumer: mode == Some("WaitForFirstConsumer"),
        allowed_nodes: terms.map(selectors::topology_term).collect(),
    }
    .into()
}

/// The name of a driver that publishes capacities; none for other drivers.
pub fn driver(driver: &CSIDriver) -> Option<String> {
    let publishes = driver.spec.storage_capacity.unwrap_or_default();
    driver.metadata.name.clone().filter(|_| publishes)
}

/// Free capacity of a class.
pub fn capacity(capacity: &CSIStorageCapacity) -> Translated<StorageCapacitySpec> {
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
