//! A node as an input of the planner.

use crate::input::Text;
use crate::input::selectors::Labels;

/// A node, with what the planner reads of it.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeSpec {
    /// Name; nodes of equal score are tried in ascending order of it.
    pub name: Text,
    /// Labels of the node: selectors, topology levels and GPU facts come from them.
    pub labels: Labels,
    /// Annotations the planner reads (overrides of GPU count and memory, observed devices).
    pub annotations: Labels,
    /// What pods may use.
    pub allocatable: Allocatable,
    /// Taints; a pod must tolerate those that keep new pods away.
    pub taints: Vec<Taint>,
    /// True when the node is cordoned: no pod is placed on it.
    pub unschedulable: bool,
    /// Conditions that make the node unusable, e.g. `NotReady`, `MemoryPressure`; empty on a healthy node.
    pub bad_conditions: Vec<Text>,
    /// Overrides whether the memory of its GPUs is known; none: known when a source of it is readable.
    pub gpu_memory_known: Option<bool>,
    /// GPU UUIDs that reservations or probes reported on this node: all there are, for all that is known.
    pub observed_gpu_uuids: Vec<Text>,
    /// What is known of its GPUs where labels and overrides say nothing.
    pub observed_gpus: ObservedGpus,
    /// What a whole GPU means on this node when it is time-sliced; none: as configured for the cluster.
    pub whole_gpu_policy: Option<WholeGpuPolicy>,
}

impl NodeSpec {
    /// A healthy node without labels that offers these amounts.
    pub fn healthy(name: impl Into<Text>, allocatable: Allocatable) -> Self {
        Self {
            name: name.into(),
            labels: Labels::new(),
            annotations: Labels::new(),
            allocatable,
            taints: Vec::new(),
            unschedulable: false,
            bad_conditions: Vec::new(),
            gpu_memory_known: None,
            observed_gpu_uuids: Vec::new(),
            observed_gpus: ObservedGpus::default(),
            whole_gpu_policy: None,
        }
    }
}

/// What is known of a node's GPUs beside what its labels say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObservedGpus {
    /// How many there are.
    pub count: Option<i64>,
    /// Memory of each GPU, in MiB.
    pub memory_mib: Option<i64>,
    /// MiB of each that the driver keeps for itself.
    pub reserve_mib: Option<i64>,
}

/// Amounts a node offers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocatable {
    /// Processor time, in millicores.
    pub cpu_milli: i64,
    /// Amount of memory, in bytes.
    pub memory_bytes: i64,
    /// Most pods that the kubelet accepts.
    pub pods: i64,
    /// Devices the device plugin advertises.
    pub gpus: i64,
    /// MIG profiles by resource name.
    pub mig: Vec<(Text, i64)>,
    /// Everything else by resource name; extended resources in thousandths.
    pub other: Vec<(Text, i64)>,
}

/// What one advertised GPU of a time-sliced node is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WholeGpuPolicy {
    /// A whole-GPU request takes a physical device.
    #[default]
    Physical,
    /// A whole-GPU request takes one replica: its share of the memory of one device.
    Replica,
}

/// A taint that pods must tolerate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Taint {
    /// Key that tolerations name.
    pub key: Text,
    /// Value that tolerations compare; empty when the taint has none.
    pub value: Text,
    /// What happens to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// Effect of a taint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// Running pods are evicted, too.
    NoExecute,
}

/// NUMA zones of a node.
#[derive(Clone, PartialEq, Debug)]
pub struct NumaSpec {
    /// Name of the node; the zones may be applied before it.
    pub node: Text,
    /// What the kubelet enforces.
    pub policy: NumaPolicy,
    /// Whether it aligns containers or whole pods.
    pub scope: NumaScope,
    /// Zones in index order.
    pub zones: Vec<NumaZone>,
}

/// Policy of the kubelet's Topology Manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumaPolicy {
    /// The kubelet does not align; every placement is admitted.
    None,
    /// The kubelet aligns if it can and admits every pod.
    BestEffort,
    /// Refuse pods that cannot be aligned.
    Restricted,
    /// Refuse pods that do not fit one zone.
    SingleNumaNode,
}

/// Scope of the kubelet's Topology Manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumaScope {
    /// Each container by itself.
    Container,
    /// The pod as one.
    Pod,
}

/// One NUMA zone. Amounts in the units of [`Allocatable`], keyed by resource name
/// (`cpu` in millicores, `memory` in bytes, GPUs in devices).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumaZone {
    /// Id as the node's topology object reports it, for instance `node-0`.
    pub id: Text,
    /// Amounts pods may use.
    pub allocatable: Vec<(Text, i64)>,
    /// Amounts that the node reports as free.
    pub available: Vec<(Text, i64)>,
}
