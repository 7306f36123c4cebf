//! Webhook configurations: what the API server asks us about. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kai_api::json;
use kai_api::names::admission as names;
use kai_api::names::components::ADMISSION;
use serde_json::{Value, json};

use super::{AdmissionSettings, FailurePolicy};

/// The configurations: the plural of their kind, and the object. `trusted` is the authority of our certificate, as PEM;
/// none: nothing is said of it.
pub fn configurations(
    settings: &AdmissionSettings,
    trusted: Option<&str>,
) -> Vec<(&'static str, Value)> {
    let trusted = trusted.map(|text| json!(ByteString(text.as_bytes().to_vec())));
    let hooks = Hooks { settings, trusted };
    let service = format!("admission.{}.svc", settings.namespace);
    let (create, update) = (settings.on_create, settings.on_update);
    let pods = |operation: &'static str| rule("", "v1", &["pods"], &[operation], "Namespaced");
    // Requests change through the sub-resource when a pod is resized in place.
    let changed_pods = rule("", "v1", &["pods", "pods/resize"], &["UPDATE"], "Namespaced");
    let topologies = |operation: &'static str| {
        rule("kai.scheduler", "v1alpha1", &["topologies"], &[operation], "Cluster")
    };
    let queues = |operations: &[&'static str]| {
        rule("scheduling.run.ai", "v2", &["queues"], operations, "Cluster")
    };
    let groups = |operation: &'static str| {
        rule("scheduling.run.ai", "v2alpha2", &["podgroups"], &[operation], "Namespaced")
    };
    let update_name = |name: &str| format!("update.{name}");
    let topology = format!("topology.{service}");
    let mutating = hooks.of_pods(&service, names::MUTATE_POD_PATH, &pods("CREATE"), create, true);
    let validating = [
        hooks.of_pods(&service, names::VALIDATE_POD_PATH, &pods("CREATE"), create, false),
        hooks.of_pods(
            &update_name(&service),
            names::VALIDATE_POD_PATH,
            &changed_pods,
            update,
            false,
        ),
        hooks.hook(&topology, names::VALIDATE_TOPOLOGY_PATH, &topologies("CREATE"), create),
        hooks.hook(
            &update_name(&topology),
            names::VALIDATE_TOPOLOGY_PATH,
            &topologies("UPDATE"),
            update,
        ),
    ];
    let of_queues = [
        hooks.hook(names::QUEUE_WEBHOOK, names::VALIDATE_QUEUE_PATH, &queues(&["CREATE"]), create),
        hooks.hook(
            &update_name(names::QUEUE_WEBHOOK),
            names::VALIDATE_QUEUE_PATH,
            &queues(&["UPDATE", "DELETE"]),
            update,
        ),
    ];
    let of_groups = [
        hooks.hook(
            names::POD_GROUP_WEBHOOK,
            names::VALIDATE_POD_GROUP_PATH,
            &groups("CREATE"),
            create,
        ),
        hooks.hook(
            &update_name(names::POD_GROUP_WEBHOOK),
            names::VALIDATE_POD_GROUP_PATH,
            &groups("UPDATE"),
            update,
        ),
    ];
    let validates = |name: &str, hooks: &[Value]| {
        (VALIDATING, configuration("ValidatingWebhookConfiguration", name, hooks))
    };
    let mutating = configuration("MutatingWebhookConfiguration", names::MUTATING_PODS, &[mutating]);
    vec![
        (MUTATING, mutating),
        validates(names::VALIDATING_PODS, &validating),
        validates(names::VALIDATING_QUEUES, if settings.queues { &of_queues } else { &[] }),
        validates(names::VALIDATING_POD_GROUPS, if settings.pod_groups { &of_groups } else { &[] }),
    ]
}

