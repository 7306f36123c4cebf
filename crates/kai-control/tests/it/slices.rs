//! Nodes that advertise each device several times: groups that get one device, and nodes that were oversold before.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::virtual_time::{Story, play};
use crate::{node, pod, queue, sharing_pod, times, writes};

const PODS: &str = "/api/v1/pods";

fn sliced_node(advertised: &str, labels: &Value) -> Value {
    let mut node = node("n1", "8");
    node["metadata"]["labels"] = labels.clone();
    node["status"]["allocatable"]["nvidia.com/gpu"] = json!(advertised);
    node["status"]["allocatable"]["pods"] = json!("110");
    node
}

fn sharing(name: &str, key: &str, value: &str) -> Value {
    sharing_pod(name, "100m", (key, value))
}

fn story(node: Value, pods: Vec<Value>, devices: &[&'static str]) -> Story {
    let mut objects = vec![("/api/v1/nodes", node), ("/apis/scheduling.run.ai/v2/queues", queue())];
    objects.extend(pods.into_iter().map(|pod| (PODS, pod)));
    let devices = devices.to_vec();
    Story { objects, agents: vec![1], devices, seconds: 200, ..Story::default() }
}

fn is_reservation(pod: &Value) -> bool {
    pod["metadata"]["namespace"] == "kai-resource-reservation"
}

fn named<'a>(pods: &'a [Value], name: &str) -> &'a Value {
    pods.iter().find(|pod| pod["metadata"]["name"] == name).expect("the pod")
}

/// The devices of reservations that are left.
fn reserved(pods: &[Value]) -> Vec<&str> {
    let mut devices: Vec<&str> = pods
        .iter()
        .filter(|pod| is_reservation(pod))
        .filter_map(|pod| pod["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"].as_str())
        .collect();
    devices.sort_unstable();
    devices
}

