//! Registered webhooks are called, and their answers are applied.

use kai_embed::Cluster;
use kai_embed::admission::{Question, Webhooks};
use kai_embed::api::{Answer, Request};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn now() -> k8s_openapi::jiff::Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// A cluster with a webhook of each stage about config maps; `policy` applies when the webhook does not answer.
fn cluster(path: &str, policy: &str) -> Cluster {
    let mut cluster = Cluster::new(1, now());
    cluster.set_webhooks(Webhooks::new(|question, _| answer(question)));
    let hook = |operations: Value, path: &str| {
        json!({
            "name": "maps.example.com", "failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "default", "name": "hooks", "path": path}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": operations}],
            "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]},
            "matchConditions": [{"name": "asked", "expression": "object == null || object.metadata.name != 'spared'"}],
        })
    };
    for (kind, operations, path) in [
        ("MutatingWebhookConfiguration", json!(["CREATE"]), "/mutate"),
        ("ValidatingWebhookConfiguration", json!(["CREATE", "UPDATE", "DELETE"]), path),
    ] {
        let registration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "hooks"}, "webhooks": [hook(operations, path)]});
        cluster.make(&registration).expect("a registration");
    }
    cluster
}

fn answer(question: &Question<'_>) -> Option<Value> {
    let is_bad = |object: &Value| object["data"]["bad"].is_string();
    let response = match (question.path, question.operation) {
        // [{"op":"add","path":"/data","value":{"added":"1"}}]
        ("/mutate", _) => {
            json!({"allowed": true, "patchType": "JSONPatch", "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEiLCJ2YWx1ZSI6eyJhZGRlZCI6IjEifX1d"})
        }
        ("/validate", "DELETE") => {
            json!({"allowed": false, "status": {"code": 403, "message": "it stays"}})
        }
        ("/validate", _) if question.object.is_some_and(is_bad) => {
            json!({"allowed": false, "status": {"code": 403, "message": "bad data"}})
        }
        ("/validate", _) => json!({"allowed": true, "warnings": ["take care"]}),
        _ => return None,
    };
    Some(json!({"response": response}))
}

fn send(
    cluster: &mut Cluster,
    method: &str,
    path: &str,
    object: &Value,
) -> (u16, Value, Vec<String>) {
    match cluster.request(&Request::send(method, path, object), now()) {
        Answer::Object { code, object, warnings } => {
            (code, std::sync::Arc::unwrap_or_clone(object), warnings)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn webhooks_change_warn_and_deny() {
    let mut cluster = cluster("/validate", "Fail");
    let (code, made, warnings) =
        send(&mut cluster, "POST", MAPS, &json!({"metadata": {"name": "m"}}));
    assert_eq!((code, &made["data"]), (201, &json!({"added": "1"})));
    assert_eq!(warnings, ["take care"]);
    let path = format!("{MAPS}/m");
    let (code, denied, _) =
        send(&mut cluster, "PUT", &path, &json!({"metadata": {"name": "m"}, "data": {"bad": "1"}}));
    assert_eq!(code, 403);
    assert_eq!(
        denied["message"],
        "admission webhook \"maps.example.com\" denied the request: bad data"
    );
    assert_eq!(send(&mut cluster, "DELETE", &path, &Value::Null).0, 403);
}

#[test]
fn only_matching_webhooks_are_called() {
    let mut cluster = cluster("/validate", "Fail");
    let (_, spared, warnings) =
        send(&mut cluster, "POST", MAPS, &json!({"metadata": {"name": "spared"}}));
    assert_eq!((&spared["data"], warnings.len()), (&Value::Null, 0));
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    let (_, made, _) = send(&mut cluster, "POST", elsewhere, &json!({"metadata": {"name": "m"}}));
    assert_eq!(made["data"], Value::Null);
}

#[test]
fn silence_counts_as_the_policy_says() {
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(send(&mut cluster("/absent", "Ignore"), "POST", MAPS, &map).0, 201);
    let (code, answer, _) = send(&mut cluster("/absent", "Fail"), "POST", MAPS, &map);
    assert_eq!(code, 500, "{answer}");
}
