//! A shard's settings in the planner's words. What makes no sense is said and left out; the rest counts. Pure.

use std::collections::BTreeMap;

use kai_api::SchedulingShard;
use kai_api::duration::{DurationText, Units, parse_duration};
use kai_api::shard::{PluginConfig, ScenarioSearchBudgets, SchedulingShardSpec};
use kai_core::config::{ActionKind, PluginSpec, SearchBudgets, UNITS_PER_SECOND};
use kai_core::input::Text;

use crate::flags::{Flagged, apply_shard_args};
use crate::planner::Settings;
use crate::usage::{Environment, read as read_usage};

const PACK: &str = "binpack";
const SPREAD: &str = "spread";

/// Plugins with their priorities, as KAI's operator lists them.
const PLUGINS: [(&str, i64); 24] = [
    ("predicates", 1900),
    ("proportion", 1800),
    ("priority", 1700),
    ("nodeavailability", 1600),
    ("resourcetype", 1500),
    ("podaffinity", 1400),
    ("elastic", 1300),
    ("kubeflow", 1200),
    ("ray", 1100),
    ("subgrouporder", 1000),
    ("taskorder", 900),
    ("nominatednode", 800),
    ("dynamicresources", 700),
    ("minruntime", 600),
    ("topology", 500),
    ("snapshot", 400),
    ("sg-nodelocalgreedy", 360),
    ("sg-multinodegang", 350),
    ("gpupack", 300),
    ("gpuspread", 300),
    ("nodeplacement", 200),
    ("gpusharingorder", 100),
    ("numa", 0),
    ("reflectjoborder", 0),
];

/// The plugins of a shard that says nothing about them.
pub(crate) fn default_plugins() -> Vec<PluginSpec> {
    plugins(&SchedulingShardSpec::default(), &mut Vec::new())
}

/// There is a plugin of this name.
pub(crate) fn known_plugin(name: &str) -> bool {
    PLUGINS.iter().any(|(known, _)| *known == name)
}

/// How a shard is scheduled, and what about it makes no sense.
pub fn settings(
    shard: &SchedulingShard,
    base: &Settings,
    around: &Environment<'_>,
) -> (Settings, Vec<String>) {
    let spec = &shard.spec;
    let mut flagged = Flagged { settings: base.clone(), ..Flagged::default() };
    flagged.settings.partition.value = spec.partition_label_value.clone().unwrap_or_default();
    let args = spec.args.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut problems = apply_shard_args(&mut flagged, args);
    let mut settings = flagged.settings;
    let config = &mut settings.config;
    config.actions = actions(spec, &mut problems);
    config.plugins = plugins(spec, &mut problems);
    config.queue_depth = depths(spec, &config.actions, &mut problems);
    if let Some(wanted) = &spec.scenario_search_budgets {
        config.budgets = Some(search_budgets(wanted, &mut problems));
    }
    if let Some(wanted) = &spec.usage_db_config {
        settings.usage = read_usage(wanted, around).map_err(|why| problems.push(why)).ok();
    }
    let config = &mut settings.config;
    config.params.node_pool = settings.partition.name().map(Into::into);
    (settings, problems)
}

fn strategy(wanted: Option<&String>) -> &str {
    wanted.map(String::as_str).filter(|strategy| !strategy.is_empty()).unwrap_or(PACK)
}

fn strategies(spec: &SchedulingShardSpec) -> (&str, &str) {
    let wanted = spec.placement_strategy.as_ref();
    let gpu = strategy(wanted.and_then(|wanted| wanted.gpu.as_ref()));
    (gpu, strategy(wanted.and_then(|wanted| wanted.cpu.as_ref())))
}

fn actions(spec: &SchedulingShardSpec, problems: &mut Vec<String>) -> Vec<ActionKind> {
    let (gpu, cpu) = strategies(spec);
    let mut ordered = Vec::new();
    for (action, priority) in ActionKind::ALL.into_iter().zip([500, 400, 300, 200, 100]) {
        let wanted = spec.actions.get(action.name());
        let packs = action != ActionKind::Consolidation || (gpu != SPREAD && cpu != SPREAD);
        if wanted.and_then(|wanted| wanted.enabled).unwrap_or(packs) {
            let priority = wanted.and_then(|wanted| wanted.priority).unwrap_or(priority);
            ordered.push((-priority, action.name(), action));
        }
    }
    for name in spec.actions.keys().filter(|name| ActionKind::from_name(name).is_none()) {
        problems.push(format!("spec.actions: there is no action {name}"));
    }
    ordered.sort();
    ordered.into_iter().map(|(_, _, action)| action).collect()
}

