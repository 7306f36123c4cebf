//! KAI's configuration file: actions, plugins and their arguments. Unknown keys are ignored, as KAI ignores them. Pure.

use std::collections::BTreeMap;

use kai_api::shard::{ScenarioSearchBudgets, UsageDbConfig};
use kai_core::config::{ActionKind, PluginSpec};
use serde::Deserialize;

use crate::planner::Settings;
use crate::shard::{known_plugin, search_budgets};
use crate::usage::{Environment, read};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct File {
    actions: Option<String>,
    tiers: Option<Vec<Tier>>,
    queue_depth_per_action: BTreeMap<String, usize>,
    scenario_search_budgets: Option<ScenarioSearchBudgets>,
    #[serde(rename = "usageDBConfig")]
    usage_db_config: Option<UsageDbConfig>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tier {
    plugins: Vec<Plugin>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Plugin {
    name: String,
    arguments: BTreeMap<String, String>,
}

/// Takes a file over; what is to be said about it. A file with an action that does not exist is refused.
pub fn apply(
    text: &str,
    settings: &mut Settings,
    around: &Environment<'_>,
) -> Result<Vec<String>, String> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut notices = Vec::new();
    let config = &mut settings.config;
    if let Some(actions) = &file.actions {
        let found: Result<Vec<ActionKind>, String> =
            actions.split(',').map(|name| action(name.trim())).collect();
        config.actions = found?;
    }
    if let Some(tiers) = file.tiers {
        let (known, unknown): (Vec<Plugin>, Vec<Plugin>) = tiers
            .into_iter()
            .flat_map(|tier| tier.plugins)
            .partition(|plugin| known_plugin(&plugin.name));
        notices.extend(unknown.iter().map(|plugin| format!("there is no plugin {}", plugin.name)));
        config.plugins = known.iter().map(plugin).collect();
    }
    for (name, depth) in file.queue_depth_per_action {
        config.queue_depth.insert(action(&name)?, depth);
    }
    if let Some(wanted) = &file.scenario_search_budgets {
        config.budgets = Some(search_budgets(wanted, &mut notices));
    }
    if let Some(wanted) = &file.usage_db_config {
        settings.usage = Some(read(wanted, around)?);
    }
    Ok(notices)
}

fn action(name: &str) -> Result<ActionKind, String> {
    ActionKind::from_name(name).ok_or_else(|| format!("there is no action {name:?}"))
}

fn plugin(plugin: &Plugin) -> PluginSpec {
    let arguments = plugin.arguments.iter();
    PluginSpec {
        name: plugin.name.as_str().into(),
        arguments: arguments
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, settings: &mut Settings) -> Result<Vec<String>, String> {
        apply(text, settings, &Environment { variable: &|_| None, prometheus: None })
    }

    #[test]
    fn a_file_names_actions_and_plugins() {
        let text = "actions: \"allocate, reclaim\"\ntiers:\n- plugins:\n  - name: predicates\n  - name: nodeplacement\n    \
                    arguments: {cpu: spread, gpu: binpack}\n  - name: magic\n    disableNodeOrder: true\n\
                    queueDepthPerAction: {reclaim: 7}\nsomething: else\n";
        let mut settings = Settings::default();
        assert_eq!(read(text, &mut settings), Ok(vec!["there is no plugin magic".to_owned()]));
        let config = settings.config;
        assert_eq!(config.actions, [ActionKind::Allocate, ActionKind::Reclaim]);
        let names: Vec<&str> = config.plugins.iter().map(|plugin| &*plugin.name).collect();
        assert_eq!(names, ["predicates", "nodeplacement"]);
        assert_eq!(config.plugins[1].argument("cpu"), Some("spread"));
        assert_eq!(config.queue_depth, BTreeMap::from([(ActionKind::Reclaim, 7)]));
    }

    #[test]
    fn what_is_not_there_stays_as_it_is_and_unknown_actions_are_refused() {
        let mut settings = Settings::default();
        assert_eq!(read("{}", &mut settings), Ok(Vec::new()));
        assert_eq!(settings, Settings::default());
        assert_eq!(
            read("actions: dance", &mut settings),
            Err("there is no action \"dance\"".to_owned())
        );
    }

    #[test]
    fn a_file_says_where_past_usage_comes_from() {
        let text = "usageDBConfig:\n  clientType: recorder\n  usageParams: {windowSize: 30s}\n";
        let mut settings = Settings::default();
        assert_eq!(read(text, &mut settings), Ok(Vec::new()));
        assert!(settings.usage.is_some());
        let why = read("usageDBConfig: {clientType: prometheus}", &mut settings);
        assert!(why.is_err_and(|why| why.contains("connection string not configured")));
    }
}
