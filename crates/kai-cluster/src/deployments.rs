//! Deployments and Services of `kai run`: everything in one process, or each function alone under its own account.

use kai_api::names::objects::{APP, NAMESPACE};
use serde_json::{Value, json};

use crate::function::Function;

/// How `kai run` is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One Deployment does everything.
    #[default]
    Process,
    /// One Deployment per function.
    Functions,
    /// It is started by hand.
    Nothing,
}

/// Account and Deployment of the one process.
const PROCESS: &str = "kai";
/// Port of metrics.
const METRICS: u16 = 8080;
/// Port of health.
const PROBES: u16 = 8081;
/// Port of webhooks.
const WEBHOOKS: u16 = 9443;

/// CPU and memory that a process is given, and the memory it may not exceed.
struct Amounts {
    cpu: &'static str,
    memory: &'static str,
    most_memory: &'static str,
}

/// What follows the whole cluster holds it in memory.
const WORLD: Amounts = Amounts { cpu: "250m", memory: "512Mi", most_memory: "2Gi" };
const SMALL: Amounts = Amounts { cpu: "50m", memory: "64Mi", most_memory: "256Mi" };

/// What is installed beside roles and definitions.
pub fn objects(layout: Layout, image: &str) -> Vec<Value> {
    match layout {
        Layout::Nothing => Vec::new(),
        Layout::Process => {
            let webhooks = format!("--webhook-addr={WEBHOOKS}");
            let arguments = ["run", "--leader-elect", &webhooks];
            vec![
                deployment(PROCESS, image, &arguments, &WORLD),
                metrics_service(PROCESS),
                admission_service(PROCESS),
            ]
        }
        Layout::Functions => {
            let mut all: Vec<Value> = Function::ALL
                .into_iter()
                .flat_map(|function| {
                    let name = function.name();
                    let arguments = ["run", "--leader-elect", "--only", name];
                    let amounts = if function == Function::Admission { &SMALL } else { &WORLD };
                    let mut made = vec![deployment(name, image, &arguments, amounts)];
                    // The Service of admission is named as its Deployment and has both ports.
                    if function != Function::Admission {
                        made.push(metrics_service(name));
                    }
                    made
                })
                .collect();
            all.push(admission_service(Function::Admission.name()));
            all
        }
    }
}

fn deployment(name: &str, image: &str, arguments: &[&str], amounts: &Amounts) -> Value {
    let probe =
        |path: &str| json!({"httpGet": {"path": path, "port": "probes"}, "periodSeconds": 10});
    let container = json!({
        "name": name,
        "image": image,
        "args": arguments,
        "ports": [
            {"name": "http-metrics", "containerPort": METRICS},
            {"name": "probes", "containerPort": PROBES},
            {"name": "webhook", "containerPort": WEBHOOKS},
        ],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": {"cpu": amounts.cpu, "memory": amounts.memory},
            "limits": {"memory": amounts.most_memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {APP: name}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {APP: name}},
            "template": {
                "metadata": {"labels": {APP: name}},
                "spec": {
                    "serviceAccountName": name,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": 10_000,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                },
            },
        },
    })
}

fn service(name: &str, selected: &str, ports: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {APP: selected},
            "annotations": {"prometheus.io/scrape": "true"},
        },
        "spec": {"selector": {APP: selected}, "ports": ports},
    })
}

fn metrics_service(name: &str) -> Value {
    let port = json!([{"name": "http-metrics", "port": METRICS, "targetPort": METRICS}]);
    service(name, name, &port)
}

/// How the API server reaches admission. Webhooks are registered by `kai run` itself, with the certificate it makes.
fn admission_service(selected: &str) -> Value {
    let webhook = json!({"name": "webhook", "port": 443, "targetPort": WEBHOOKS});
    let metrics = json!({"name": "http-metrics", "port": METRICS, "targetPort": METRICS});
    let ports = if selected == PROCESS { json!([webhook]) } else { json!([webhook, metrics]) };
    service(Function::Admission.name(), selected, &ports)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::manifests;

    fn names<'a>(objects: &'a [Value], kind: &str) -> BTreeSet<&'a str> {
        let of_kind = objects.iter().filter(|object| object["kind"] == kind);
        of_kind.map(|object| object["metadata"]["name"].as_str().expect("a name")).collect()
    }

    #[test]
    fn every_deployment_has_an_account_that_is_installed() {
        let installed: Vec<Value> = serde_saphyr::from_multiple(&manifests::all()).expect("YAML");
        let accounts = names(&installed, "ServiceAccount");
        for layout in [Layout::Process, Layout::Functions] {
            let made = objects(layout, "kai:1");
            let deployments = names(&made, "Deployment");
            assert!(deployments.is_subset(&accounts), "{deployments:?} {accounts:?}");
            assert!(names(&made, "Service").contains("admission"));
        }
        assert_eq!(objects(Layout::Nothing, "kai:1"), Vec::<Value>::new());
    }

    #[test]
    fn functions_alone_are_all_functions() {
        let made = objects(Layout::Functions, "kai:1");
        let wanted: BTreeSet<&str> = Function::ALL.into_iter().map(Function::name).collect();
        assert_eq!(names(&made, "Deployment"), wanted);
        for deployment in made.iter().filter(|object| object["kind"] == "Deployment") {
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["args"][3], deployment["metadata"]["name"]);
            assert_eq!(container["image"], "kai:1");
        }
    }

    #[test]
    fn services_find_their_pods() {
        for layout in [Layout::Process, Layout::Functions] {
            let made = objects(layout, "kai:1");
            let deployments = names(&made, "Deployment");
            for service in made.iter().filter(|object| object["kind"] == "Service") {
                let selected = service["spec"]["selector"][APP].as_str().expect("a label");
                assert!(deployments.contains(selected), "{service}");
            }
        }
    }
}
