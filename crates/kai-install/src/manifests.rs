//! What is installed in a cluster, as one stream of YAML documents.

use kai_api::crds::CRDS;
use kai_api::names::objects::SCHEDULER_NAME;

/// Roles, accounts and namespaces.
const RBAC: &str = include_str!("../../../deploy/rbac.yaml");
/// Admission policies that the API server enforces itself, and the exempt accounts.
const POLICIES: &str = include_str!("../../../deploy/admission-policies.yaml");
const PRIORITY_CLASSES: &str = include_str!("../../../deploy/priority-classes.yaml");
/// The queue of workloads that name none, and its parent.
pub const DEFAULT_QUEUES: &str = include_str!("../../../deploy/default-queues.yaml");

/// Everything that no Deployment is needed for, in the order of installation, as one text.
pub fn all() -> String {
    joined(documents())
}

/// The same without the default queues, which `kai run` creates. They cannot be applied together with their definition.
pub fn without_queues() -> String {
    joined(definitions_and_roles())
}

/// The same text for another scheduler name, which policies mention.
pub fn with_scheduler_name(text: &str, name: &str) -> String {
    let quoted = |name: &str| format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"));
    let compared = "oldObject.spec.schedulerName == ";
    text.replace(
        &format!("{compared}{}", quoted(SCHEDULER_NAME)),
        &format!("{compared}{}", quoted(name)),
    )
}

/// What is installed besides where `kai run` is started by hand.
pub const BY_HAND: &str = include_str!("../../../deploy/by-hand.yaml");

/// Policy against containers that choose GPUs themselves; optional.
pub const BLOCK_VISIBLE_DEVICES: &str = include_str!("../../../deploy/block-visible-devices.yaml");

/// The scheduler may delete victims; not installed where disruption budgets delay reclaim forever.
pub const DELETE_VICTIMS: &str = include_str!("../../../deploy/delete-victims.yaml");

/// Rights to check service accounts, for `--queue-authorization`; optional.
pub const QUEUE_AUTHORIZATION: &str = include_str!("../../../deploy/queue-authorization.yaml");

/// Rights to check readers of metrics, for `--metrics-authentication`; optional.
pub const METRICS_AUTHENTICATION: &str =
    include_str!("../../../deploy/metrics-authentication.yaml");

/// Every document, in the order of installation.
pub fn documents() -> impl Iterator<Item = &'static str> {
    definitions_and_roles().chain([DEFAULT_QUEUES])
}

fn definitions_and_roles() -> impl Iterator<Item = &'static str> {
    let crds = CRDS.iter().map(|(_, text)| *text);
    crds.chain([RBAC, POLICIES, PRIORITY_CLASSES])
}

fn joined<'a>(documents: impl Iterator<Item = &'a str>) -> String {
    documents.fold(String::new(), |text, document| {
        let document = document.trim_start_matches("---\n").trim_end();
        format!("{text}---\n{document}\n")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_document_is_an_object() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&all()).expect("YAML");
        let kinds: Vec<&str> =
            objects.iter().map(|object| object["kind"].as_str().expect("a kind")).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "CustomResourceDefinition").count(), 6);
        assert_eq!(kinds.iter().filter(|kind| **kind == "PriorityClass").count(), 4);
        assert_eq!(kinds.iter().filter(|kind| **kind == "Queue").count(), 2);
        assert!(objects.iter().all(|object| object["metadata"]["name"].is_string()));
    }

    #[test]
    fn priority_classes_equal_those_of_the_api() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(PRIORITY_CLASSES).expect("YAML");
        let classes: Vec<(&str, i64)> = objects
            .iter()
            .map(|object| {
                let name = object["metadata"]["name"].as_str().expect("a name");
                (name, object["value"].as_i64().expect("a value"))
            })
            .collect();
        let wanted: Vec<(&str, i64)> = kai_api::names::objects::PRIORITY_CLASSES
            .iter()
            .map(|(name, value)| (*name, i64::from(*value)))
            .collect();
        assert_eq!(classes, wanted);
    }

    #[test]
    fn policies_name_the_scheduler() {
        let text = with_scheduler_name(POLICIES, "it's");
        assert!(text.contains(r"oldObject.spec.schedulerName == 'it\'s'"), "{text}");
        assert!(!text.contains("schedulerName == 'kai-scheduler'"), "{text}");
        assert_eq!(with_scheduler_name(POLICIES, SCHEDULER_NAME), POLICIES);
        let policies: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        assert!(!policies.is_empty());
    }

    /// Texts in single quotes of an expression, apart from the names of rights that it checks.
    fn quoted(expression: &str) -> Vec<&str> {
        let without_rights = expression.split("authorizer.").enumerate().flat_map(|(at, part)| {
            let part = if at == 0 {
                part
            } else {
                part.split_once(".allowed()").map_or("", |(_, rest)| rest)
            };
            part.split('\'').skip(1).step_by(2)
        });
        without_rights.collect()
    }

    #[test]
    fn condition_of_the_pod_policy_names_every_protected_key() {
        let policies: Vec<Value> = serde_saphyr::from_multiple(POLICIES).expect("YAML");
        let is_of_pods =
            |policy: &&Value| policy["metadata"]["name"] == "kai-protected-pod-metadata";
        let spec = &policies.iter().find(is_of_pods).expect("the policy")["spec"];
        let condition = spec["matchConditions"][0]["expression"].as_str().expect("a condition");
        let conditioned = quoted(condition);
        let mut keys = 0;
        for validation in spec["validations"].as_array().expect("validations") {
            let expression = validation["expression"].as_str().expect("an expression");
            // The condition holds for all updates by our accounts and for all ephemeral containers.
            if expression.contains("isOwnUpdate") || expression.contains("ephemeralContainers") {
                continue;
            }
            for key in quoted(expression).into_iter().filter(|text| !text.is_empty()) {
                let is_conditioned = conditioned.contains(&key)
                    || key.starts_with("gpu-")
                    || key.starts_with("runai-gpu-group");
                assert!(is_conditioned, "{key}: {condition}");
                keys += 1;
            }
        }
        assert!(keys > 30, "{keys}");
    }

    #[test]
    fn no_role_reads_others_secrets_or_may_do_everything() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(RBAC).expect("YAML");
        let rules =
            objects.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten());
        let rules: Vec<&Value> = rules.collect();
        assert!(!rules.is_empty());
        for rule in rules {
            let text = rule.to_string();
            assert!(!text.contains("\"*\""), "{text}");
            let own = [
                json!([kai_api::names::admission::POD_TLS_SECRET]),
                json!([kai_api::names::scheduling::PLACEMENT_KEY.0]),
            ];
            assert!(!text.contains("secrets") || own.contains(&rule["resourceNames"]), "{text}");
        }
    }

    #[test]
    fn no_role_may_create_webhooks_or_change_webhooks_of_others() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(RBAC).expect("YAML");
        let rules =
            objects.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten());
        let about = rules.filter(|rule| rule["resources"].to_string().contains("webhookconfig"));
        let about: Vec<&Value> = about.collect();
        assert!(!about.is_empty());
        for rule in about {
            assert!(rule["resourceNames"].is_array(), "{rule}");
            assert_eq!(rule["verbs"], json!(["get", "patch"]), "{rule}");
        }
    }
}
