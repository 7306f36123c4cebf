//! Extension: volumes, their claims and where they can be.

use serde::Deserialize;

use super::StringMap;
use super::number::whole;
use super::task::{NodeExpression, ObjectName};

/// A claim of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeClaim {
    /// Its name, by which tasks refer to it.
    pub name: String,
    /// Namespace of the claim, that of the jobs that use it.
    #[serde(default)]
    pub namespace: String,
    /// Name of the storage class; empty: none.
    #[serde(default)]
    pub storage_class: String,
    /// How far it is.
    #[serde(default)]
    pub phase: VolumeClaimPhase,
    /// The volume it has.
    pub volume: Option<String>,
    /// What it asks for.
    #[serde(default, deserialize_with = "whole")]
    pub size_bytes: i64,
    /// The task that owns it and with which it is deleted.
    pub owner: Option<String>,
    /// It is being deleted.
    #[serde(default)]
    pub deleting: bool,
}

/// How far a volume claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum VolumeClaimPhase {
    /// Waits for a volume.
    #[default]
    Pending,
    /// It has a volume.
    Bound,
    /// It had a volume that no longer exists.
    Lost,
}

/// A persistent volume, as a document writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistentVolume {
    /// Name that claims refer to.
    pub name: String,
    /// Name of the storage class; empty: none.
    #[serde(default)]
    pub storage_class: String,
    /// Size in bytes; claims of more do not fit.
    #[serde(default, deserialize_with = "whole")]
    pub capacity_bytes: i64,
    /// Nodes that reach it: alternatives, all demands of one must hold; empty: all nodes.
    #[serde(default)]
    pub node_affinity: Vec<Vec<NodeExpression>>,
    /// The claim it is kept for.
    pub claim: Option<ObjectName>,
}

/// A kind of storage.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageClass {
    /// Name that claims, volumes and capacities refer to.
    pub name: String,
    /// Provisioner of the volumes; `kubernetes.io/no-provisioner`: none.
    pub provisioner: String,
    /// When a claim gets its volume.
    #[serde(default)]
    pub binding_mode: BindingMode,
}

/// When a claim gets its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum BindingMode {
    /// When the claim is created, whatever node its pod gets.
    #[default]
    Immediate,
    /// When the node of its pod is known.
    WaitForFirstConsumer,
}

/// A CSI driver, with whether free storage is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsiDriver {
    /// Its name, the provisioner of its classes.
    pub name: String,
    /// It publishes how much is free.
    #[serde(default)]
    pub storage_capacity: bool,
}

/// Free storage of one class, reachable from some nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsiCapacity {
    /// Name of the capacity object.
    pub name: String,
    /// Name of the storage class whose volumes it can hold.
    pub storage_class: String,
    /// Labels of the nodes; empty: all nodes.
    #[serde(default)]
    pub match_labels: StringMap,
    /// Bytes that can still be provisioned.
    #[serde(deserialize_with = "whole")]
    pub capacity_bytes: i64,
}