fn plugins(spec: &SchedulingShardSpec, problems: &mut Vec<String>) -> Vec<PluginSpec> {
    let (gpu, cpu) = strategies(spec);
    for (field, strategy) in [("gpu", gpu), ("cpu", cpu)] {
        if ![PACK, SPREAD].contains(&strategy) {
            problems.push(format!(
                "spec.placementStrategy.{field}: {strategy} is neither {PACK} nor {SPREAD}"
            ));
        }
    }
    let nothing = PluginConfig::default();
    let mut ordered = Vec::new();
    for (name, priority) in PLUGINS {
        let wanted = spec.plugins.get(name);
        let by_default = match name {
            "gpupack" | "gpusharingorder" => gpu == PACK,
            "gpuspread" => gpu != PACK,
            "numa" | "reflectjoborder" => wanted.is_some(),
            _ => true,
        };
        let wanted = wanted.unwrap_or(&nothing);
        if !wanted.enabled.unwrap_or(by_default) {
            continue;
        }
        let arguments = if wanted.arguments.is_empty() {
            default_arguments(name, spec)
        } else {
            wanted
                .arguments
                .iter()
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect()
        };
        let plugin = PluginSpec { name: name.into(), arguments };
        ordered.push((-wanted.priority.unwrap_or(priority), name, plugin));
    }
    for name in spec.plugins.keys().filter(|name| !known_plugin(name)) {
        problems.push(format!("spec.plugins: there is no plugin {name}"));
    }
    ordered.sort_by_key(|(priority, name, _)| (*priority, *name));
    ordered.into_iter().map(|(_, _, plugin)| plugin).collect()
}

/// Arguments that other fields of the shard give to a plugin.
fn default_arguments(plugin: &str, spec: &SchedulingShardSpec) -> BTreeMap<Text, Text> {
    let (gpu, cpu) = strategies(spec);
    let runtime = spec.min_runtime.clone().unwrap_or_default();
    let given: Vec<(&str, Option<String>)> = match plugin {
        "proportion" => vec![("kValue", spec.k_value.map(|value| value.to_string()))],
        "minruntime" => vec![
            ("defaultPreemptMinRuntime", runtime.preempt_min_runtime),
            ("defaultReclaimMinRuntime", runtime.reclaim_min_runtime),
        ],
        "nodeplacement" => vec![("gpu", Some(gpu.to_owned())), ("cpu", Some(cpu.to_owned()))],
        _ => Vec::new(),
    };
    given.into_iter().filter_map(|(key, value)| Some((key.into(), value?.into()))).collect()
}

fn depths(
    spec: &SchedulingShardSpec,
    actions: &[ActionKind],
    problems: &mut Vec<String>,
) -> BTreeMap<ActionKind, usize> {
    let mut depths = BTreeMap::new();
    for (name, depth) in &spec.queue_depth_per_action {
        let action = ActionKind::from_name(name).filter(|action| actions.contains(action));
        match (action, usize::try_from(*depth)) {
            (Some(action), Ok(depth)) => {
                depths.insert(action, depth);
            }
            (Some(_), Err(_)) => {
                problems.push(format!("spec.queueDepthPerAction[{name}] must not be negative"));
            }
            (None, _) => {
                let names: Vec<&str> = actions.iter().map(|action| action.name()).collect();
                problems.push(format!(
                    "the scheduler's actions are {}. {name} isn't one of them, making the queueDepthPerAction invalid",
                    names.join(", ")
                ));
            }
        }
    }
    depths
}

const BUDGET_GENERATORS: [&str; 3] = ["default", "NodeLocalGreedy", "MultiNodeGang"];
const BUDGET_ACTIONS: [&str; 4] = ["default", "reclaim", "preempt", "consolidation"];