/// Keeps the namespaces that other writers exclude from our hooks: some clouds do, and would fight for it.
pub fn keep_foreign_terms(registered: &Value, wanted: &mut Value) {
    let hooks = |object: &Value| object["webhooks"].as_array().cloned().unwrap_or_default();
    let registered = hooks(registered);
    for hook in wanted.pointer_mut("/webhooks").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let Some(before) = registered.iter().find(|one| one["name"] == hook["name"]) else {
            continue;
        };
        let terms = |hook: &Value| {
            hook["namespaceSelector"]["matchExpressions"].as_array().cloned().unwrap_or_default()
        };
        let mut kept = terms(hook);
        // Of what names no namespace, only we ask for a label to be there; clouds ask for one not to be.
        let is_ours = |term: &Value| term["key"] == NAMESPACE_NAME || term["operator"] == "Exists";
        let foreign = terms(before).into_iter().filter(|term| !is_ours(term));
        for term in foreign {
            if !kept.contains(&term) {
                kept.push(term);
            }
        }
        if !kept.is_empty() {
            json::set(hook, &["namespaceSelector", "matchExpressions"], kept);
        }
    }
}

/// Whether the registration must be replaced as a whole before it is applied. An address applied beside that of another
/// writer would leave both, which makes no sense; hooks of other names, such as KAI's, would call a program that is gone.
pub fn must_be_replaced(registered: &Value, wanted: &Value) -> bool {
    let hooks = |object: &Value| object["webhooks"].as_array().cloned().unwrap_or_default();
    let by_url = |hook: &Value| hook["clientConfig"]["url"].is_string();
    let wanted = hooks(wanted);
    hooks(registered).iter().any(|before| {
        let same = wanted.iter().find(|hook| hook["name"] == before["name"]);
        same.is_none_or(|hook| by_url(before) != by_url(hook))
    })
}

/// The label by which we exclude namespaces.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

fn configuration(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": hooks,
    })
}

fn rule(group: &str, version: &str, plurals: &[&str], operations: &[&str], scope: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": [version], "resources": plurals, "operations": operations, "scope": scope})
}

/// Of these labels. What is empty is left out, as the API server does it: who applies the same again must not seem to want
/// something else.
fn selector(labels: &BTreeMap<String, String>) -> Value {
    if labels.is_empty() { json!({}) } else { json!({"matchLabels": labels}) }
}

struct Hooks<'a> {
    settings: &'a AdmissionSettings,
    trusted: Option<Value>,
}

