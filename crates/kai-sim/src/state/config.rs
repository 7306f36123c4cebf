//! The scheduler's settings after all layers are laid over each other.

use std::collections::BTreeMap;

use crate::format::{
    Action, BudgetLayer, BudgetSetting, CompatibilityChoice, ConfigLayer, FormatError,
    KAI_TEST_DEFAULT, ParamsLayer, Plugin, WholeGpuPolicy, built_in_profile,
};

/// How the scheduler is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The actions of a cycle, in order.
    pub actions: Vec<Action>,
    /// The plugins, in order; one that is not listed has no influence.
    pub plugins: Vec<Plugin>,
    /// Parameters that belong to no plugin.
    pub params: Params,
    /// Bounds of the victim search, if the scenario sets any of its own.
    pub search_budgets: Option<SearchBudgets>,
    /// Jobs considered per queue and action; absent: all.
    pub queue_depth: BTreeMap<Action, u64>,
    /// Whether dynamic resource allocation is available.
    pub dynamic_resources: bool,
}

/// Parameters of a cycle.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in the format")]
pub struct Params {
    /// Name of the scheduler whose pods the tasks are.
    pub scheduler_name: String,
    /// Label that names the queue.
    pub queue_label_key: String,
    /// Most tasks one consolidation may move; none: any number.
    pub max_consolidation_preemptees: Option<u64>,
    /// Whether reclaim may move victims instead of evicting them.
    pub allow_consolidating_reclaim: bool,
    /// Whether GPU and CPU tasks keep to nodes labelled for them.
    pub restrict_node_scheduling: bool,
    /// Whether free storage decides where a task fits.
    pub schedule_csi_storage: bool,
    /// Whether jobs like one that did not fit are skipped.
    pub use_scheduling_signatures: bool,
    /// Whether every level of the queue tree takes part in fairness.
    pub full_hierarchy_fairness: bool,
    /// Whether fit errors name every node.
    pub detailed_fit_errors: bool,
    /// How long a gang may stay below its minimum.
    pub default_staleness_grace_s: f64,
    /// How long an evicted task takes to end, on a timeline.
    pub eviction_grace_s: f64,
    /// Memory of each device that is never given out.
    pub gpu_memory_reserve_mib: i64,
    /// What a whole-GPU request takes on a time-sliced node.
    pub whole_gpu_policy: WholeGpuPolicy,
    /// Whether faults of the reference are reproduced.
    pub compatibility: CompatibilityChoice,
}

/// Bounds of the victim search, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchBudgets {
    /// Per action, `default` for those not named.
    pub action_s: BTreeMap<String, f64>,
    /// Seconds for each job.
    pub job_s: f64,
    /// What a job gets at least.
    pub min_job_s: f64,
    /// Per generator of victim sets, `default` for those not named.
    pub generator_s: BTreeMap<String, f64>,
}

/// Lays the scenario's settings over its profile.
pub(crate) fn resolve(own: &ConfigLayer) -> Result<Config, FormatError> {
    let name = own.profile.as_deref().unwrap_or(KAI_TEST_DEFAULT);
    let Some(profile) = built_in_profile(name) else {
        let message = format!("there is no profile `{name}`, expected `{KAI_TEST_DEFAULT}`");
        return Err(FormatError::new("config.profile", message));
    };
    let Some(actions) = own.actions.clone() else {
        return Err(FormatError::new("config", "missing field `actions`"));
    };
    let mut queue_depth = profile.queue_depth;
    queue_depth.extend(&own.queue_depth);
    Ok(Config {
        actions,
        plugins: own.plugins.clone().or(profile.plugins).unwrap_or_default(),
        params: params(&own.params, &profile.params),
        search_budgets: budgets(&own.search_budgets, &profile.search_budgets),
        queue_depth,
        dynamic_resources: own
            .feature_gates
            .dynamic_resources
            .or(profile.feature_gates.dynamic_resources)
            .unwrap_or_default(),
    })
}

fn params(own: &ParamsLayer, profile: &ParamsLayer) -> Params {
    let preemptees = own.max_consolidation_preemptees.or(profile.max_consolidation_preemptees);
    let text = |own: &Option<String>, profile: &Option<String>| {
        own.clone().or_else(|| profile.clone()).unwrap_or_default()
    };
    let switch = |own: Option<bool>, profile: Option<bool>| own.or(profile).unwrap_or_default();
    let number = |own: Option<f64>, profile: Option<f64>| own.or(profile).unwrap_or_default();
    Params {
        scheduler_name: text(&own.scheduler_name, &profile.scheduler_name),
        queue_label_key: text(&own.queue_label_key, &profile.queue_label_key),
        max_consolidation_preemptees: preemptees
            .and_then(crate::format::Amount::limit)
            .map(|limit| limit as u64),
        allow_consolidating_reclaim: switch(
            own.allow_consolidating_reclaim,
            profile.allow_consolidating_reclaim,
        ),
        restrict_node_scheduling: switch(
            own.restrict_node_scheduling,
            profile.restrict_node_scheduling,
        ),
        schedule_csi_storage: switch(own.schedule_csi_storage, profile.schedule_csi_storage),
        use_scheduling_signatures: switch(
            own.use_scheduling_signatures,
            profile.use_scheduling_signatures,
        ),
        full_hierarchy_fairness: switch(
            own.full_hierarchy_fairness,
            profile.full_hierarchy_fairness,
        ),
        detailed_fit_errors: switch(own.detailed_fit_errors, profile.detailed_fit_errors),
        default_staleness_grace_s: number(
            own.default_staleness_grace_s,
            profile.default_staleness_grace_s,
        ),
        eviction_grace_s: number(own.eviction_grace_s, profile.eviction_grace_s),
        gpu_memory_reserve_mib: own
            .gpu_memory_reserve_mib
            .or(profile.gpu_memory_reserve_mib)
            .unwrap_or_default(),
        whole_gpu_policy: own.whole_gpu_policy.or(profile.whole_gpu_policy).unwrap_or_default(),
        compatibility: own.compatibility.or(profile.compatibility).unwrap_or_default(),
    }
}

/// The profile's bounds are those of a real clock, so they hold only where a scenario asks for bounds.
fn budgets(own: &BudgetSetting, profile: &BudgetSetting) -> Option<SearchBudgets> {
    let BudgetSetting::Bounds(own) = own else { return None };
    let empty = BudgetLayer::default();
    let profile = if let BudgetSetting::Bounds(profile) = profile { profile } else { &empty };
    let table = |own: &Option<BTreeMap<String, f64>>, profile: &Option<BTreeMap<String, f64>>| {
        own.clone().or_else(|| profile.clone()).unwrap_or_default()
    };
    Some(SearchBudgets {
        action_s: table(&own.action_s, &profile.action_s),
        job_s: own.job_s.or(profile.job_s).unwrap_or_default(),
        min_job_s: own.min_job_s.or(profile.min_job_s).unwrap_or_default(),
        generator_s: table(&own.generator_s, &profile.generator_s),
    })
}
