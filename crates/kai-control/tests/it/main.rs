//! The controllers in virtual time over a scripted API: the same script gives the same requests at the same moments.

mod admission;
mod api;
mod bind_requests;
mod binder;
mod bootstrap;
mod budget_delays;
mod compute_modes;
mod contested_nodes;
mod evictions;
mod explained;
mod gpu_discovery;
mod hostile;
mod interrupted_writes;
mod leases;
mod local_binds;
mod namespaces;
mod numa;
mod pages;
mod published_groups;
mod releases;
mod reservations;
mod scale_adjuster;
mod shards;
mod shared_fill;
mod slices;
mod statuses;
mod ungrouped;
mod usage;
mod virtual_time;

use std::collections::BTreeMap;

use kai_client::watch::Lists;
use kai_settings::planner::BindRequests;
use serde_json::{Value, json};

use crate::api::Fault;
use crate::virtual_time::{Story, requests_of};

const BIND_REQUESTS: &str = "/apis/scheduling.run.ai/v1alpha2/bindrequests";

/// Where bind requests live: in the process, or all of them in the API server.
const HOMES: [BindRequests; 2] = [BindRequests::Needed, BindRequests::Always];

/// The bind requests that there are in the end. None are objects where they live in the process.
fn bind_requests_of(objects: &BTreeMap<String, Vec<Value>>) -> &[Value] {
    objects.get(BIND_REQUESTS).map_or(&[], Vec::as_slice)
}

/// All bind requests went well, and there are as many objects as there should be of this many pods.
fn assert_succeeded(
    objects: &BTreeMap<String, Vec<Value>>,
    home: BindRequests,
    pods: usize,
    what: &str,
) {
    let requests = bind_requests_of(objects);
    let expected = if home == BindRequests::Always { pods } else { 0 };
    assert_eq!(requests.len(), expected, "{what}");
    assert!(requests.iter().all(|one| one["status"]["phase"] == "Succeeded"), "{what}");
}

/// Requests that are refused so many times.
fn fault(method: &'static str, path: &'static str, code: u16, times: u32) -> Fault {
    Fault { method, path, code, times, carried_out: false }
}

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

/// A node with this many devices.
fn gpu_node(name: &str, devices: &str) -> Value {
    let mut node = node(name, "8");
    node["status"]["allocatable"]["nvidia.com/gpu"] = json!(devices);
    node
}

/// The node `n1` with this many devices and these labels.
fn labelled_gpu_node(devices: &str, labels: &Value) -> Value {
    let mut node = gpu_node("n1", devices);
    node["metadata"]["labels"] = labels.clone();
    node["status"]["allocatable"]["pods"] = json!("110");
    node
}

/// A pod with this annotation that requests a share of a GPU, as admission would leave it.
fn sharing_pod(name: &str, cpu: &str, (key, value): (&str, &str)) -> Value {
    let mut pod = pod(name, cpu);
    let prefix = format!("{name}-shared-gpu");
    pod["metadata"]["annotations"] = json!({key: value, "runai/shared-gpu-configmap": prefix});
    let maps = [format!("{prefix}-0"), format!("{prefix}-0-evar")];
    pod["spec"]["containers"][0]["envFrom"] =
        json!(maps.map(|map| json!({"configMapRef": {"name": map, "optional": false}})));
    pod
}

/// Two pods at the start, one of them too large, among objects that make no sense; a larger node later. The first bind of each pod fails.
fn story() -> Story {
    Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            (
                "/apis/scheduling.run.ai/v2/queues",
                json!({"metadata": {"name": "bad"}, "spec": {"priority": "high"}}),
            ),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            (
                "/apis/scheduling.run.ai/v2alpha2/podgroups",
                json!({"metadata": {"name": "bad", "namespace": "a"}, "spec": 7}),
            ),
            ("/api/v1/pods", pod("small", "1")),
            ("/api/v1/pods", pod("large", "4")),
        ],
        later: vec![(30, "/api/v1/nodes", node("n2", "4"))],
        faults: vec![
            fault("POST", "pods/small/binding", 500, 1),
            fault("POST", "pods/large/binding", 500, 1),
        ],
        seconds: 100,
        ..Story::default()
    }
}

/// Requests that change something.
fn writes(log: &[String]) -> Vec<&str> {
    log.iter().map(String::as_str).filter(|line| !line.contains(" GET ")).collect()
}

/// The seconds at which a request was made.
fn times(log: &[&str], what: &str) -> Vec<f64> {
    let lines = log.iter().filter(|line| line.contains(what));
    lines.map(|line| line.split_once(' ').expect("a time").0.parse().expect("seconds")).collect()
}