#[test]
fn a_group_that_got_the_device_of_another_is_given_one_of_its_own() {
    let node =
        sliced_node("20", &json!({"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "16000"}));
    let pods = vec![sharing("p1", "gpu-fraction", "0.75"), sharing("p2", "gpu-fraction", "0.75")];
    let devices = ["GPU-0", "GPU-0", "GPU-0", "GPU-1"];
    let (log, objects) = play(story(node, pods, &devices));
    let pods = &objects[PODS];
    let given: BTreeSet<&str> = ["p1", "p2"]
        .map(|name| {
            let pod = named(pods, name);
            assert_eq!(pod["spec"]["nodeName"], "n1", "{log:#?}");
            let given = pod["metadata"]["annotations"]["kai.scheduler/gpu-devices"].as_str();
            given.and_then(|given| given.split_once('=')).expect("a device").1
        })
        .into();
    assert_eq!(given, BTreeSet::from(["GPU-0", "GPU-1"]));
    assert_eq!(reserved(pods), ["GPU-0", "GPU-1"], "what was tried without success is gone");
}

#[test]
fn node_that_does_not_report_its_devices_is_named() {
    // Ten of one, and nothing says so: the second pod cannot have a device of its own, however often it tries.
    let pods = vec![sharing("p1", "gpu-fraction", "0.75"), sharing("p2", "gpu-fraction", "0.75")];
    let mut story = story(sliced_node("10", &json!({})), pods, &["GPU-0"]);
    story.gone = vec![(100, "/api/v1/namespaces/a/pods/p1")];
    let (log, objects) = play(story);
    let bound = times(&writes(&log), "/pods/p2/binding");
    assert!(bound.first().is_some_and(|second| *second >= 100.0), "{bound:?}");
    assert_eq!(reserved(&objects[PODS]), ["GPU-0"]);
}

fn kai_reservation(group: &str, created: &str) -> Value {
    let mut pod = pod(&format!("gpu-reservation-{group}"), "0");
    pod["metadata"]["namespace"] = json!("kai-resource-reservation");
    pod["metadata"]["creationTimestamp"] = json!(created);
    pod["metadata"]["labels"] =
        json!({"app": "kai-resource-reservation", "runai-gpu-group": group});
    pod["metadata"]["annotations"] = json!({"run.ai/reserve_for_gpu_index": "GPU-0"});
    pod["spec"] = json!({"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]});
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn kai_bound(name: &str, group: &str) -> Value {
    let mut pod = sharing(name, "gpu-memory", "8000");
    pod["metadata"]["labels"]["runai-gpu-group"] = json!(group);
    pod["spec"]["nodeName"] = json!("n1");
    pod["status"] = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
    pod
}

#[test]
fn a_node_that_was_oversold_takes_nothing_more_and_says_so() {
    let node =
        sliced_node("100", &json!({"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "32600"}));
    let mut pods = vec![
        kai_reservation("first", "2026-01-01T00:00:00Z"),
        kai_reservation("second", "2026-01-01T00:01:00Z"),
        kai_bound("e", "second"),
        sharing("late", "gpu-memory", "1000"),
    ];
    pods.extend(["a", "b", "c", "d"].map(|name| kai_bound(name, "first")));
    let (log, objects) = play(Story { seconds: 60, ..story(node, pods, &["GPU-0"]) });
    let pods = &objects[PODS];
    let late = named(pods, "late");
    assert!(late["spec"].get("nodeName").is_none(), "{late:#}");
    let message = late["status"]["conditions"][0]["message"].as_str().expect("a reason");
    assert!(message.contains("40000 of 32600 MiB used by 5 pods"), "{message}");
    assert!(
        message.contains("More of it was given away than it has: nothing more fits."),
        "{message}"
    );
    // What runs is left alone.
    assert_eq!(pods.len(), 8);
    let touched: Vec<_> =
        log.iter().filter(|entry| entry.contains("eviction") || entry.contains("DELETE")).collect();
    assert!(touched.is_empty(), "{touched:#?}");
}

/// The device that a pod was given.
fn given<'a>(pods: &'a [Value], name: &str) -> (&'a str, &'a str) {
    let annotation = &named(pods, name)["metadata"]["annotations"]["kai.scheduler/gpu-devices"];
    annotation.as_str().and_then(|given| given.split_once('=')).expect("a group and its device")
}

#[test]
fn memory_is_summed_before_every_bind() {
    let labels = json!({"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "16000"});
    let request = json!({
        "metadata": {"name": "x", "namespace": "a", "uid": "uid-request", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"podName": "x", "selectedNode": "n1", "selectedGPUGroups": ["first"],
            "receivedResourceType": "Fraction", "receivedGPU": {"count": 1, "portion": "0.5"}},
    });
    let pods = vec![
        kai_reservation("first", "2026-01-01T00:00:00Z"),
        kai_bound("a", "first"),
        kai_bound("b", "first"),
        sharing("x", "gpu-memory", "8000"),
    ];
    let mut story = story(sliced_node("20", &labels), pods, &["GPU-1"]);
    story.objects.push(("/apis/scheduling.run.ai/v1alpha2/bindrequests", request));
    let (log, objects) = play(story);
    let refused = "16000 of 16000 MiB used by 2 pods, 8000 MiB requested";
    assert!(writes(&log).iter().any(|line| line.contains(refused)), "{log:#?}");
    // It is planned again, and gets a device with enough free memory.
    assert_eq!(given(&objects[PODS], "x").1, "GPU-1", "{log:#?}");
}

#[test]
fn who_waited_for_a_device_of_its_own_joins_the_group_that_has_it() {
    // One device and nothing says so: the second pod gets the device of the first, and is released.
    let pods = vec![sharing("p1", "gpu-fraction", "0.6"), sharing("p2", "gpu-fraction", "0.5")];
    let mut story = story(sliced_node("10", &json!({})), pods, &["GPU-0"]);
    story.later = vec![(80, PODS, sharing("p3", "gpu-fraction", "0.4"))];
    story.gone = vec![(120, "/api/v1/namespaces/a/pods/p1")];
    let (log, objects) = play(story);
    let pods = &objects[PODS];
    assert_eq!(given(pods, "p3").1, "GPU-0", "{log:#?}");
    assert_eq!(given(pods, "p2"), given(pods, "p3"), "they are one group");
    assert_eq!(reserved(pods), ["GPU-0"]);
}
