//! A disruption budget delays the reclaim of over-quota work, and does not end it.

use serde_json::{Value, json};

use crate::virtual_time::{Story, play, requests_of};
use crate::{node, pod, queue, running, times, writes};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";
const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2/podgroups";

fn queue_of(name: &str) -> Value {
    let mut queue = queue();
    queue["metadata"]["name"] = json!(name);
    queue["spec"]["resources"]["cpu"]["quota"] = json!(1000);
    queue
}

/// A budget that allows nothing.
fn budget(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "a", "generation": 1},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}})
}

fn of_queue(mut pod: Value, queue: &str) -> Value {
    pod["metadata"]["labels"] = json!({"kai.scheduler/queue": queue, "app": "web"});
    pod
}

/// Two pods of one queue fill the node, one of them over quota; a pod of another queue is owed the other half.
fn stubborn() -> Story {
    let wants = of_queue(pod("wants", "1"), "owed");
    Story {
        objects: vec![
            (NODES, node("n1", "2")),
            (QUEUES, queue_of("greedy")),
            (QUEUES, queue_of("owed")),
            (BUDGETS, budget("keep")),
            (PODS, of_queue(running("one", "1", "n1"), "greedy")),
            (PODS, of_queue(running("two", "1", "n1"), "greedy")),
            (PODS, wants),
        ],
        seconds: 620,
        ..Story::default()
    }
}

#[test]
fn over_quota_work_that_a_budget_protects_is_deleted_when_the_delay_has_elapsed() {
    let log = requests_of(stubborn());
    let writes = writes(&log);
    let marked = times(&writes, r#""kai.scheduler/reclaim-delayed-since":"2026"#);
    assert_eq!(marked.len(), 1, "the clock starts once: {writes:#?}");
    let cleared = times(&writes, r#""kai.scheduler/reclaim-delayed-since":null"#);
    assert_eq!(cleared.len(), 1, "and ends with the bind: {writes:#?}");
    let deleted = times(&writes, "DELETE /api/v1/namespaces/a/pods/");
    assert_eq!(deleted.len(), 1, "one victim is enough: {writes:#?}");
    let waited = deleted[0] - marked[0];
    assert!((598.0..602.0).contains(&waited), "after ten minutes: {waited}");
    assert!(times(&writes, "/eviction").is_empty(), "{writes:#?}");
    let says = |text: &str| writes.iter().any(|line| line.contains(text));
    assert!(says("Disruption budgets prevent reclaim until 2026-01-01T00:10:0"), "{writes:#?}");
    assert!(says(": a/keep"), "the reason names the budget: {writes:#?}");
    let event = "Disruption budget a/keep delayed the reclaim as long as it may";
    let is_warning = |line: &&&str| line.contains(event) && line.contains("\"type\":\"Warning\"");
    assert!(writes.iter().any(|line| is_warning(&line)), "{writes:#?}");
}

#[test]
fn another_budget_and_a_restart_do_not_start_the_delay_anew() {
    let later = vec![(300, BUDGETS, budget("keep-again"))];
    let gone = vec![(301, "/apis/policy/v1/namespaces/a/poddisruptionbudgets/keep")];
    let (log, objects) = play(Story { later, gone, seconds: 400, ..stubborn() });
    assert!(times(&writes(&log), "DELETE /api/v1/namespaces/a/pods/").is_empty());
    // Another process goes on, four hundred seconds later by the objects and at the beginning by its clock.
    let mut group = objects[GROUPS][0].clone();
    let since = &mut group["metadata"]["annotations"]["kai.scheduler/reclaim-delayed-since"];
    assert!(since.is_string(), "{since}");
    *since = json!("2025-12-31T23:53:20Z");
    let mut story = stubborn();
    story.objects.retain(|(list, _)| *list != BUDGETS);
    story.objects.extend([(BUDGETS, budget("keep-again")), (GROUPS, group)]);
    let log = requests_of(Story { seconds: 300, ..story });
    let deleted = times(&writes(&log), "DELETE /api/v1/namespaces/a/pods/");
    assert!(matches!(deleted[..], [at] if (199.0..202.0).contains(&at)), "{deleted:?}");
}

#[test]
fn an_owner_cannot_start_the_clock_of_its_group() {
    let mut story = stubborn();
    for (list, object) in &mut story.objects {
        if *list == PODS && object["metadata"]["name"] == "wants" {
            object["metadata"]["annotations"] =
                json!({"kai.scheduler/reclaim-delayed-since": "2020-01-01T00:00:00Z"});
        }
    }
    let log = requests_of(Story { seconds: 60, ..story });
    assert!(times(&writes(&log), "DELETE /api/v1/namespaces/a/pods/").is_empty());
}

#[test]
fn a_budget_protects_forever_where_that_is_configured() {
    let log = requests_of(Story {
        flags: vec![("disruption-budget-delay", "forever")],
        seconds: 2000,
        ..stubborn()
    });
    let writes = writes(&log);
    assert!(times(&writes, "DELETE /api/v1/namespaces/a/pods/").is_empty(), "{writes:#?}");
    assert!(times(&writes, "reclaim-delayed-since").is_empty(), "{writes:#?}");
    assert!(writes.iter().any(|line| line.contains("Disruption budgets prevent reclaim: a/keep")));
}
