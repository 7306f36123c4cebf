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
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// The storage class.
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
    /// Has one.
    Bound,
    /// Had one.
    Lost,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistentVolume {
    /// Its name.
    pub name: String,
    /// The storage class.
    #[serde(default)]
    pub storage_class: String,
    /// Its size.
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
    /// Its name.
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
    /// At once.
    #[default]
    Immediate,
    /// When the node of its pod is known.
    WaitForFirstConsumer,
}

/// A storage driver.
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
    /// Its name.
    pub name: String,
    /// The storage class.
    pub storage_class: String,
    /// Labels of the nodes; empty: all nodes.
    #[serde(default)]
    pub match_labels: StringMap,
    /// What is free.
    #[serde(deserialize_with = "whole")]
    pub capacity_bytes: i64,
}
