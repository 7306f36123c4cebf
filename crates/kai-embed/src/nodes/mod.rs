//! Simulated nodes: what they advertise, and kubelets that start and end pods.

mod agent;
mod devices;
mod kubelet;
mod profile;
mod runs;

use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

pub use devices::{Device, DeviceUse};
pub use kubelet::SIM_DURATION;
pub use profile::{Machine, NodeProfile, Sharing};

pub(crate) use kubelet::sync_pod;

use crate::api::{Part, Writer};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::{NODES, id};
use crate::object::{self, Key, is_terminating};
use runs::Runs;

/// How fast simulated pods start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the bind until it runs.
    pub start: SignedDuration,
    /// From the deletion until it is gone.
    pub stop: SignedDuration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { start: SignedDuration::from_millis(500), stop: SignedDuration::from_millis(500) }
    }
}

/// What the kubelets know.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// How fast pods start and end.
    pub pace: Pace,
    /// Pods that a kubelet has taken.
    runs: Runs,
}

impl Cluster {
    /// Adds a node; its kubelet reports at once.
    pub fn add_node(&mut self, profile: &NodeProfile) -> Result<(), Failure> {
        let node = profile.node();
        self.make(&node)?;
        self.set_status(&node)
    }

    /// Writes the status of an object as its controller would.
    pub fn set_status(&mut self, object: &Value) -> Result<(), Failure> {
        let resource = self.resource_of(object)?;
        let mut object = object.clone();
        object::remove(&mut object, &["metadata", "resourceVersion"]);
        object::remove(&mut object, &["metadata", "uid"]);
        let writer = Writer { subresource: "status", ..Writer::named("kubelet") };
        self.update(&resource, object, Part::Status, &writer)?;
        self.settle();
        Ok(())
    }

    /// The devices of a node, with the pods that use them.
    pub fn devices(&self, node: &str) -> Vec<Device> {
        devices::of_node(self, node)
    }
}

/// Whether a text is a span of time in which a pod can run.
pub fn is_span(text: &str) -> bool {
    kubelet::span(text).is_some()
}

/// The kubelet of a node says that it is there and what it has.
pub(crate) fn sync_node(cluster: &mut Cluster, key: &Key) {
    let resource = id(NODES);
    let Some(node) = cluster.store.get(&resource, key).cloned() else { return };
    if is_terminating(&node) || object::has_condition(&node, "Ready") {
        return;
    }
    let silent = object::items(&node["status"]["conditions"]).any(|one| one["type"] == "Ready");
    if silent {
        // A test says that it is not ready; it stays so.
        return;
    }
    let mut ready = Value::clone(&node);
    let usual = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let capacity = match ready["status"]["allocatable"].clone() {
        Value::Null => usual,
        allocatable => allocatable,
    };
    object::set_default(&mut ready, &["status", "capacity"], capacity.clone());
    object::set_default(&mut ready, &["status", "allocatable"], capacity);
    for (key, value) in profile::usual_labels(&key.name, Machine::Server) {
        object::set_default(&mut ready, &["metadata", "labels", &key], value.into());
    }
    for pressure in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        let reason = format!("KubeletHasNo{pressure}");
        object::set_condition(&mut ready, pressure, false, &reason, "", cluster.now);
    }
    let message = "kubelet is posting ready status";
    object::set_condition(&mut ready, "Ready", true, "KubeletReady", message, cluster.now);
    object::set_default(&mut ready, &["status", "nodeInfo"], profile::node_info(Machine::Server));
    let addresses = json!([{"type": "Hostname", "address": key.name}]);
    object::set_default(&mut ready, &["status", "addresses"], addresses);
    cluster.store.put(&resource, ready);
}
