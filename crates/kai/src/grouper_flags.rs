//! Flags of the pod grouper, under KAI's names.

use std::collections::BTreeMap;

use clap::Args;
use kai_control::grouper::{GrouperConfig, parse_selector};
use kai_core::input::ObjectName;

/// How pods are grouped.
#[derive(Args)]
#[command(next_help_heading = "Pod grouper")]
pub(crate) struct GrouperArguments {
    /// Group the pods of a Knative revision; otherwise each pod is its own group.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    knative_gang_schedule: bool,

    /// Group workload kinds without a built-in rule by Karta objects.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    generic_karta_fallback: bool,

    /// Keep PodGroups that older releases created.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    search_legacy_pg: bool,

    /// Group only pods with these labels.
    #[arg(long, value_parser = selector, value_name = "KEY=VALUE,...")]
    pod_label_selector: Option<Selector>,

    /// Group only pods in namespaces with these labels.
    #[arg(long, value_parser = selector, value_name = "KEY=VALUE,...")]
    namespace_label_selector: Option<Selector>,

    /// Name of the ConfigMap with default priorities per workload kind.
    #[arg(long, requires = "default_priorities_configmap_namespace", value_name = "NAME")]
    default_priorities_configmap_name: Option<String>,

    /// Namespace of the ConfigMap with default priorities.
    #[arg(long, requires = "default_priorities_configmap_name", value_name = "NAME")]
    default_priorities_configmap_namespace: Option<String>,
}

/// Labels that must be there.
#[derive(Clone)]
struct Selector(BTreeMap<String, String>);

fn selector(text: &str) -> Result<Selector, String> {
    let (labels, bad) = parse_selector(text);
    match bad.first() {
        Some(part) => Err(format!("{part:?} is no KEY=VALUE")),
        None => Ok(Selector(labels)),
    }
}

impl GrouperArguments {
    /// Takes the flags over.
    pub(crate) fn apply(&self, config: &mut GrouperConfig) {
        config.knative_gang = self.knative_gang_schedule;
        config.karta = self.generic_karta_fallback;
        config.search_legacy_groups = self.search_legacy_pg;
        let labels = |given: &Option<Selector>| given.clone().map(|given| given.0);
        config.pod_selector = labels(&self.pod_label_selector).unwrap_or_default();
        config.namespace_selector = labels(&self.namespace_label_selector).unwrap_or_default();
    }

    /// The config map with defaults per kind; an empty name is none.
    pub(crate) fn kind_defaults(&self) -> Option<ObjectName> {
        let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let name = given(&self.default_priorities_configmap_name)?;
        let namespace = given(&self.default_priorities_configmap_namespace)?;
        Some(ObjectName::new(namespace.as_str(), name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        grouper: GrouperArguments,
    }

    #[test]
    fn without_flags_the_grouper_keeps_its_default_settings() {
        let Line { grouper } = Line::parse_from(["kai"]);
        let mut config = GrouperConfig::default();
        grouper.apply(&mut config);
        assert_eq!(format!("{config:?}"), format!("{:?}", GrouperConfig::default()));
    }
}
