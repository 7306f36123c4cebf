//! Volumes and their classes. A volume has a field for each of some thirty kinds of storage; what is read is the same for all.

use k8s_openapi::api::core::v1::{NodeSelector, TopologySelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kai_api::view::ObjectMeta;
use serde::Deserialize;

use super::null_is_default;

/// A request for a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub metadata: ObjectMeta,
    pub spec: VolumeClaimSpec,
    #[serde(deserialize_with = "null_is_default")]
    pub status: VolumePhase,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaimSpec {
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub resources: VolumeResources,
    /// Labels that the volume has to have.
    pub selector: Option<LabelSelector>,
    pub storage_class_name: Option<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
    /// Volume that the claim has, or names.
    pub volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeResources {
    #[serde(deserialize_with = "null_is_default")]
    pub requests: StorageAmount,
}

/// Amounts of storage; others are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StorageAmount {
    /// A quantity.
    pub storage: Option<String>,
}

/// Status of a claim or a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumePhase {
    /// `Pending`, `Bound` or `Lost` of a claim; `Available`, `Bound`, `Released` or `Failed` of a volume.
    pub phase: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: ObjectMeta,
    pub spec: VolumeSpec,
    #[serde(deserialize_with = "null_is_default")]
    pub status: VolumePhase,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: StorageAmount,
    /// Claim that the volume is reserved for.
    pub claim_ref: Option<ClaimReference>,
    pub node_affinity: Option<VolumeNodeAffinity>,
    pub storage_class_name: Option<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
}

/// A reference from a volume to its claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// None where the author of the volume reserved it for a name.
    pub uid: Option<String>,
}

/// Nodes that can reach a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "null_is_default")]
    pub provisioner: String,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "null_is_default")]
    pub spec: CsiDriverSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// The driver publishes how much storage is free.
    pub storage_capacity: Option<bool>,
}

/// Free storage of a class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiStorageCapacity {
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "null_is_default")]
    pub storage_class_name: String,
    /// Nodes that can reach the storage; none: no node can.
    pub node_topology: Option<LabelSelector>,
    /// A quantity.
    pub capacity: Option<String>,
    /// A quantity.
    pub maximum_volume_size: Option<String>,
}
