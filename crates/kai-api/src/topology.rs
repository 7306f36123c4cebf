//! `kai.scheduler/v1alpha1 Topology`: the levels of the network, widest first, as node labels.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Levels of a topology.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "kai.scheduler",
    version = "v1alpha1",
    kind = "Topology",
    plural = "topologies",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The levels of the network, widest first, as node labels."
)]
pub struct TopologySpec {
    /// From the widest domain to the narrowest; 1 to 16.
    pub levels: Vec<TopologyLevel>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// Nodes with the same value of this label are in the same domain.
    pub node_label: String,
    /// Another name for the level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}
