//! What must hold when the runner compares.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::number::{AmountMap, whole_map};
use super::status::Status;

/// Everything that must hold at a comparison; all parts are optional.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectation {
    /// By job; applies to all its tasks.
    pub jobs: BTreeMap<String, TaskExpectation>,
    /// By task; applies to this task alone.
    pub tasks: BTreeMap<String, TaskExpectation>,
    /// By node; what is free or being released there.
    pub nodes: BTreeMap<String, NodeExpectation>,
    /// Where jobs and their parts are.
    pub placements: Vec<Placement>,
    /// How many tasks have a status.
    pub counts: Vec<CountExpectation>,
    /// By job, texts that occur in its fit errors or its tasks'.
    pub messages: BTreeMap<String, Vec<String>>,
    /// Extension: by job, texts that occur in its explanation.
    pub explains: BTreeMap<String, Vec<String>>,
    /// Extension: when the scheduler would look again although nothing happens.
    pub wake_at_s: Option<WakeUp>,
    /// Bounds for each single cycle.
    pub calls_per_cycle: CallLimits,
    /// False: the shared devices listed in the results are not compared.
    pub gpu_groups_checked: bool,
}

impl Default for Expectation {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            nodes: BTreeMap::new(),
            placements: Vec::new(),
            counts: Vec::new(),
            messages: BTreeMap::new(),
            explains: BTreeMap::new(),
            wake_at_s: None,
            calls_per_cycle: CallLimits::default(),
            gpu_groups_checked: true,
        }
    }
}

/// When time alone changes the answer.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum WakeUp {
    /// At this time, in seconds of the scenario's clock.
    At(f64),
    /// Time alone changes nothing.
    Word(Never),
}

/// The word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Never {
    /// No time is set.
    Never,
}

impl WakeUp {
    /// The time, if there is one.
    pub fn time_s(self) -> Option<f64> {
        match self {
            Self::At(at_s) => Some(at_s),
            Self::Word(Never::Never) => None,
        }
    }
}

/// What must hold for a task, or for all tasks of a job.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskExpectation {
    /// The status of every task.
    pub status: Status,
    /// The node of every task; absent: any or none.
    pub node: Option<String>,
    /// Sum of devices asked for.
    pub gpus_requested: Option<f64>,
    /// Sum of devices granted.
    pub gpus_accepted: Option<f64>,
    /// Sum of processor time asked for.
    pub cpu_milli_requested: Option<f64>,
    /// Sum of memory asked for.
    pub memory_bytes_requested: Option<f64>,
    /// Labels of the shared devices: the same label is the same device.
    pub gpu_groups: Option<Vec<String>>,
    /// NUMA zones in any order; empty: none.
    pub numa_zones: Option<Vec<usize>>,
    /// The job started at least so long ago.
    pub started_at_least_s_ago: Option<f64>,
    /// The fit errors of the job as one text.
    pub error_message: Option<String>,
}

/// What must hold for a node.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeExpectation {
    /// Devices that are free, fractions included.
    pub idle_gpus: Option<f64>,
    /// Devices that are being released, fractions included.
    pub releasing_gpus: Option<f64>,
    /// Free amounts by zone index.
    pub numa_available: BTreeMap<usize, ZoneAmounts>,
}

/// Free amounts of one NUMA zone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ZoneAmounts {
    /// Free amounts by resource name.
    #[serde(deserialize_with = "whole_map")]
    pub amounts: AmountMap,
}

/// Where the tasks of a job, or of one of its pod sets, are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// Name of the job whose tasks are meant.
    pub job: String,
    /// The pod set; absent: all.
    pub sub_group: Option<String>,
    /// The node label whose values are compared.
    pub label: String,
    /// The set of values.
    pub values: Option<Vec<String>>,
    /// A set all values are in.
    pub values_subset_of: Option<Vec<String>>,
    /// How many different values there are.
    pub distinct_values: Option<usize>,
    /// The set of nodes.
    pub nodes: Option<Vec<String>>,
}

/// How many tasks have a status.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountExpectation {
    /// Status that is counted.
    pub status: Status,
    /// Only tasks of this job.
    pub job: Option<String>,
    /// Only tasks of this queue.
    pub queue: Option<String>,
    /// Only tasks on this node.
    pub node: Option<String>,
    /// Exactly this number of tasks.
    pub equals: Option<usize>,
    /// At least so many.
    pub at_least: Option<usize>,
    /// At most so many.
    pub at_most: Option<usize>,
}

/// Upper bounds for the calls of each single cycle; absent: no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallLimits {
    /// Tasks placed on free resources.
    pub bind_max: Option<usize>,
    /// Tasks that are evicted.
    pub evict_max: Option<usize>,
    /// Nominated tasks: they wait for resources that are being released.
    pub pipeline_max: Option<usize>,
}
