//! A burst of half-GPU pods: what is written for each, and in which order they are bound.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use kai_settings::planner::BindRequests;
use serde_json::{Value, json};

use crate::virtual_time::{GroupLabels, Story, play, requests_of};
use crate::{node, pod, queue, times, writes};

const NODES: usize = 16;
/// All GPUs of all nodes are shared by two pods.
const PODS: usize = NODES * 8 * 2;
/// Binds that may be written at a time.
const SLOTS: usize = 96;

fn name(number: usize) -> String {
    // Later pods come first in the order of names, which must not matter.
    format!("p{:04}", 9999 - number)
}

/// As admission leaves it: all variables come from the first map, so that the second is optional.
fn half(number: usize) -> Value {
    let name = name(number);
    let mut pod = pod(&name, "100m");
    let (minute, second) = (number / 60, number % 60);
    let map = format!("{name}-shared-gpu-0");
    let variable = |key: &str| json!({"name": key, "valueFrom": {"configMapKeyRef": {"name": map, "key": key}}});
    pod["metadata"]["creationTimestamp"] = json!(format!("2025-12-31T00:{minute:02}:{second:02}Z"));
    pod["metadata"]["annotations"] =
        json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": format!("{name}-shared-gpu")});
    let container = &mut pod["spec"]["containers"][0];
    container["env"] =
        json!(["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"].map(variable));
    container["envFrom"] =
        json!([{"configMapRef": {"name": format!("{map}-evar"), "optional": true}}]);
    pod
}