impl Hooks<'_> {
    fn hook(&self, name: &str, path: &str, rule: &Value, policy: FailurePolicy) -> Value {
        let mut client = match &self.settings.url {
            Some(url) => json!({"url": format!("{url}{path}")}),
            None => {
                json!({"service": {"namespace": self.settings.namespace, "name": ADMISSION, "path": path, "port": 443}})
            }
        };
        if let Some(trusted) = &self.trusted {
            json::set(&mut client, &["caBundle"], trusted.clone());
        }
        json!({
            "name": name,
            "clientConfig": client,
            "rules": [rule],
            "failurePolicy": policy.name(),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    }

    /// Only pods of our scheduler, and none of the namespaces we need to come back.
    fn of_pods(
        &self,
        name: &str,
        path: &str,
        rule: &Value,
        policy: FailurePolicy,
        mutates: bool,
    ) -> Value {
        let mut hook = self.hook(name, path, rule, policy);
        let excluded = ["kube-system", &self.settings.namespace];
        let scope = &self.settings.scope;
        let mut namespaces =
            vec![json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": excluded})];
        if let Some(key) = &scope.namespaces_with {
            namespaces.push(json!({"key": key, "operator": "Exists"}));
        }
        json::set(&mut hook, &["namespaceSelector"], selector(&scope.namespace_labels));
        json::set(&mut hook, &["namespaceSelector", "matchExpressions"], namespaces);
        json::set(&mut hook, &["objectSelector"], selector(&scope.pod_labels));
        let scheduler = self.settings.scheduler_name.replace('\\', "\\\\").replace('\'', "\\'");
        json::set(
            &mut hook,
            &["matchConditions"],
            json!([{
                "name": names::SCHEDULER_NAME_MATCH,
                "expression": format!("object.spec.schedulerName == '{scheduler}'"),
            }]),
        );
        if mutates {
            json::set(&mut hook, &["reinvocationPolicy"], "IfNeeded");
        }
        hook
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kai_settings::admission::PodScope;

    #[test]
    fn what_is_not_wanted_is_not_asked_for() {
        let settings =
            AdmissionSettings { queues: false, pod_groups: false, ..AdmissionSettings::default() };
        let made = configurations(&settings, Some("PEM"));
        let hooks: Vec<usize> = made
            .iter()
            .map(|(_, object)| object["webhooks"].as_array().expect("hooks").len())
            .collect();
        assert_eq!(hooks, [1, 4, 0, 0], "what was asked for before is taken back");
    }

    #[test]
    fn only_pods_in_scope_are_asked_about() {
        let labels = || [("a".to_owned(), "b".to_owned())].into();
        let scope = PodScope {
            namespaces_with: Some("queue".to_owned()),
            namespace_labels: labels(),
            pod_labels: labels(),
        };
        let made = configurations(
            &AdmissionSettings { scope, ..AdmissionSettings::default() },
            Some("PEM"),
        );
        let pods = &made[0].1["webhooks"][0];
        assert_eq!(pods["namespaceSelector"]["matchExpressions"][1]["operator"], "Exists");
        assert_eq!(pods["namespaceSelector"]["matchLabels"], json!({"a": "b"}));
        assert_eq!(pods["objectSelector"]["matchLabels"], json!({"a": "b"}));
    }

    #[test]
    fn what_a_cloud_excludes_stays_excluded() {
        let mut made = configurations(&AdmissionSettings::default(), Some("PEM"));
        let (_, wanted) = &mut made[0];
        let mut registered = wanted.clone();
        let cloud = json!({"key": "control-plane", "operator": "DoesNotExist"});
        let terms = &mut registered["webhooks"][0]["namespaceSelector"]["matchExpressions"];
        terms.as_array_mut().expect("terms").push(cloud.clone());
        keep_foreign_terms(&registered, wanted);
        assert_eq!(*wanted, registered);
        keep_foreign_terms(&registered, wanted);
        let terms = wanted["webhooks"][0]["namespaceSelector"]["matchExpressions"].as_array();
        assert_eq!(terms.map(Vec::len), Some(2), "each is there once");
        let (_, queues) = &mut made[2];
        let mut registered = queues.clone();
        registered["webhooks"][0]["namespaceSelector"] = json!({"matchExpressions": [cloud]});
        keep_foreign_terms(&registered, queues);
        assert_eq!(*queues, registered);
    }

    #[test]
    fn an_address_takes_the_place_of_a_service() {
        let by_service = &configurations(&AdmissionSettings::default(), None)[0].1;
        let url = Some("https://10.0.0.1:9443".to_owned());
        let by_url = &configurations(
            &AdmissionSettings { url, ..AdmissionSettings::default() },
            Some("PEM"),
        )[0]
        .1;
        assert!(must_be_replaced(by_service, by_url) && must_be_replaced(by_url, by_service));
        assert!(!must_be_replaced(by_service, by_service) && !must_be_replaced(by_url, by_url));
        assert!(!must_be_replaced(&json!({}), by_url));
    }

    #[test]
    fn hooks_of_another_writer_are_replaced() {
        let wanted = &configurations(&AdmissionSettings::default(), None)[0].1;
        let mut registered = wanted.clone();
        registered["webhooks"][0]["name"] = json!("kai-admission.kai-scheduler.svc");
        assert!(must_be_replaced(&registered, wanted));
    }

    #[test]
    fn only_our_pods_can_be_held_up() {
        let made = configurations(&AdmissionSettings::default(), Some("PEM"));
        let hooks: Vec<&Value> = made
            .iter()
            .flat_map(|(_, object)| object["webhooks"].as_array().expect("hooks"))
            .collect();
        assert_eq!(hooks.len(), 9);
        for hook in hooks {
            let rule = &hook["rules"][0];
            let creates = rule["operations"] == json!(["CREATE"]);
            let policy = if creates { "Fail" } else { "Ignore" };
            assert_eq!(hook["failurePolicy"], policy, "{hook}");
            let is_about_pods = rule["resources"][0] == "pods";
            if is_about_pods && !creates {
                assert_eq!(rule["resources"], json!(["pods", "pods/resize"]));
            }
            if is_about_pods {
                assert_eq!(
                    hook["matchConditions"][0]["expression"],
                    "object.spec.schedulerName == 'kai-scheduler'"
                );
            }
            assert_eq!(hook["clientConfig"]["caBundle"], "UEVN");
        }
    }
}
