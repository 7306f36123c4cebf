//! The scheduler's settings in the core's words.

use std::collections::BTreeMap;

use kai_core::compatibility::Compatibility;
use kai_core::config::{ActionKind, Config, Params, PluginSpec, SearchBudgets, UNITS_PER_SECOND};
use kai_core::input::Text;
use kai_core::input::node::WholeGpuPolicy;

use super::span;
use crate::format::{self, Action, CompatibilityChoice};
use crate::state;

pub(super) fn translate(settings: &state::Config) -> Config {
    let plugin = |plugin: &format::Plugin| PluginSpec {
        name: plugin.name.as_str().into(),
        arguments: super::selectors::labels(&plugin.args),
    };
    let depth = |(&action, &depth): (&Action, &u64)| (action_kind(action), depth as usize);
    Config {
        actions: settings.actions.iter().copied().map(action_kind).collect(),
        plugins: settings.plugins.iter().map(plugin).collect(),
        params: params(settings),
        budgets: settings.search_budgets.as_ref().map(budgets),
        queue_depth: settings.queue_depth.iter().map(depth).collect(),
        compatibility: match settings.params.compatibility {
            CompatibilityChoice::Right => Compatibility::Right,
            CompatibilityChoice::Kai => Compatibility::Kai,
        },
    }
}

pub(super) fn action_kind(action: Action) -> ActionKind {
    match action {
        Action::Allocate => ActionKind::Allocate,
        Action::Consolidation => ActionKind::Consolidation,
        Action::Reclaim => ActionKind::Reclaim,
        Action::Preempt => ActionKind::Preempt,
        Action::StaleGangEviction => ActionKind::StaleGangEviction,
    }
}

pub(super) fn whole_gpu_policy(policy: format::WholeGpuPolicy) -> WholeGpuPolicy {
    match policy {
        format::WholeGpuPolicy::Physical => WholeGpuPolicy::Physical,
        format::WholeGpuPolicy::Replica => WholeGpuPolicy::Replica,
    }
}

fn params(settings: &state::Config) -> Params {
    let params = &settings.params;
    let most_moved = params.max_consolidation_preemptees;
    Params {
        max_consolidation_preemptees: most_moved.map(|most| most as usize),
        allow_consolidating_reclaim: params.allow_consolidating_reclaim,
        restrict_node_scheduling: params.restrict_node_scheduling,
        schedule_csi_storage: params.schedule_csi_storage,
        use_scheduling_signatures: params.use_scheduling_signatures,
        // A scenario's queues are the tree after any flattening, so nothing is left to flatten.
        full_hierarchy_fairness: true,
        detailed_fit_errors: params.detailed_fit_errors,
        default_staleness_grace: span(params.default_staleness_grace_s),
        queue_label_key: params.queue_label_key.as_str().into(),
        dynamic_resources: settings.dynamic_resources,
        gpu_memory_reserve_mib: params.gpu_memory_reserve_mib,
        whole_gpu_policy: whole_gpu_policy(params.whole_gpu_policy),
        ..Params::default()
    }
}

fn budgets(seconds: &state::SearchBudgets) -> SearchBudgets {
    let units = |seconds: f64| (seconds * UNITS_PER_SECOND) as u64;
    let table = |table: &BTreeMap<String, f64>| -> BTreeMap<Text, u64> {
        table.iter().map(|(name, &bound)| (name.as_str().into(), units(bound))).collect()
    };
    SearchBudgets {
        action_units: table(&seconds.action_s),
        job_units: units(seconds.job_s),
        min_job_units: units(seconds.min_job_s),
        generator_units: table(&seconds.generator_s),
    }
}
