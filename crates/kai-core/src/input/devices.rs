//! Devices under dynamic resource allocation. Selectors are evaluated outside; the core sees sets of devices.

use crate::input::selectors::{Labels, NodeTerm};
use crate::input::{ObjectName, Text};

/// A class of devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceClassSpec {
    /// Name.
    pub name: Text,
    /// Extended resource that is served by this class.
    pub extended_resource: Option<Text>,
    /// Devices of the class; none: every device.
    pub devices: Option<Vec<DeviceRef>>,
}

/// One device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceRef {
    /// Driver.
    pub driver: Text,
    /// Pool.
    pub pool: Text,
    /// Name in the pool.
    pub device: Text,
}

/// Devices that a driver offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceSpec {
    /// Name.
    pub name: Text,
    /// Driver.
    pub driver: Text,
    /// Pool.
    pub pool: Text,
    /// From where they can be used.
    pub access: DeviceAccess,
    /// Device names.
    pub devices: Vec<Text>,
}

/// From where devices can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceAccess {
    /// From one node.
    Node(Text),
    /// From nodes that match one of the terms.
    Nodes(Vec<NodeTerm>),
    /// From everywhere.
    AllNodes,
}

/// A claim for devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimSpec {
    /// Identity.
    pub name: ObjectName,
    /// Labels.
    pub labels: Labels,
    /// The pod that owns it, when it was made from a template.
    pub owner_pod: Option<Text>,
    /// What it asks for.
    pub requests: Vec<DeviceRequest>,
    /// Made for an extended resource.
    pub for_extended_resource: bool,
    /// What it was given.
    pub allocation: Option<Allocation>,
    /// Pods that use it.
    pub reserved_for: Vec<Text>,
}

/// One request of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceRequest {
    /// Name.
    pub name: Text,
    /// Alternatives in order of preference; one where the request is exact.
    pub alternatives: Vec<DeviceAlternative>,
}

/// One way to satisfy a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceAlternative {
    /// Class.
    pub class: Text,
    /// How many.
    pub count: DeviceCount,
    /// Devices that satisfy the request's own selectors; none: all of the class.
    pub devices: Option<Vec<DeviceRef>>,
    /// Looks at devices without taking them.
    pub admin_access: bool,
}

/// How many devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceCount {
    /// This many.
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
    /// Request name.
    pub request: Text,
    /// The device.
    pub device: DeviceRef,
}
