//! Profiles: named settings a scenario's own are laid over.

use std::collections::BTreeMap;

use super::config::{BudgetLayer, BudgetSetting, ConfigLayer, FeatureGates, ParamsLayer, Plugin};
use super::number::Amount;

/// The profile of a scenario that names none: the set-up of KAI's own tests.
pub const KAI_TEST_DEFAULT: &str = "kai-test-default";

/// The profile called `name`, if there is one.
pub fn built_in_profile(name: &str) -> Option<ConfigLayer> {
    (name == KAI_TEST_DEFAULT).then(kai_test_default)
}

fn kai_test_default() -> ConfigLayer {
    ConfigLayer {
        plugins: Some(default_plugins()),
        params: ParamsLayer {
            scheduler_name: Some("kai-scheduler".to_owned()),
            queue_label_key: Some("kai.scheduler/queue".to_owned()),
            max_consolidation_preemptees: Some(Amount::Unlimited),
            allow_consolidating_reclaim: Some(true),
            restrict_node_scheduling: Some(false),
            schedule_csi_storage: Some(false),
            use_scheduling_signatures: Some(false),
            full_hierarchy_fairness: Some(false),
            detailed_fit_errors: Some(false),
            default_staleness_grace_s: Some(0.0),
            ..ParamsLayer::default()
        },
        search_budgets: BudgetSetting::Bounds(BudgetLayer {
            action_s: Some(seconds(&[("default", 300.0)])),
            job_s: Some(240.0),
            min_job_s: Some(0.0),
            generator_s: Some(seconds(&[
                ("default", 120.0),
                ("NodeLocalGreedy", 30.0),
                ("MultiNodeGang", 120.0),
            ])),
        }),
        feature_gates: FeatureGates { dynamic_resources: Some(false) },
        ..ConfigLayer::default()
    }
}

fn default_plugins() -> Vec<Plugin> {
    const BEFORE_PLACEMENT: [&str; 14] = [
        "predicates",
        "proportion",
        "priority",
        "elastic",
        "kubeflow",
        "ray",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "taskorder",
        "nominatednode",
        "dynamicresources",
    ];
    const AFTER_PLACEMENT: [&str; 5] =
        ["minruntime", "topology", "snapshot", "sg-nodelocalgreedy", "sg-multinodegang"];

    let binpack = |resource: &str| (resource.to_owned(), "binpack".to_owned());
    let placement =
        Plugin { name: "nodeplacement".to_owned(), args: [binpack("cpu"), binpack("gpu")].into() };
    let plain = |names: &[&str]| names.iter().map(|name| Plugin::plain(name)).collect::<Vec<_>>();
    [plain(&BEFORE_PLACEMENT), vec![placement], plain(&AFTER_PLACEMENT)].concat()
}

fn seconds(entries: &[(&str, f64)]) -> BTreeMap<String, f64> {
    entries.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::SharedFolder;

    #[test]
    fn built_in_profile_is_the_one_of_the_shared_folder() {
        let Some(shared) = SharedFolder::find_or_skip("profile kai-test-default") else { return };
        let text =
            std::fs::read_to_string(shared.scenarios().join("profiles/kai-test-default.json"))
                .unwrap();
        let written: ConfigLayer = super::super::error::read_json(&text).unwrap();
        assert_eq!(built_in_profile(KAI_TEST_DEFAULT), Some(written));
    }
}
