//! Devices given out by dynamic resource allocation.

use serde::Deserialize;

use super::StringMap;

/// A kind of devices, written as its name or with more about it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "DeviceClassKeys")]
pub struct DeviceClass {
    /// Name that claims refer to.
    pub name: String,
    /// Extension: requests of this resource are served by its devices where a node has none of it.
    pub extended_resource: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DeviceClassKeys {
    Name(String),
    Keys(DeviceClassObject),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceClassObject {
    name: String,
    extended_resource: Option<String>,
}

impl From<DeviceClassKeys> for DeviceClass {
    fn from(keys: DeviceClassKeys) -> Self {
        match keys {
            DeviceClassKeys::Name(name) => Self { name, extended_resource: None },
            DeviceClassKeys::Keys(DeviceClassObject { name, extended_resource }) => {
                Self { name, extended_resource }
            }
        }
    }
}

/// Devices of one driver on one node, on selected nodes or on all.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceSlice {
    /// Name of the slice object.
    pub name: String,
    /// The driver; devices of `nvidia.com/gpu` count as GPUs of the node.
    pub driver: String,
    /// The pool; absent: the node's name.
    pub pool: Option<String>,
    /// The one node whose devices these are.
    pub node: Option<String>,
    /// The devices are reachable from all nodes.
    #[serde(default)]
    pub all_nodes: bool,
    /// The devices are reachable from nodes it selects, in Kubernetes form.
    pub node_selector: Option<serde_json::Map<String, serde_json::Value>>,
    /// Names of the devices.
    pub devices: Vec<String>,
}

/// A claim of devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceClaim {
    /// Its name, unique in the namespace.
    pub name: String,
    /// Namespace of the claim, that of the jobs that use it.
    #[serde(default)]
    pub namespace: String,
    /// Its labels; the queue label is checked for GPU classes.
    #[serde(default)]
    pub labels: StringMap,
    /// What it asks for.
    pub requests: Vec<ClaimRequest>,
    /// Allocation and reservations before the first cycle; absent: none.
    pub status: Option<ClaimStatus>,
}

/// A number of devices of one class.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Its name inside the claim.
    pub name: String,
    /// Name of the device class.
    pub device_class: String,
    /// Number of devices of that class.
    pub count: i64,
}

/// The status of a claim in Kubernetes form.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ClaimStatus {
    /// What it was given.
    pub allocation: Option<ClaimAllocation>,
    /// Pods that may use it.
    pub reserved_for: Vec<ClaimConsumer>,
    /// Status the drivers report, free form.
    pub devices: Vec<serde_json::Value>,
}

impl ClaimStatus {
    /// Nothing is allocated, reserved or reported.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a claim was given.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ClaimAllocation {
    /// Devices that the claim was given.
    pub devices: AllocatedDevices,
    /// The nodes from which they can be used, in Kubernetes form.
    pub node_selector: Option<serde_json::Map<String, serde_json::Value>>,
    /// When it was given.
    pub allocation_timestamp: Option<String>,
}

/// The devices a claim was given.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct AllocatedDevices {
    /// One entry per device.
    pub results: Vec<AllocatedDevice>,
    /// Settings for the drivers, free form.
    pub config: Vec<serde_json::Value>,
}

/// One device a claim was given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatedDevice {
    /// The request it answers.
    pub request: String,
    /// Driver that publishes the device.
    pub driver: String,
    /// Pool of the driver that the device is in.
    pub pool: String,
    /// Name of the device in its pool.
    pub device: String,
}

/// Pods that may use a claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClaimConsumer {
    /// API group; empty for pods.
    #[serde(default)]
    pub api_group: String,
    /// Kind of the consumer; `pods` is the only one.
    pub resource: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod; consumers are matched by name.
    #[serde(default)]
    pub uid: String,
}
