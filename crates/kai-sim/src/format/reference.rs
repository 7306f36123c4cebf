//! What another implementation did with the same scenario. Informative, so unknown keys are let pass.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::number::AmountMap;
use super::status::Status;

/// The recorded runs of another implementation.
#[derive(Clone, Debug, Deserialize)]
pub struct Reference {
    /// The outcome was the same in all runs.
    #[serde(default)]
    pub stable: bool,
    /// By queue, its part of each resource at the start of the first cycle.
    #[serde(default)]
    pub fair_share: BTreeMap<String, BTreeMap<String, f64>>,
    /// One entry per cycle, and one per comparison without a cycle.
    #[serde(default)]
    pub cycles: Vec<ReferenceCycle>,
}

/// A cycle of the recorded run, or a comparison without one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReferenceCycle {
    /// The actions that ran; none: a comparison without a cycle.
    pub actions: Vec<String>,
    /// Whether expectations were compared with it.
    pub compared: bool,
    /// Calls of the cycle, in the order in which they were made.
    pub events: Vec<ReferenceEvent>,
    /// The states of all tasks; only in the first entry.
    pub tasks: BTreeMap<String, ReferenceTask>,
    /// The states that differ from the entry before.
    pub changed_tasks: BTreeMap<String, ReferenceTask>,
    /// What was free, where it was recorded.
    pub nodes: BTreeMap<String, ReferenceNode>,
    /// By job, its fit errors as one text.
    pub fit_errors: BTreeMap<String, String>,
}

/// The recorded state of a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReferenceTask {
    /// Status at the end of the cycle.
    pub status: Status,
    /// Name of its node in the record; none where it has none.
    pub node: Option<String>,
    /// Shared devices that it sits on.
    #[serde(default)]
    pub gpu_groups: Vec<String>,
    /// Positions of its NUMA zones.
    #[serde(default)]
    pub numa_zones: Vec<usize>,
}

/// What was free on a node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ReferenceNode {
    /// Devices that are free, fractions included.
    #[serde(default)]
    pub idle_gpus: f64,
    /// Devices that are being released, fractions included.
    #[serde(default)]
    pub releasing_gpus: f64,
    /// Free amounts by zone.
    #[serde(default)]
    pub numa_available: Vec<AmountMap>,
}

/// Something that was done in a recorded cycle.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReferenceEvent {
    /// The action that did it.
    #[serde(default)]
    pub action: String,
    /// `bind`, `evict` or `pipeline`.
    pub op: Call,
    /// Name of the task.
    pub task: String,
    /// Name of the node that the call is about.
    pub node: Option<String>,
    /// Shared devices that it gets or had.
    #[serde(default)]
    pub gpu_groups: Vec<String>,
    /// The job for which a victim was evicted.
    pub for_job: Option<String>,
    /// The text users saw.
    pub message: Option<String>,
}

/// What a scheduler does to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// It is placed on free resources.
    Bind,
    /// It is evicted from its node.
    Evict,
    /// It is nominated: it waits for resources that are being released.
    Pipeline,
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bind => "bind",
            Self::Evict => "evict",
            Self::Pipeline => "pipeline",
        })
    }
}
