//! Jobs (pod groups) as a document writes them.

use serde::Deserialize;

use super::task::Task;

/// A pod group with its tasks, as a document writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Name, unique in the scenario.
    pub name: String,
    /// Its namespace, and that of its tasks.
    #[serde(default)]
    pub namespace: String,
    /// The queue; a job in a queue with children is ignored.
    pub queue: String,
    /// Jobs of higher priority come first.
    #[serde(default = "fifty")]
    pub priority: i64,
    /// Whether its tasks may become victims; absent: by priority.
    pub preemptibility: Option<Preemptibility>,
    /// Time since creation; absent: by position.
    pub age_s: Option<f64>,
    /// Time since it last started; absent: 60 if any of its tasks is allocated.
    pub last_start_ago_s: Option<f64>,
    /// Extension: time since one of its tasks was last evicted.
    pub last_eviction_ago_s: Option<f64>,
    /// How long it has been below its minimum.
    pub stale_for_s: Option<f64>,
    /// Extension: how long disruption budgets have delayed its reclaim.
    pub reclaim_delayed_for_s: Option<f64>,
    /// How long it may be below its minimum; negative: for ever.
    pub staleness_grace_s: Option<f64>,
    /// It may not cause evictions before this age.
    pub preemption_delay_s: Option<f64>,
    /// Extension: whether other tasks may be evicted for it.
    #[serde(default)]
    pub preemption_policy: PreemptionPolicy,
    /// What becomes of an evicted task.
    #[serde(default)]
    pub on_evict: OnEvict,
    /// Its parts; absent: one pod set `default` that needs all tasks.
    pub sub_groups: Option<SubGroup>,
    /// Pods of the job, in the order of the document.
    pub tasks: Vec<Task>,
}

fn fifty() -> i64 {
    50
}

/// Whether tasks may become victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preemptibility {
    /// They may, as far as the actions allow.
    Preemptible,
    /// They may not, and the job must fit its queue's quota.
    NonPreemptible,
    /// Those that the job needs may not, those beyond may.
    SemiPreemptible,
}

/// Whether other tasks may be evicted for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum PreemptionPolicy {
    /// They may, as the actions allow.
    #[default]
    PreemptLowerPriority,
    /// They may not: the job waits for free resources.
    Never,
}

/// What becomes of an evicted task between cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnEvict {
    /// It comes back as Pending.
    #[default]
    Reset,
    /// It stays Releasing and holds its resources.
    Hold,
}

/// A part of a job that has parts.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubGroup {
    /// Its name; the root of a job has none.
    pub name: Option<String>,
    /// How many direct members must be satisfied; absent: all.
    pub min_members: Option<u32>,
    /// How close together its tasks must be.
    pub topology: Option<TopologyConstraint>,
    /// Members that are pod sets.
    pub pod_sets: Vec<PodSet>,
    /// Members that have members.
    pub groups: Vec<SubGroup>,
}

impl SubGroup {
    /// The pod sets of the whole tree, in the order they are written.
    pub fn all_pod_sets(&self) -> Vec<&PodSet> {
        let below = self.groups.iter().flat_map(Self::all_pod_sets);
        self.pod_sets.iter().chain(below).collect()
    }
}

/// A set of like tasks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodSet {
    /// The name tasks refer to.
    pub name: String,
    /// How many tasks it needs.
    pub min_available: u32,
    /// How close together its tasks must be.
    pub topology: Option<TopologyConstraint>,
}

/// How close together tasks must be; levels are labels or aliases.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyConstraint {
    /// Name of the topology whose levels are meant.
    pub topology: String,
    /// All tasks are in one domain of this level.
    pub required: Option<String>,
    /// All tasks are in one domain of this level, if possible.
    pub preferred: Option<String>,
}
