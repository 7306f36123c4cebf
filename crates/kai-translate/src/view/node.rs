//! A node, as far as the planner looks at it.

use kai_api::view::ObjectMeta;
use serde::Deserialize;

use super::null_is_default;
use crate::amounts::ResourceList;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: ObjectMeta,
    /// What is asked of it.
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

/// What is asked of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    #[serde(deserialize_with = "null_is_default")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: String,
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Status of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: ResourceList,
    /// What pods may use.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: ResourceList,
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    #[serde(rename = "nodeInfo", deserialize_with = "null_is_default")]
    pub node_info: NodeInfo,
    /// Runtimes of containers that it has, where it reports them.
    #[serde(rename = "runtimeHandlers", deserialize_with = "null_is_default")]
    pub runtime_handlers: Vec<RuntimeHandler>,
}

/// A runtime of containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RuntimeHandler {
    /// Its name; none: the node's default.
    pub name: String,
}

/// The system of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeInfo {
    /// Architecture of the processor.
    pub architecture: String,
    /// Version of the kernel.
    pub kernel_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Name of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in a word.
    pub reason: String,
}
