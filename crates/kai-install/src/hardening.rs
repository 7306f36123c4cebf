//! What keeps an installation running and closed: disruption budgets, priority, spreading over nodes, network policies.

use kai_api::names::components::ADMISSION;
use kai_api::names::defaults::WEBHOOK_PORT;
use kai_api::names::objects::{APP, NAMESPACE, RESERVATION};
use serde_json::{Value, json};

use crate::deployments::{METRICS, PROBES};

/// Pods of this class are the last to be evicted; every cluster has it.
const PRIORITY_CLASS: &str = "system-cluster-critical";

/// The objects, with a priority class and an anti-affinity in every Deployment, disruption budgets and network policies.
pub fn hardened(mut objects: Vec<Value>) -> Vec<Value> {
    let mut budgets = Vec::new();
    for deployment in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
        let name = deployment["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec = deployment.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec {
            spec.insert("priorityClassName".to_owned(), json!(PRIORITY_CLASS));
            spec.insert("affinity".to_owned(), apart_from(&name));
        }
        budgets.push(budget(&name));
    }
    if !budgets.is_empty() {
        objects.append(&mut budgets);
        objects.extend(network_policies());
    }
    objects
}

/// Replicas prefer different nodes.
fn apart_from(name: &str) -> Value {
    let term = json!({
        "labelSelector": {"matchLabels": {APP: name}},
        "topologyKey": "kubernetes.io/hostname",
    });
    let preferred = json!([{"weight": 100, "podAffinityTerm": term}]);
    json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
}

/// A drain takes one replica after another, and waits for none that is not ready anyway.
fn budget(name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {APP: name}},
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": {APP: name}},
        },
    })
}

/// The API server and kubelets are no pods, so webhooks and probes are open to every address; metrics to pods of the
/// cluster. Only admission has webhooks. Reservation pods accept no connection.
fn network_policies() -> [Value; 3] {
    let port = |number: u16| json!({"protocol": "TCP", "port": number});
    let probes = json!({"ports": [port(PROBES)]});
    let pods = json!({"from": [{"namespaceSelector": {}}], "ports": [port(METRICS)]});
    let webhooks = json!([{"ports": [port(WEBHOOK_PORT)]}]);
    let admission = json!({"matchLabels": {APP: ADMISSION}});
    [
        network_policy("kai-ingress", NAMESPACE, &json!({}), &json!([probes, pods])),
        network_policy("kai-admission-ingress", NAMESPACE, &admission, &webhooks),
        network_policy("kai-reservation-ingress", RESERVATION, &json!({}), &json!([])),
    ]
}

/// The API server drops an empty list of rules: tools that compare would apply the list again and again.
fn network_policy(name: &str, namespace: &str, selected: &Value, ingress: &Value) -> Value {
    let mut spec = json!({"podSelector": selected, "policyTypes": ["Ingress"]});
    let has_rules = ingress.as_array().is_some_and(|rules| !rules.is_empty());
    if let (true, Some(fields)) = (has_rules, spec.as_object_mut()) {
        fields.insert("ingress".to_owned(), ingress.clone());
    }
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deployment_is_kept_running_and_only_its_ports_answer() {
        let deployment = |name: &str| json!({"kind": "Deployment", "metadata": {"name": name}, "spec": {"template": {"spec": {}}}});
        let objects = hardened(vec![deployment("a"), deployment("b"), json!({"kind": "Service"})]);
        for name in ["a", "b"] {
            let named = |object: &&Value| object["metadata"]["name"] == name;
            let of_name: Vec<&Value> = objects.iter().filter(named).collect();
            assert_eq!(of_name[0]["spec"]["template"]["spec"]["priorityClassName"], PRIORITY_CLASS);
            assert_eq!(of_name[1]["kind"], "PodDisruptionBudget");
            assert_eq!(of_name[1]["spec"]["selector"]["matchLabels"][APP], name);
        }
        let open = |policy: &Value| -> Vec<String> {
            let rules = policy["spec"]["ingress"].as_array().into_iter().flatten();
            let ports = rules.flat_map(|rule| rule["ports"].as_array().into_iter().flatten());
            ports.map(|port| port["port"].to_string()).collect()
        };
        let policies = objects.iter().filter(|object| object["kind"] == "NetworkPolicy");
        let policies: Vec<(&Value, Vec<String>)> =
            policies.map(|policy| (&policy["spec"]["podSelector"], open(policy))).collect();
        let admission = json!({"matchLabels": {APP: "admission"}});
        assert_eq!(policies[0], (&json!({}), vec!["8081".to_owned(), "8080".to_owned()]));
        assert_eq!(policies[1], (&admission, vec!["9443".to_owned()]));
        assert_eq!(policies[2], (&json!({}), Vec::new()));
    }

    #[test]
    fn where_nothing_is_deployed_nothing_is_added() {
        assert_eq!(hardened(Vec::new()), Vec::<Value>::new());
    }
}
