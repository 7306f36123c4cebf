//! Why a pod does not fit a node, or any node: data first, KAI's text from it.

use crate::fairness::CapacityViolation;
use crate::input::Text;

/// Why one node refuses one pod.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeRefusal {
    /// It has too little of something.
    Shortages(Vec<Shortage>),
    /// The pod's queue may not hold what the pod would cost on this node.
    QueueCapacity(Box<CapacityViolation>),
    /// The node offers another kind of GPUs, or a filter of Kubernetes refuses; the text says it all.
    Rule {
        /// Which rule, for counting and for users who look it up.
        rule: Rule,
        /// Text of the refusal, in KAI's words.
        text: Text,
    },
}

/// A rule that refuses nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// MIG and whole GPUs do not mix.
    GpuKind,
    /// A bound of the pod's queue for this type of GPU.
    GpuTypeBound,
    /// The memory of the node's GPUs is not known.
    GpuMemoryUnknown,
    /// The node is time-sliced and its number of devices is not known.
    DeviceCountUnknown,
    /// More was given away of its devices than they have.
    Oversold,
    /// No pod slot is left.
    PodSlots,
    /// The node is cordoned or unwell.
    NodeCondition,
    /// A host port is taken.
    HostPorts,
    /// A taint is not tolerated.
    Taint,
    /// Labels do not match.
    NodeAffinity,
    /// A bind of the pod failed there a moment ago.
    Avoided,
    /// Other pods are where they must not be, or not where they must.
    PodAffinity,
    /// A volume cannot be reached or made.
    Volume,
    /// GPU pods on GPU workers, others on CPU workers.
    WorkerKind,
    /// Devices of claims are not there.
    Claims,
    /// The pod cannot be aligned.
    Numa,
    /// Storage capacity is not there.
    Storage,
}

/// Too little of one thing on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// Resource of which too little is free.
    pub what: Lacking,
    /// How much was asked for.
    pub requested: i64,
    /// How much is in use.
    pub used: i64,
    /// How much there is.
    pub capacity: i64,
}

/// Resource of which a node can have too little.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lacking {
    /// GPUs, in hundredths of a device.
    Gpus,
    /// Memory of each device, in MiB.
    GpuMemory,
    /// A resource by slot.
    Slot(usize),
    /// A MIG profile by slot.
    MigProfile(usize),
}

/// Why a pod is refused before any node is looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRefusal {
    /// Text of the refusal, in KAI's words.
    pub text: Text,
}

impl NodeRefusal {
    /// A refusal by `rule` in KAI's words.
    pub fn rule(rule: Rule, text: impl Into<Text>) -> Self {
        Self::Rule { rule, text: text.into() }
    }
}
