//! The controllers in virtual time over a scripted API: the same script gives the same requests at the same moments.

mod api;
mod virtual_time;

use serde_json::{Value, json};

use crate::virtual_time::{Story, tell};

fn node(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {
        "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }})
}

fn queue() -> Value {
    let all = json!({"quota": 0, "limit": -1, "overQuotaWeight": 1});
    json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"},
        "spec": {"resources": {"cpu": all, "gpu": all, "memory": all}}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"kai.scheduler/queue": "q"},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending"},
    })
}

/// Two pods at the start, one of them too large; a larger node later. The first bind of each pod fails.
fn story() -> Story {
    Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            ("/api/v1/pods", pod("small", "1")),
            ("/api/v1/pods", pod("large", "4")),
        ],
        later: vec![(30, "/api/v1/nodes", node("n2", "4"))],
        failing_binds: 1,
        seconds: 100,
    }
}

/// Requests that change something.
fn writes(log: &[String]) -> Vec<&str> {
    log.iter().map(String::as_str).filter(|line| !line.contains(" GET ")).collect()
}

#[test]
fn the_same_story_gives_the_same_requests() {
    let first = tell(story());
    assert_eq!(first, tell(story()));
    let writes = writes(&first);
    let times = |what: &str| -> Vec<f64> {
        let lines = writes.iter().filter(|line| line.contains(what));
        lines
            .map(|line| line.split_once(' ').expect("a time").0.parse().expect("seconds"))
            .collect()
    };
    let small = times("POST /api/v1/namespaces/a/pods/small/binding");
    assert_eq!(small.len(), 2, "{writes:#?}");
    assert!(small[0] < 0.1, "a change is planned at once: {small:?}");
    assert!(
        (1.0..1.1).contains(&(small[1] - small[0])),
        "a failed bind is repeated after a second: {small:?}"
    );
    let large = times("POST /api/v1/namespaces/a/pods/large/binding");
    assert_eq!(large.len(), 2, "{writes:#?}");
    assert!((30.0..30.1).contains(&large[0]), "{large:?}");
    let group =
        times("PATCH /apis/scheduling.run.ai/v2alpha2/namespaces/a/podgroups/pg-large-uid-large");
    assert_eq!(group.len(), 1, "the pod that waits gets a group, once: {writes:#?}");
}

#[test]
fn an_idle_cluster_costs_nothing() {
    let story = Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
        ],
        later: Vec::new(),
        failing_binds: 0,
        seconds: 200,
    };
    let log = tell(story);
    let late: Vec<&String> = log
        .iter()
        .filter(|line| {
            line.split_once(' ')
                .is_some_and(|(time, _)| time.parse::<f64>().expect("seconds") > 1.0)
        })
        .filter(|line| !line.contains("noderesourcetopologies"))
        .collect();
    assert_eq!(late, Vec::<&String>::new());
    assert!(log.len() >= 18, "every kind is listed: {log:#?}");
}
