//! Volumes, as far as placement depends on them.

use crate::input::selectors::NodeTerm;
use crate::input::{ObjectName, Text};

/// A storage object.
#[derive(Clone, PartialEq, Debug)]
pub enum StorageObject {
    /// A volume claim.
    Claim(VolumeClaimSpec),
    /// A volume.
    Volume(VolumeSpec),
    /// A storage class.
    Class(StorageClassSpec),
    /// A CSI driver that publishes capacities.
    Driver(Text),
    /// Free capacity of a class in a part of the cluster.
    Capacity(StorageCapacitySpec),
}

/// Identity of a storage object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StorageKey {
    /// A volume claim.
    Claim(ObjectName),
    /// A volume by name.
    Volume(Text),
    /// A storage class by name.
    Class(Text),
    /// A CSI driver by name.
    Driver(Text),
    /// A capacity object.
    Capacity(ObjectName),
}

/// A volume claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeClaimSpec {
    /// Identity.
    pub name: ObjectName,
    /// Storage class.
    pub class: Option<Text>,
    /// Bytes asked for.
    pub bytes: i64,
    /// The volume it is bound to.
    pub volume: Option<Text>,
    /// It is being deleted.
    pub deleting: bool,
    /// Its only owner, where that is a pod.
    pub owner_pod: Option<Text>,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Name.
    pub name: Text,
    /// Storage class.
    pub class: Option<Text>,
    /// Bytes it holds.
    pub bytes: i64,
    /// Nodes that can reach it: one term must match; empty: all.
    pub nodes: Vec<NodeTerm>,
    /// The claim it is bound to.
    pub claim: Option<ObjectName>,
}

/// A storage class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageClassSpec {
    /// Name.
    pub name: Text,
    /// Provisioner; the CSI driver's name.
    pub provisioner: Text,
    /// Waits for the pod's node before it provisions.
    pub waits_for_consumer: bool,
    /// Nodes on which it can provision; empty: all.
    pub allowed_nodes: Vec<NodeTerm>,
}

/// Free capacity of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageCapacitySpec {
    /// Identity.
    pub name: ObjectName,
    /// Storage class.
    pub class: Text,
    /// Nodes that can reach it; empty: all.
    pub nodes: Vec<NodeTerm>,
    /// Bytes free.
    pub bytes: i64,
}
