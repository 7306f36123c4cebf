//! How the scheduler is set up: a layer of settings that is laid over a named profile.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};

use super::StringMap;
use super::number::Amount;

/// What a cycle may do, in the order the scenario lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Place pending jobs on free resources.
    Allocate,
    /// Move running jobs together so that a pending one fits.
    Consolidation,
    /// Take resources back from queues above their share.
    Reclaim,
    /// Take resources from less important jobs of the same queue.
    Preempt,
    /// Evict what is left of gangs below their minimum.
    StaleGangEviction,
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Allocate => "allocate",
            Self::Consolidation => "consolidation",
            Self::Reclaim => "reclaim",
            Self::Preempt => "preempt",
            Self::StaleGangEviction => "stalegangeviction",
        })
    }
}

/// One entry of the plugin list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plugin {
    /// Name of the plugin, as in KAI's configuration.
    pub name: String,
    /// Arguments by name; values are text, also numbers.
    #[serde(default)]
    pub args: StringMap,
}

impl Plugin {
    /// A plugin without arguments.
    pub fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), args: StringMap::new() }
    }
}

/// Settings, each of which may be left to the layer below.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigLayer {
    /// The profile this layer is laid over.
    pub profile: Option<String>,
    /// The actions of a cycle; required of a scenario.
    pub actions: Option<Vec<Action>>,
    /// The plugins; replaces the list below as a whole.
    pub plugins: Option<Vec<Plugin>>,
    /// Parameters, merged one by one.
    pub params: ParamsLayer,
    /// Bounds of the victim search, merged one by one.
    pub search_budgets: BudgetSetting,
    /// Jobs considered per queue and action.
    pub queue_depth: BTreeMap<Action, u64>,
    /// Features that can be switched.
    pub feature_gates: FeatureGates,
}

/// What a layer says about the bounds of the victim search.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum BudgetSetting {
    /// The layer does not mention bounds: those below apply.
    #[default]
    Unsaid,
    /// The key is `null`: the search has no bounds.
    Unbounded,
    /// These bounds, each merged over the layer below.
    Bounds(BudgetLayer),
}

impl<'de> Deserialize<'de> for BudgetSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bounds = Option::<BudgetLayer>::deserialize(deserializer)?;
        Ok(bounds.map_or(Self::Unbounded, Self::Bounds))
    }
}

/// Features that can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureGates {
    /// Dynamic resource allocation is available.
    pub dynamic_resources: Option<bool>,
}

/// Whether the faults of the reference scheduler are fixed or reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompatibilityChoice {
    /// The faults are fixed.
    #[default]
    Right,
    /// The faults are reproduced.
    Kai,
}

/// What a whole-GPU request takes on a node whose devices are advertised several times over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WholeGpuPolicy {
    /// A whole physical device.
    #[default]
    Physical,
    /// The share of one replica of a device.
    Replica,
}

/// Parameters of a cycle, each of which may be left to the layer below.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ParamsLayer {
    /// Name of the scheduler whose pods the tasks are.
    pub scheduler_name: Option<String>,
    /// Label that names the queue.
    pub queue_label_key: Option<String>,
    /// Most tasks one consolidation may move.
    pub max_consolidation_preemptees: Option<Amount>,
    /// Whether reclaim may move victims instead of evicting them.
    pub allow_consolidating_reclaim: Option<bool>,
    /// Whether GPU and CPU tasks keep to nodes labelled for them.
    pub restrict_node_scheduling: Option<bool>,
    /// Whether free storage decides where a task fits.
    pub schedule_csi_storage: Option<bool>,
    /// Whether jobs like one that did not fit are skipped.
    pub use_scheduling_signatures: Option<bool>,
    /// Whether every level of the queue tree takes part in fairness.
    pub full_hierarchy_fairness: Option<bool>,
    /// Whether fit errors name every node.
    pub detailed_fit_errors: Option<bool>,
    /// How long a gang may stay below its minimum.
    pub default_staleness_grace_s: Option<f64>,
    /// Timelines: how long an evicted task takes to end.
    pub eviction_grace_s: Option<f64>,
    /// Extension: memory of each device that is never given out.
    pub gpu_memory_reserve_mib: Option<i64>,
    /// Extension: what a whole-GPU request takes on a time-sliced node.
    pub whole_gpu_policy: Option<WholeGpuPolicy>,
    /// Extension: whether faults of the reference are reproduced.
    pub compatibility: Option<CompatibilityChoice>,
}

/// Bounds of the victim search in seconds, each of which may be left to the layer below.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetLayer {
    /// Per action, `default` for those not named.
    pub action_s: Option<BTreeMap<String, f64>>,
    /// Seconds for each job.
    pub job_s: Option<f64>,
    /// What a job gets at least.
    pub min_job_s: Option<f64>,
    /// Per generator of victim sets, `default` for those not named.
    pub generator_s: Option<BTreeMap<String, f64>>,
}
