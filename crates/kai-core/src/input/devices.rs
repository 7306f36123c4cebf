//! Devices under dynamic resource allocation. Selectors are evaluated outside; the core sees sets of devices.

use std::collections::BTreeMap;

use crate::input::node::Taint;
use crate::input::pod::Toleration;
use crate::input::selectors::{Labels, NodeTerm};
use crate::input::{ObjectName, Text};

/// A class of devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceClassSpec {
    /// Name that requests refer to.
    pub name: Text,
    /// Extended resource that is served by this class.
    pub extended_resource: Option<Text>,
    /// Devices of the class; none: every device.
    pub devices: Option<Vec<DeviceRef>>,
}

/// Identity of one device in the cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceRef {
    /// Driver that publishes the device.
    pub driver: Text,
    /// Pool of the driver that the device is in.
    pub pool: Text,
    /// Name in the pool.
    pub device: Text,
}

/// Devices that a driver offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceSpec {
    /// Name of the slice object, unique in the cluster.
    pub name: Text,
    /// Driver that publishes the slice.
    pub driver: Text,
    /// Pool that the slice is a part of.
    pub pool: Text,
    /// Generation of the pool; slices of older generations are out of date.
    pub generation: i64,
    /// Slices that the pool has in this generation; none: not known, what there is counts as all.
    pub pool_slices: Option<i64>,
    /// Counters that devices of the pool share.
    pub counter_sets: Vec<CounterSet>,
    /// From where they can be used.
    pub access: DeviceAccess,
    /// Devices that this slice adds to the pool.
    pub devices: Vec<DeviceSpec>,
}

/// Amounts by name, in thousandths.
pub type NamedAmounts = BTreeMap<Text, i64>;

/// Counters that devices of a pool share, for instance a GPU and its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterSet {
    /// Name in the pool.
    pub name: Text,
    /// What there is of each counter.
    pub counters: NamedAmounts,
}

/// What a device takes of a counter set while it is in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterUse {
    /// Name of the set.
    pub set: Text,
    /// What it takes of each counter.
    pub counters: NamedAmounts,
}

/// A capacity of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceCapacity {
    /// All of it, in thousandths.
    pub value: i64,
    /// What a share of it may be; none: what is asked for.
    pub policy: Option<CapacityPolicy>,
}

/// What a share of a capacity may be, in thousandths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CapacityPolicy {
    /// Share of a request that names none; none: all of the capacity.
    pub default: Option<i64>,
    /// The shares there are, ascending; empty: not restricted.
    pub valid_values: Vec<i64>,
    /// The range of shares; none: not restricted.
    pub valid_range: Option<CapacityRange>,
}

/// A range of shares, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapacityRange {
    /// Smallest share, in thousandths.
    pub min: i64,
    /// Largest share, in thousandths; none: not restricted.
    pub max: Option<i64>,
    /// Shares are the smallest one plus a multiple of this.
    pub step: Option<i64>,
}

/// One device of a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSpec {
    /// Name in the pool.
    pub name: Text,
    /// Attributes by qualified name; values of different types are written differently.
    pub attributes: BTreeMap<Text, Text>,
    /// Taints that requests must tolerate.
    pub taints: Vec<Taint>,
    /// From where it can be used, where devices of one slice differ; none: as its slice says.
    pub access: Option<DeviceAccess>,
    /// What it takes of shared counters while it is in use.
    pub consumes: Vec<CounterUse>,
    /// Capacities by name; claims of a shareable device consume them.
    pub capacity: BTreeMap<Text, DeviceCapacity>,
    /// Several claims may have shares of its capacities.
    pub is_shareable: bool,
}

impl DeviceSpec {
    /// A device of which nothing but the name is known.
    pub fn named(name: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            attributes: BTreeMap::new(),
            taints: Vec::new(),
            access: None,
            consumes: Vec::new(),
            capacity: BTreeMap::new(),
            is_shareable: false,
        }
    }
}

impl SliceSpec {
    /// From where one of its devices can be used.
    pub fn access_to<'a>(&'a self, device: &'a DeviceSpec) -> &'a DeviceAccess {
        device.access.as_ref().unwrap_or(&self.access)
    }

    /// The identity of one of its devices.
    pub fn device(&self, device: &DeviceSpec) -> DeviceRef {
        DeviceRef {
            driver: self.driver.clone(),
            pool: self.pool.clone(),
            device: device.name.clone(),
        }
    }
}

/// From where devices can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceAccess {
    /// From the node of this name.
    Node(Text),
    /// From nodes that match one of the terms.
    Nodes(Vec<NodeTerm>),
    /// From every node of the cluster.
    AllNodes,
    /// Each device says it itself; a device that says nothing cannot be used.
    PerDevice,
}

/// A claim for devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimSpec {
    /// Namespace and name of the claim.
    pub name: ObjectName,
    /// Labels of the claim; one of them names the queue of a shared claim.
    pub labels: Labels,
    /// The pod that owns it, when it was made from a template.
    pub owner_pod: Option<Text>,
    /// What it asks for.
    pub requests: Vec<DeviceRequest>,
    /// What the devices must have in common.
    pub constraints: Vec<SameAttribute>,
    /// Made for an extended resource.
    pub for_extended_resource: bool,
    /// What it was given.
    pub allocation: Option<Allocation>,
    /// Pods that use it.
    pub reserved_for: Vec<Text>,
}

/// Devices of some requests must agree in an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SameAttribute {
    /// Requests, or single alternatives of them as `request/alternative`; empty: all requests of the claim.
    pub requests: Vec<Text>,
    /// Qualified name of the attribute.
    pub attribute: Text,
}

/// One request of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceRequest {
    /// Name in the claim; results and constraints refer to it.
    pub name: Text,
    /// Alternatives in order of preference; one where the request is exact.
    pub alternatives: Vec<DeviceAlternative>,
}

/// One way to satisfy a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceAlternative {
    /// Name among the alternatives of its request; none where the request is exact.
    pub name: Option<Text>,
    /// Name of the device class that devices must belong to.
    pub class: Text,
    /// Number of devices that the alternative needs.
    pub count: DeviceCount,
    /// Devices that satisfy the request's own selectors; none: all of the class.
    pub devices: Option<Vec<DeviceRef>>,
    /// What it needs of the capacities of each device, by name, in thousandths.
    pub capacity: NamedAmounts,
    /// Looks at devices without taking them.
    pub admin_access: bool,
    /// Taints of devices that it tolerates.
    pub tolerations: Vec<Toleration>,
}

/// Number of devices that a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceCount {
    /// This number of devices; the allocation fails with fewer.
    Exactly(i64),
    /// All that match on the node.
    All,
}

/// Devices given to a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Results, in the order of requests.
    pub results: Vec<AllocatedDevice>,
    /// Nodes from which they can be used; empty: all.
    pub nodes: Vec<NodeTerm>,
}

/// One device given to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocatedDevice {
    /// Request name, `request/alternative` where there was a choice.
    pub request: Text,
    /// Identity of the device that the request got.
    pub device: DeviceRef,
    /// The share of the device; none: all of it.
    pub share: Option<DeviceShare>,
}

/// A share of a device that several claims use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceShare {
    /// Identity of the share, a UUID.
    pub id: Text,
    /// What it has of each capacity, in thousandths.
    pub consumed: NamedAmounts,
}
