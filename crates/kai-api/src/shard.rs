//! `kai.scheduler/v1 SchedulingShard`: a part of the cluster with a scheduler, and settings, of its own.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::duration::DurationText;
use crate::quantity::RawQuantity;

/// Which part, and how it is scheduled.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kai.scheduler",
    version = "v1",
    kind = "SchedulingShard",
    plural = "schedulingshards",
    status = "SchedulingShardStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A part of the cluster with settings of its own."
)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingShardSpec {
    /// Value of the node-pool label; empty takes what carries no such label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_label_value: Option<String>,
    /// Scheduler flags by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_strategy: Option<PlacementStrategy>,
    /// How many workloads of a queue each action looks at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_depth_per_action: BTreeMap<String, i64>,
    /// Minimum runtimes where the queues say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_runtime: Option<MinRuntime>,
    /// Weight of past usage in fair shares.
    #[serde(rename = "kValue", default, skip_serializing_if = "Option::is_none")]
    pub k_value: Option<f64>,
    /// Where past usage comes from.
    #[serde(rename = "usageDBConfig", default, skip_serializing_if = "Option::is_none")]
    pub usage_db_config: Option<UsageDbConfig>,
    /// Time limits of the search for victims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_search_budgets: Option<ScenarioSearchBudgets>,
    /// Plugins to change or add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plugins: BTreeMap<String, PluginConfig>,
    /// Actions to change or add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, ActionConfig>,
    /// Share of the memory limit that may be used, in (0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_mem_limit_ratio: Option<f64>,
    /// Memory limit of the Go runtime of KAI's scheduler; without meaning here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_mem_limit: Option<RawQuantity>,
}

/// Pack or spread, per kind of pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementStrategy {
    /// `binpack` or `spread`, for pods with devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The same for other pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
}

/// Minimum runtimes; days and weeks are understood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MinRuntime {
    /// Time that a pod runs before it may be preempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_min_runtime: Option<String>,
    /// Time that a pod runs before it may be reclaimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_min_runtime: Option<String>,
}

/// Where past usage comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageDbConfig {
    /// `prometheus`, or `recorder` for our own record.
    pub client_type: String,
    /// Address of Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_string: Option<String>,
    /// Environment variable that holds the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_string_env_var: Option<String>,
    /// What is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_params: Option<UsageParams>,
}

/// What is asked of the usage store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageParams {
    /// Past usage halves in weight over this time; zero or less turns it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life_period: Option<DurationText>,
    /// Prometheus duration; one week where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_size: Option<String>,
    /// `sliding`, `tumbling` or `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_type: Option<String>,
    /// Start of the first tumbling window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tumbling_window_start_time: Option<Time>,
    /// When windows of type `cron` begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron_string: Option<String>,
    /// Time between two fetches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_interval: Option<DurationText>,
    /// After this time data is too old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_period: Option<DurationText>,
    /// How long to wait for the first data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_timeout: Option<DurationText>,
    /// Settings of the client.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_params: BTreeMap<String, String>,
}

/// Time limits of the search for victims; zero is unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioSearchBudgets {
    /// Per action: `default`, `reclaim`, `preempt`, `consolidation`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub max_action_search_duration: BTreeMap<String, DurationText>,
    /// Longest search for the victims of one workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_job_search_duration: Option<DurationText>,
    /// What each workload gets at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_job_search_duration: Option<DurationText>,
    /// Per generator of scenarios.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub max_generator_search_duration: BTreeMap<String, DurationText>,
}

/// A plugin to change or add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Higher comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

/// An action to change or add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Higher comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
}

/// Status of the shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulingShardStatus {
    /// Conditions of the shard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
