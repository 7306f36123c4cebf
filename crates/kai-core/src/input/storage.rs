//! Volumes, as far as placement depends on them.

use crate::input::selectors::{LabelSelector, Labels, NodeTerm};
use crate::input::{ObjectName, Text};

/// An object that decides where volumes can be used.
#[derive(Clone, PartialEq, Debug)]
pub enum StorageObject {
    /// A claim of pods for a volume.
    Claim(VolumeClaimSpec),
    /// A persistent volume of the cluster.
    Volume(VolumeSpec),
    /// A class of volumes with its provisioner.
    Class(StorageClassSpec),
    /// A CSI driver that publishes capacities.
    Driver(Text),
    /// Free capacity of a class in a part of the cluster.
    Capacity(StorageCapacitySpec),
}

/// Identity of a storage object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StorageKey {
    /// A volume claim by namespace and name.
    Claim(ObjectName),
    /// A volume by name.
    Volume(Text),
    /// A storage class by name.
    Class(Text),
    /// A CSI driver by name.
    Driver(Text),
    /// A capacity object by namespace and name.
    Capacity(ObjectName),
}

/// A claim of pods for a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeClaimSpec {
    /// Namespace and name; pods refer to the name.
    pub name: ObjectName,
    /// Name of the storage class; none: only volumes without a class suit.
    pub class: Option<Text>,
    /// Least size of the volume, in bytes.
    pub bytes: i64,
    /// The volume it is bound to.
    pub volume: Option<Text>,
    /// It is being deleted.
    pub deleting: bool,
    /// Its only owner, where that is a pod.
    pub owner_pod: Option<Text>,
    /// The node for which a volume is being made.
    pub selected_node: Option<Text>,
    /// What it asks of the volume beside class and size.
    pub wants: VolumeWants,
}

/// What a claim asks of a volume beside class and size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VolumeWants {
    /// How it is accessed; the volume must allow all of them.
    pub access_modes: Vec<Text>,
    /// A raw device instead of a file system.
    pub is_block: bool,
    /// Labels of the volume.
    pub selector: LabelSelector,
}

/// What a volume is beside its class and size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VolumeTraits {
    /// How it may be accessed.
    pub access_modes: Vec<Text>,
    /// A raw device instead of a file system.
    pub is_block: bool,
    /// Labels that selectors of claims match.
    pub labels: Labels,
    /// It is being deleted, was released or failed: no claim can take it.
    pub is_withdrawn: bool,
}

/// A persistent volume, with what decides where it can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Name of the volume; the last criterion between volumes that suit.
    pub name: Text,
    /// Name of the storage class; it must equal that of the claim.
    pub class: Option<Text>,
    /// Size of the volume, in bytes.
    pub bytes: i64,
    /// Nodes that can reach it: one term must match; empty: all.
    pub nodes: Vec<NodeTerm>,
    /// The claim it is bound to.
    pub claim: Option<ObjectName>,
    /// What else it is.
    pub traits: VolumeTraits,
}

impl VolumeSpec {
    /// Whether a claim that waits for its pod's node may take it, as far as the two of them decide it.
    pub fn suits(&self, claim: &VolumeClaimSpec) -> bool {
        let VolumeWants { access_modes, is_block, selector } = &claim.wants;
        self.class == claim.class
            && self.bytes >= claim.bytes
            && !self.traits.is_withdrawn
            && self.traits.is_block == *is_block
            && access_modes.iter().all(|mode| self.traits.access_modes.contains(mode))
            && match &self.claim {
                Some(owner) => *owner == claim.name,
                None => selector.matches(&self.traits.labels),
            }
    }

    /// Which of several that suit is taken: one that is reserved, then the smallest, then by name.
    pub fn preference(&self) -> (bool, i64, &Text) {
        (self.claim.is_none(), self.bytes, &self.name)
    }
}

/// A class of volumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageClassSpec {
    /// Name that claims and volumes refer to.
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
    /// Namespace and name of the capacity object.
    pub name: ObjectName,
    /// Name of the storage class whose volumes it can hold.
    pub class: Text,
    /// Nodes that can reach it; empty: all.
    pub nodes: Vec<NodeTerm>,
    /// Bytes that can still be provisioned.
    pub bytes: i64,
}