fn story() -> Story {
    let gpu_node = |number: usize| {
        let mut node = node(&format!("n{number:02}"), "64");
        node["status"]["allocatable"]["nvidia.com/gpu"] = json!("8");
        node["status"]["allocatable"]["pods"] = json!("100");
        node["metadata"]["labels"] =
            json!({"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "8"});
        ("/api/v1/nodes", node)
    };
    let mut objects: Vec<(&'static str, Value)> = (0..NODES).map(gpu_node).collect();
    objects.push(("/apis/scheduling.run.ai/v2/queues", queue()));
    objects.extend((0..PODS).map(|number| ("/api/v1/pods", half(number))));
    let answers = Duration::from_millis(20);
    Story { objects, agents: vec![0], write_answers: answers, seconds: 60, ..Story::default() }
}

/// Every request of the story, which takes seconds to play.
static LOG: LazyLock<Vec<String>> = LazyLock::new(|| requests_of(story()));

/// Method, kind and subresource of a request.
fn kind(line: &str) -> String {
    let mut words = line.split(' ').skip(1);
    let (method, uri) = (words.next().expect("a method"), words.next().expect("a path"));
    let path: Vec<&str> = uri.split('?').next().unwrap_or_default().split('/').skip(1).collect();
    let path = &path[if path[0] == "api" { 2 } else { 3 }..];
    let (namespace, path) = match path {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        other => ("", other),
    };
    let resource = match path {
        [kind, _, subresource] => format!("{kind}/{subresource}"),
        [kind, ..] => (*kind).to_owned(),
        [] => String::new(),
    };
    let of = if namespace == "kai-resource-reservation" { " of reservations" } else { "" };
    format!("{method} {resource}{of}")
}

fn count(writes: &[&str]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in writes {
        *counts.entry(kind(line)).or_default() += 1;
    }
    counts
}

/// Counts the writes: one of each of these kinds per pod, half a reservation pod, and at most two updates of each node.
fn assert_costs(log: &[String], kinds: &[&str]) {
    let writes = writes(log);
    let mut counts = count(&writes);
    for kind in kinds {
        assert_eq!(counts.remove(*kind), Some(PODS), "{kind}: {counts:#?}");
    }
    assert_eq!(counts.remove("POST pods of reservations"), Some(PODS / 2), "{counts:#?}");
    assert!(counts.remove("PATCH nodes").is_some_and(|count| count <= 2 * NODES), "{counts:#?}");
    counts.remove("PATCH queues/status");
    assert!(counts.is_empty(), "{counts:#?}");
}

#[test]
fn half_gpu_pod_costs_two_and_a_half_writes() {
    assert_costs(&LOG, &["POST configmaps", "POST pods/binding"]);
}

#[test]
fn half_gpu_pod_is_labelled_before_its_bind_or_after_it_where_the_bind_does_not_do_that() {
    for group_labels in [GroupLabels::Unsigned, GroupLabels::OldServer] {
        let (log, objects) = play(Story { group_labels, ..story() });
        assert_costs(&log, &["PATCH pods", "POST configmaps", "POST pods/binding"]);
        let place = |what: &str| log.iter().position(|line| line.contains(what));
        let label = place(&format!("PATCH /api/v1/namespaces/a/pods/{} ", name(0)));
        let bind = place(&format!("/pods/{}/binding", name(0)));
        let is_before = group_labels == GroupLabels::Unsigned;
        assert_eq!(label < bind, is_before, "label {label:?}, bind {bind:?}");
        let own = objects["/api/v1/pods"].iter().filter(|pod| pod["metadata"]["namespace"] == "a");
        let labels = own.map(|pod| &pod["metadata"]["labels"]["runai-gpu-group"]);
        assert_eq!(labels.filter(|label| label.is_string()).count(), PODS);
    }
}

#[test]
fn half_gpu_pod_with_a_bind_request_costs_five_and_a_half_writes() {
    let log = requests_of(Story { bind_requests: BindRequests::Always, ..story() });
    assert_costs(
        &log,
        &[
            "POST bindrequests",
            "PATCH pods",
            "POST configmaps",
            "POST pods/binding",
            "PATCH bindrequests/status",
        ],
    );
    let place = |what: &str| log.iter().position(|line| line.contains(what));
    let label = place(&format!("PATCH /api/v1/namespaces/a/pods/{} ", name(0)));
    let bind = place(&format!("/pods/{}/binding", name(0)));
    assert!(label < bind, "a scheduler that counts by labels never observes a bound pod without");
}

/// When each pod had its first write and its binding, as places in the log.
fn spans(writes: &[&str]) -> Vec<(usize, usize)> {
    let place = |what: String| writes.iter().position(|line| line.contains(&what));
    let map = |number| place(format!("\"name\":\"{}-shared-gpu-0\"", name(number)));
    let binding = |number| place(format!("/pods/{}/binding", name(number)));
    let span = |number| (map(number).expect("a config map"), binding(number).expect("a binding"));
    (0..PODS).map(span).collect()
}

#[test]
fn pods_are_bound_in_their_order_while_later_ones_are_still_prepared() {
    let writes = writes(&LOG);
    let spans = spans(&writes);
    let mut order: Vec<usize> = (0..PODS).collect();
    order.sort_by_key(|number| spans[*number].1);
    let late = order.iter().enumerate().map(|(place, number)| place.abs_diff(*number)).max();
    assert!(late.is_some_and(|late| late <= SLOTS), "{late:?} places late: {order:?}");
    let last_map = times(&writes, "/configmaps").last().copied().expect("config maps");
    let first_bind = times(&writes, "/binding ").first().copied().expect("binds");
    assert!(first_bind < last_map, "first bind {first_bind}, last config map {last_map}");
}

/// The bind request of a pod, as KAI's scheduler makes it: 16 pods on each node, two on each device.
fn request(number: usize) -> Value {
    let (name, node) = (name(number), format!("n{:02}", number / 16));
    let group = format!("group-{:03}", number / 2);
    json!({
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-request-{name}"), "labels": {"selected-node": node},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": format!("uid-{name}")}]},
        "spec": {"podName": name, "selectedNode": node, "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"}, "selectedGPUGroups": [group]},
        "status": {},
    })
}

#[test]
fn at_most_96_pods_are_between_their_first_write_and_their_bind() {
    // All requests are there at once, and four reservation pods of each node answer at the same moment: 128 pods could begin.
    let mut story = story();
    let requests =
        (0..PODS).map(|number| ("/apis/scheduling.run.ai/v1alpha2/bindrequests", request(number)));
    story.objects.extend(requests);
    let log = requests_of(story);
    let spans = spans(&writes(&log));
    let at_once = |at: usize| spans.iter().filter(|(from, to)| *from <= at && at < *to).count();
    let most = spans.iter().map(|(first, _)| at_once(*first)).max();
    assert_eq!(most, Some(SLOTS));
}
