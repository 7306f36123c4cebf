//! Nodes and topologies as a document writes them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::StringMap;
use super::config::WholeGpuPolicy;
use super::number::{AmountMap, whole, whole_map};

/// Levels of a cluster, from outermost to innermost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Name that constraints refer to.
    pub name: String,
    /// Levels from outermost to innermost.
    pub levels: Vec<TopologyLevel>,
}

/// One level: nodes of one domain have the same value of the label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyLevel {
    /// Key of the node label whose values name the domains.
    pub label: String,
    /// Another name for the level.
    pub alias: Option<String>,
}

/// A node, as a document writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Nodes of equal score are tried in ascending name order.
    pub name: String,
    /// The labels; those about GPUs and the node's own name are added if absent.
    #[serde(default)]
    pub labels: StringMap,
    /// What the node offers.
    #[serde(default)]
    pub allocatable: Allocatable,
    /// Memory of each device.
    #[serde(default = "hundred")]
    pub gpu_memory_mib: i64,
    /// Whether that memory is known to the scheduler; absent: whether the label says it.
    pub gpu_memory_known: Option<bool>,
    /// Model of its devices; not read.
    pub gpu_product: Option<String>,
    /// How devices are split.
    pub mig_strategy: Option<MigStrategy>,
    /// Memory and processor zones.
    pub numa: Option<Numa>,
    /// Extension: false leaves `nvidia.com/gpu.count` and `.memory` to the labels written.
    #[serde(default = "super::yes")]
    pub gpu_labels: bool,
    /// Extension: annotations, such as the overrides of GPU count and memory.
    #[serde(default)]
    pub annotations: StringMap,
    /// Extension: UUIDs of devices that were observed on the node.
    #[serde(default)]
    pub gpu_uuids_seen: Vec<String>,
    /// Extension: taints that tasks must tolerate.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Extension: the node is cordoned.
    #[serde(default)]
    pub unschedulable: bool,
    /// Extension: conditions by type (`Ready`, `MemoryPressure`, …); absent: ready, no pressure.
    #[serde(default)]
    pub conditions: BTreeMap<String, ConditionStatus>,
    /// Extension: what a whole-GPU request takes here; absent: as the parameters say.
    pub whole_gpu_policy: Option<WholeGpuPolicy>,
}

fn hundred() -> i64 {
    100
}

/// What a node offers to pods.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allocatable {
    /// Processor time, in millicores.
    #[serde(deserialize_with = "whole")]
    pub cpu_milli: i64,
    /// Amount of memory, in bytes.
    #[serde(deserialize_with = "whole")]
    pub memory_bytes: i64,
    /// Most pods that the node takes.
    pub pods: i64,
    /// Whole devices offered by the device plugin.
    pub gpus: i64,
    /// MIG resource name → count.
    pub mig: AmountMap,
    /// Extension: further resources by name.
    #[serde(deserialize_with = "whole_map")]
    pub extended: AmountMap,
}

impl Default for Allocatable {
    fn default() -> Self {
        Self {
            cpu_milli: 20_000_000,
            memory_bytes: 20_000_000_000,
            pods: 110,
            gpus: 0,
            mig: AmountMap::new(),
            extended: AmountMap::new(),
        }
    }
}

/// How the devices of a node are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MigStrategy {
    /// The devices are not split.
    None,
    /// All in the same way, each slice counted as a device.
    Single,
    /// In different ways, each slice a resource of its own.
    Mixed,
}

/// The NUMA zones of a node and how its kubelet aligns pods with them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numa {
    /// How strictly the kubelet aligns pods with zones.
    pub policy: NumaPolicy,
    /// What is aligned as one.
    pub scope: NumaScope,
    /// The zones; an index elsewhere is a position here.
    pub zones: Vec<NumaZone>,
}

/// How strictly a kubelet aligns pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumaPolicy {
    /// The kubelet does not align pods.
    None,
    /// On the fewest zones if possible; otherwise on any.
    BestEffort,
    /// On the fewest zones that could hold the request.
    Restricted,
    /// On one zone; a pod that does not fit one is refused.
    SingleNumaNode,
}

/// What is aligned as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumaScope {
    /// Each container is aligned by itself.
    Container,
    /// All containers of the pod are aligned together.
    Pod,
}

/// A NUMA zone, as a document writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaZone {
    /// Its name; the trailing number orders the zones.
    pub id: String,
    /// Amounts that pods may use, by resource name.
    #[serde(deserialize_with = "whole_map")]
    pub allocatable: AmountMap,
    /// Amounts that are free, by resource name.
    #[serde(deserialize_with = "whole_map")]
    pub available: AmountMap,
}

/// Keeps pods away that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    /// Key that tolerations name.
    pub key: String,
    /// Value that tolerations compare; empty: none.
    #[serde(default)]
    pub value: String,
    /// What it does to pods.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TaintEffect {
    /// They are not placed.
    NoSchedule,
    /// They are placed elsewhere if possible.
    PreferNoSchedule,
    /// They are not placed, and running pods are evicted.
    NoExecute,
}

/// Whether a condition of a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ConditionStatus {
    /// The node reports that the condition holds.
    True,
    /// The node reports that the condition does not hold.
    False,
    /// The node does not report the condition.
    Unknown,
}
