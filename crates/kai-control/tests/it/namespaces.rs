//! Labels of namespaces: pods that select by them, and grouping that follows them. A change takes effect at once.

use serde_json::{Value, json};

use crate::virtual_time::{Story, requests_of};
use crate::{node, pod, queue, times, writes};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/pods";
const BIND: &str = "POST /api/v1/namespaces/a/pods/p/binding";

fn namespace(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}})
}

fn story(namespace: Value, pod: Value) -> Story {
    let mut node = node("n1", "4");
    node["metadata"]["labels"] = json!({"kubernetes.io/hostname": "n1"});
    Story {
        objects: vec![
            ("/api/v1/nodes", node),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            (NAMESPACES, namespace),
            (PODS, pod),
        ],
        seconds: 60,
        ..Story::default()
    }
}

/// A pod that stays away from databases of the red team.
fn wary() -> Value {
    let mut wary = pod("p", "1");
    wary["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]},
    }]}});
    wary
}

/// A database in the namespace `b`, which another scheduler placed.
fn database() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "db", "namespace": "b", "uid": "uid-db", "labels": {"app": "db"}},
        "spec": {"schedulerName": "another", "nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    })
}

#[test]
fn pods_select_namespaces_by_the_labels_they_have_now() {
    let red = || namespace("b", &json!({"team": "red"}));
    let mut moved = story(red(), wary());
    moved.objects.push((PODS, database()));
    moved.later = vec![(30, NAMESPACES, namespace("b", &json!({"team": "blue"})))];
    let log = requests_of(moved);
    let bound = times(&writes(&log), BIND);
    assert!(matches!(bound[..], [at] if (30.0..30.1).contains(&at)), "{bound:?}");
    // A namespace that is gone has no labels.
    let mut gone = story(red(), wary());
    gone.objects.push((PODS, database()));
    gone.rewritten = vec![(40, NAMESPACES, Vec::new())];
    let log = requests_of(gone);
    let bound = times(&writes(&log), BIND);
    assert!(matches!(bound[..], [at] if (40.0..42.0).contains(&at)), "{bound:?}");
    // Other queues deny nothing.
    let log = requests_of(story(red(), wary()));
    assert!(times(&writes(&log), BIND)[0] < 0.1);
}

#[test]
fn pods_are_grouped_from_the_moment_their_namespace_has_the_labels() {
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"},
        "spec": {"global": {"namespaceLabelSelector": {"ai": "yes"}}}});
    let mut story = story(namespace("a", &json!({})), pod("p", "1"));
    story.objects.push(("/apis/kai.scheduler/v1/configs", config));
    story.later = vec![(30, NAMESPACES, namespace("a", &json!({"ai": "yes"})))];
    story.divided = true;
    let log = requests_of(story);
    let bound = times(&writes(&log), BIND);
    assert!(matches!(bound[..], [at] if (30.0..30.1).contains(&at)), "{bound:?}");
}