#[test]
fn the_same_story_gives_the_same_requests() {
    let first = requests_of(story()); // which plays it twice
    let writes = writes(&first);
    let small = times(&writes, "POST /api/v1/namespaces/a/pods/small/binding");
    assert_eq!(small.len(), 2, "{writes:#?}");
    assert!(small[0] < 0.1, "a change is planned at once: {small:?}");
    assert!(
        (1.0..1.1).contains(&(small[1] - small[0])),
        "a failed bind is repeated after a second: {small:?}"
    );
    let large = times(&writes, "POST /api/v1/namespaces/a/pods/large/binding");
    assert_eq!(large.len(), 2, "{writes:#?}");
    assert!((30.0..30.1).contains(&large[0]), "{large:?}");
    let group = times(
        &writes,
        "PATCH /apis/scheduling.run.ai/v2alpha2/namespaces/a/podgroups/pg-large-uid-large?field",
    );
    assert_eq!(group.len(), 1, "the pod that waits gets a group, once: {writes:#?}");
}

#[test]
fn an_idle_cluster_costs_nothing() {
    let story = Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
        ],
        seconds: 200,
        ..Story::default()
    };
    let log = requests_of(story);
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

/// A pod that runs on a node.
fn running(name: &str, cpu: &str, node: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"]["phase"] = json!("Running");
    pod
}

/// Requests that ask for what exists.
fn asked(log: &[String], what: &str) -> usize {
    log.iter().filter(|line| line.contains("GET /api/v1/nodes?") && line.contains(what)).count()
}

#[test]
fn what_exists_is_learnt_by_streams_or_by_pages_and_the_writes_are_the_same() {
    let streamed = requests_of(story());
    let refused = requests_of(Story { no_streams: true, ..story() });
    let paged = requests_of(Story { lists: Lists::Paged, ..story() });
    assert_eq!((asked(&streamed, "sendInitialEvents"), asked(&streamed, "limit=")), (1, 0));
    assert_eq!((asked(&refused, "sendInitialEvents"), asked(&refused, "limit=")), (1, 1));
    assert_eq!((asked(&paged, "sendInitialEvents"), asked(&paged, "limit=")), (0, 1));
    assert_eq!(writes(&streamed), writes(&paged));
    assert_eq!(writes(&streamed), writes(&refused));
}

#[test]
fn what_happens_while_a_watch_is_cut_is_not_missed() {
    for lists in [Lists::Streamed, Lists::Paged] {
        nothing_is_missed(lists);
    }
}

fn nothing_is_missed(lists: Lists) {
    let log = requests_of(Story {
        lists,
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            ("/api/v1/pods", running("holder", "2", "n1")),
        ],
        // The pod that held the node is gone, another has come, and no event reports either.
        rewritten: vec![(20, "/api/v1/pods", vec![pod("late", "2")])],
        seconds: 40,
        ..Story::default()
    });
    let bound = times(&writes(&log), "pods/late/binding");
    assert_eq!(bound.len(), 1, "{log:#?}");
    assert!((20.0..21.0).contains(&bound[0]), "{bound:?}");
}

fn class(name: &str, value: i32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value})
}

/// A pod of this priority class.
fn of_class(name: &str, cpu: &str, class: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["metadata"]["labels"]["priorityClassName"] = json!(class);
    pod
}

/// A waiting pod gets an object of its group after a while; its place in the line is that of the pod.
#[test]
fn waiting_is_not_lost_when_the_group_is_written() {
    let mut second = pod("second", "2");
    second["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:03Z");
    let log = requests_of(Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            ("/api/v1/pods", running("holder", "2", "n1")),
            ("/api/v1/pods", pod("first", "2")),
        ],
        later: vec![(3, "/api/v1/pods", second)],
        gone: vec![(7, "/api/v1/namespaces/a/pods/holder")],
        seconds: 20,
        ..Story::default()
    });
    let writes = writes(&log);
    assert_eq!(times(&writes, "podgroups/pg-first-uid-first?").len(), 1, "{writes:#?}");
    assert_eq!(times(&writes, "pods/first/binding").len(), 1, "{writes:#?}");
    assert!(times(&writes, "pods/second/binding").is_empty(), "{writes:#?}");
}

/// Its node never reports that it accepted the pod: it is protected from the moment it was bound.
#[test]
fn a_minimal_runtime_counts_from_the_bind() {
    let mut patient = queue();
    patient["spec"]["preemptMinRuntime"] = json!("20s");
    let log = requests_of(Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", patient),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", class("train", 50)),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", class("urgent", 75)),
            ("/api/v1/pods", of_class("holder", "2", "train")),
        ],
        later: vec![(5, "/api/v1/pods", of_class("taker", "2", "urgent"))],
        seconds: 30,
        ..Story::default()
    });
    let evicted = times(&writes(&log), "pods/holder/eviction");
    assert_eq!(evicted.len(), 1, "{log:#?}");
    assert!((20.0..20.5).contains(&evicted[0]), "{evicted:?}");
}
