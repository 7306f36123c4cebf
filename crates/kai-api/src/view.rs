//! Slim views of built-in objects: only the fields the rules read, decoded straight from the stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Metadata of any object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Identity that survives no re-creation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// When it was created (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Version of the object's content.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Set once the object is being deleted (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
}

impl ObjectMeta {
    /// Is the object being deleted?
    pub const fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version, `batch/v1`.
    pub api_version: String,
    pub kind: String,
    /// Name, in the namespace of the owned object.
    pub name: String,
    pub uid: String,
    /// Does this owner manage the object?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
}

/// A pod, as far as grouping looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    /// What is asked for.
    pub spec: PodSpec,
    pub status: PodStatus,
}

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Scheduler of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Where it was placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Name of its `PriorityClass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The Kubernetes `Workload` it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_ref: Option<WorkloadReference>,
    /// The Kubernetes `PodGroup` it belongs to, from Kubernetes 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_group: Option<SchedulingGroup>,
}

impl PodSpec {
    /// The pod belongs to a group of Kubernetes' own scheduling API.
    pub fn names_kubernetes_group(&self) -> bool {
        self.workload_ref.is_some() || self.scheduling_group.is_some()
    }
}

/// A reference from a pod to a Kubernetes `PodGroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroup {
    /// Name of the `PodGroup`, in the pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_group_name: Option<String>,
}

/// A reference from a pod to a Kubernetes `Workload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadReference {
    /// Name of the workload, in the pod's namespace.
    pub name: String,
    /// Name of the pod group within the workload.
    pub pod_group: String,
    /// Which replica of that group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_group_replica_key: Option<String>,
}

/// Status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

impl Pod {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// Has it run to its end?
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Has it a node?
    pub fn is_placed(&self) -> bool {
        self.spec.node_name.as_deref().is_some_and(|node| !node.is_empty())
    }
}

/// Some clients write `null` for an empty map or list.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