/// Budgets of the search for victims; what makes no sense is said and left out.
pub(crate) fn search_budgets(
    wanted: &ScenarioSearchBudgets,
    problems: &mut Vec<String>,
) -> SearchBudgets {
    let mut budgets = SearchBudgets::default();
    let mut units = |field: &str, duration: &DurationText| {
        let nanos = parse_duration(&duration.0, Units::Go);
        match nanos {
            Ok(nanos) if nanos >= 0 => Some((nanos as f64 / 1e9 * UNITS_PER_SECOND) as u64),
            Ok(_) => {
                problems.push(format!("{field} must be non-negative"));
                None
            }
            Err(error) => {
                problems.push(format!("{field}: {error}"));
                None
            }
        }
    };
    let mut bad_keys = Vec::new();
    for (key, duration) in &wanted.max_action_search_duration {
        if !BUDGET_ACTIONS.contains(&key.as_str()) {
            bad_keys.push(format!(
                "maxActionSearchDuration contains invalid action key \"{key}\"; valid action keys: default, reclaim, preempt, consolidation"
            ));
        } else if let Some(units) = units(&format!("maxActionSearchDuration[\"{key}\"]"), duration)
        {
            budgets.action_units.insert(key.as_str().into(), units);
        }
    }
    for (key, duration) in &wanted.max_generator_search_duration {
        if !BUDGET_GENERATORS.contains(&key.as_str()) {
            bad_keys.push(format!("unknown scenario generator budget key \"{key}\""));
        } else if let Some(units) =
            units(&format!("maxGeneratorSearchDuration[\"{key}\"]"), duration)
        {
            budgets.generator_units.insert(key.as_str().into(), units);
        }
    }
    let most = wanted.max_job_search_duration.as_ref();
    if let Some(units) = most.and_then(|most| units("maxJobSearchDuration", most)) {
        budgets.job_units = units;
    }
    let least = wanted.min_job_search_duration.as_ref();
    if let Some(units) = least.and_then(|least| units("minJobSearchDuration", least)) {
        budgets.min_job_units = units;
    }
    problems.extend(bad_keys);
    if budgets.job_units > 0 && budgets.min_job_units >= budgets.job_units {
        problems.push("minJobSearchDuration must be less than maxJobSearchDuration".to_owned());
        budgets.min_job_units = 0;
    }
    budgets
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn configured(spec: &Value) -> (Settings, Vec<String>) {
        let shard = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "s"}, "spec": spec});
        let around = Environment { variable: &|_| None, prometheus: None };
        let shard = serde_json::from_value(shard).expect("a shard");
        settings(&shard, &Flagged::default().settings, &around)
    }

    fn names(settings: &Settings) -> Vec<&str> {
        settings.config.plugins.iter().map(|plugin| &*plugin.name).collect()
    }

    #[test]
    fn an_empty_shard_is_the_operators_default() {
        let (settings, problems) = configured(&json!({}));
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings.config.actions, ActionKind::ALL);
        let names = names(&settings);
        assert_eq!(names.first(), Some(&"predicates"));
        assert!(
            names.contains(&"podaffinity")
                && names.contains(&"gpupack")
                && !names.contains(&"gpuspread")
        );
        assert!(!names.contains(&"numa"));
        assert_eq!(settings.partition.name(), None);
    }

    #[test]
    fn a_shard_that_spreads_does_not_consolidate() {
        let (settings, problems) = configured(&json!({
            "partitionLabelValue": "a",
            "placementStrategy": {"gpu": "spread", "cpu": "binpack"},
            "kValue": 0.5,
            "minRuntime": {"preemptMinRuntime": "1d"},
            "args": {"allow-consolidating-reclaim": "false"},
            "plugins": {"numa": {}, "elastic": {"enabled": false}, "proportion": {"priority": 2000}},
        }));
        assert_eq!(problems, Vec::<String>::new());
        assert!(!settings.config.actions.contains(&ActionKind::Consolidation));
        let names = names(&settings);
        assert_eq!(names.first(), Some(&"proportion"));
        assert!(
            names.contains(&"gpuspread") && names.contains(&"numa") && !names.contains(&"elastic")
        );
        let argument = |plugin: &str, key: &str| {
            let plugin = settings.config.plugins.iter().find(|one| *one.name == *plugin);
            plugin.and_then(|plugin| plugin.argument(key)).map(str::to_owned)
        };
        assert_eq!(argument("proportion", "kValue").as_deref(), Some("0.5"));
        assert_eq!(argument("nodeplacement", "gpu").as_deref(), Some("spread"));
        assert_eq!(argument("minruntime", "defaultPreemptMinRuntime").as_deref(), Some("1d"));
        assert_eq!(settings.partition.name(), Some("a"));
        assert!(!settings.config.params.allow_consolidating_reclaim);
    }

    #[test]
    fn what_makes_no_sense_is_said_and_left_out() {
        let (settings, problems) = configured(&json!({
            "placementStrategy": {"gpu": "binpak"},
            "plugins": {"magic": {}},
            "actions": {"dance": {}, "preempt": {"enabled": false}},
            "queueDepthPerAction": {"preempt": 3, "allocate": 5},
            "args": {"typo": "1"},
            "scenarioSearchBudgets": {"maxActionSearchDuration": {"allocate": "1s", "reclaim": "-1s"}, "maxGeneratorSearchDuration": {"Magic": "1s"}, "maxJobSearchDuration": "1s", "minJobSearchDuration": "2s"},
        }));
        assert_eq!(
            problems,
            [
                "unknown flag: --typo",
                "spec.actions: there is no action dance",
                "spec.placementStrategy.gpu: binpak is neither binpack nor spread",
                "spec.plugins: there is no plugin magic",
                "the scheduler's actions are allocate, consolidation, reclaim, stalegangeviction. preempt isn't one of them, making the queueDepthPerAction invalid",
                "maxActionSearchDuration[\"reclaim\"] must be non-negative",
                "maxActionSearchDuration contains invalid action key \"allocate\"; valid action keys: default, reclaim, preempt, consolidation",
                "unknown scenario generator budget key \"Magic\"",
                "minJobSearchDuration must be less than maxJobSearchDuration",
            ]
        );
        assert_eq!(settings.config.queue_depth, BTreeMap::from([(ActionKind::Allocate, 5)]));
    }
}
