//! Whether containers name their devices in the notation of CDI: as configured, as the node says, as NVIDIA's operator
//! is set up. The operator is looked at where it is there; nothing needs it.

use std::collections::BTreeMap;

use kai_api::names::components::VERSION;
use kai_api::names::node as names;
use kai_client::observed::ClusterPolicy;
use kai_core::input::Text;
use kai_translate::view;

use kai_settings::binder::CdiSetting;

/// From this version on the operator's CDI is the default of containers too.
const ON_BY_DEFAULT: [u64; 3] = [25, 10, 0];

/// `ClusterPolicy` objects of NVIDIA's operator, as far as they concern CDI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterPolicies {
    uses_cdi: BTreeMap<Text, bool>,
}

impl ClusterPolicies {
    /// A policy as it is; none: it is gone.
    pub(super) fn set(&mut self, name: Text, policy: Option<&ClusterPolicy>) {
        let Some(policy) = policy else {
            self.uses_cdi.remove(&name);
            return;
        };
        let cdi = policy.spec.cdi.unwrap_or_default();
        let version = policy.metadata.labels.get(VERSION).and_then(|text| version(text));
        let by_default = cdi.default == Some(true) || version >= Some(ON_BY_DEFAULT);
        self.uses_cdi.insert(name, cdi.enabled == Some(true) && by_default);
    }

    /// The first decides; there should be one.
    fn use_cdi(&self) -> bool {
        self.uses_cdi.values().next().copied().unwrap_or_default()
    }
}

/// `v25.10.0`.
fn version(text: &str) -> Option<[u64; 3]> {
    let numbers = text.strip_prefix('v')?.split(['-', '+']).next()?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Whether containers on the node name devices in the notation of CDI.
pub(super) fn is_on(node: &view::Node, setting: CdiSetting, policies: &ClusterPolicies) -> bool {
    let metadata = &node.metadata;
    let stated = metadata.labels.get(names::CDI).or_else(|| metadata.annotations.get(names::CDI));
    match (stated.map(String::as_str), setting) {
        (Some("on" | "true"), _) | (_, CdiSetting::On) => true,
        (Some("off" | "false"), _) | (_, CdiSetting::Off) => false,
        (_, CdiSetting::Auto) => policies.use_cdi(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(version: &str, cdi: &Value) -> ClusterPolicy {
        let object = json!({"metadata": {"labels": {VERSION: version}}, "spec": {"cdi": cdi}});
        serde_json::from_value(object).expect("a policy")
    }

    fn by_policy(version: &str, cdi: &Value) -> bool {
        let mut policies = ClusterPolicies::default();
        policies.set("p".into(), Some(&policy(version, cdi)));
        is_on(&view::Node::default(), CdiSetting::Auto, &policies)
    }

    #[test]
    fn the_operator_is_read_as_the_reference_reads_it() {
        let enabled = json!({"enabled": true});
        assert!(by_policy("v25.10.0", &enabled));
        assert!(by_policy("v26.3.1-rc.1", &enabled));
        assert!(!by_policy("v25.3.4", &enabled));
        assert!(!by_policy("25.10.0", &enabled), "a version begins with v");
        assert!(by_policy("v25.3.4", &json!({"enabled": true, "default": true})));
        assert!(!by_policy("v25.10.0", &json!({"enabled": false, "default": true})));
        assert!(!by_policy("v25.10.0", &Value::Null));
    }

    #[test]
    fn what_is_configured_and_what_the_node_says_come_first() {
        let mut policies = ClusterPolicies::default();
        policies.set("p".into(), Some(&policy("v26.3.0", &json!({"enabled": true}))));
        let node = |value: &str| -> view::Node {
            serde_json::from_value(json!({"metadata": {"labels": {"kai.scheduler/cdi": value}}}))
                .expect("a node")
        };
        assert!(!is_on(&node(""), CdiSetting::Off, &policies));
        assert!(is_on(&node("on"), CdiSetting::Off, &policies));
        assert!(!is_on(&node("off"), CdiSetting::Auto, &policies));
        policies.set("p".into(), None);
        assert!(!is_on(&node(""), CdiSetting::Auto, &policies));
    }
}
