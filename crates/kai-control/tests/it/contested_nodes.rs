//! Pods of other schedulers that are bound to a node at the same time as ours.

use kai_settings::planner::BindRequests;
use serde_json::{Value, json};

use crate::api::{Moment, Race};
use crate::virtual_time::{Story, play};
use crate::{HOMES, fault, gpu_node, pod, queue, sharing_pod, times, writes};

const PODS: &str = "/api/v1/pods";
const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2/podgroups";

fn gpu_pod(name: &str) -> Value {
    let mut pod = pod(name, "100m");
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}});
    pod
}

/// A pod with a controller, which names its group.
fn controlled(name: &str) -> Value {
    let mut pod = gpu_pod(name);
    pod["metadata"]["annotations"] = json!({"pod-group-name": "group"});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "name": "set", "uid": "uid-set", "controller": true}]);
    pod
}

/// A pod of another scheduler on the node.
fn foreign(name: &str, node: &str) -> Value {
    let mut pod = gpu_pod(name);
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    pod["spec"]["nodeName"] = json!(node);
    pod["metadata"]["labels"] = json!({});
    pod
}

fn group() -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "group", "namespace": "a", "uid": "group", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"minMember": 1, "queue": "q"}})
}

/// One node with one GPU, and this pod for it.
fn story(ours: Value) -> Story {
    Story {
        objects: vec![
            ("/api/v1/nodes", gpu_node("n1", "1")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            (GROUPS, group()),
            (PODS, ours),
        ],
        seconds: 20,
        ..Story::default()
    }
}

/// The other pod appears around our bind.
fn race(moment: Moment) -> Vec<Race> {
    let request = ("POST", "pods/ours/binding");
    vec![Race { request, moment, object: (PODS, foreign("other", "n1")) }]
}

fn names_on<'a>(objects: &'a [Value], node: &str) -> Vec<&'a str> {
    let there = objects.iter().filter(|pod| {
        pod["spec"]["nodeName"] == node && pod["metadata"]["deletionTimestamp"].is_null()
    });
    there.filter_map(|pod| pod["metadata"]["name"].as_str()).collect()
}

#[test]
fn a_bind_that_races_with_another_schedulers_is_reverted_within_a_second_in_either_order() {
    for moment in [Moment::Before, Moment::After] {
        let (log, objects) = play(Story { races: race(moment), ..story(controlled("ours")) });
        let writes = writes(&log);
        let bound = times(&writes, "pods/ours/binding");
        let evicted = times(&writes, "pods/ours/eviction");
        assert_eq!((bound.len(), evicted.len()), (1, 1), "{writes:#?}");
        assert!(evicted[0] - bound[0] < 1.0, "{writes:#?}");
        let names_uid =
            |line: &&str| line.contains("/eviction ") && line.contains(r#""uid":"uid-ours""#);
        assert!(writes.iter().any(names_uid), "{writes:#?}");
        let events: Vec<&&str> =
            writes.iter().filter(|line| line.contains("ContestedNode")).collect();
        assert_eq!(events.len(), 1, "{writes:#?}");
        assert!(events[0].contains("pod a/other of another scheduler was bound to node n1 at the same time, and the node has too few GPUs for both"), "{events:?}");
        assert_eq!(names_on(&objects[PODS], "n1"), ["other"]);
    }
}

#[test]
fn a_pod_of_another_scheduler_that_comes_while_ours_has_not_started_reverts_our_bind() {
    let later = vec![(5, PODS, foreign("other", "n1"))];
    let (log, objects) = play(Story { later, ..story(controlled("ours")) });
    let evicted = times(&writes(&log), "pods/ours/eviction");
    assert_eq!(evicted.len(), 1, "{log:#?}");
    assert!((5.0..6.0).contains(&evicted[0]), "{evicted:?}");
    assert_eq!(names_on(&objects[PODS], "n1"), ["other"]);
}

#[test]
fn a_pod_that_its_node_has_started_stays() {
    let mut started = controlled("ours");
    started["spec"]["nodeName"] = json!("n1");
    started["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
    let later = vec![(5, PODS, foreign("other", "n1"))];
    let (log, _) = play(Story { later, ..story(started) });
    assert!(times(&writes(&log), "/eviction").is_empty(), "{log:#?}");
}

#[test]
fn a_bind_stays_where_the_other_pod_has_too_little_in_any_case() {
    let mut large = foreign("other", "n1");
    large["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("2");
    let later = vec![(5, PODS, large)];
    let (log, _) = play(Story { later, ..story(controlled("ours")) });
    assert!(times(&writes(&log), "/eviction").is_empty(), "{log:#?}");
}

#[test]
fn only_the_latest_bind_is_reverted_where_one_is_enough() {
    let mut place = gpu_node("n1", "1");
    place["status"]["allocatable"]["nvidia.com/gpu"] = json!("2");
    let mut first = controlled("first");
    first["metadata"]["uid"] = json!("uid-zz");
    let objects = vec![
        ("/api/v1/nodes", place),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        (GROUPS, group()),
        (PODS, first),
    ];
    let later = vec![(2, PODS, controlled("second")), (5, PODS, foreign("other", "n1"))];
    let (log, objects) = play(Story { objects, later, seconds: 20, ..Story::default() });
    let evicted = times(&writes(&log), "/eviction");
    assert_eq!(evicted.len(), 1, "{log:#?}");
    assert_eq!(names_on(&objects[PODS], "n1"), ["first", "other"]);
}

#[test]
fn an_eviction_that_the_server_refuses_is_tried_again() {
    let faults = vec![fault("POST", "pods/ours/eviction", 500, 1)];
    let (log, objects) =
        play(Story { faults, races: race(Moment::After), ..story(controlled("ours")) });
    assert!(times(&writes(&log), "pods/ours/eviction").len() >= 2, "{log:#?}");
    assert_eq!(names_on(&objects[PODS], "n1"), ["other"]);
}

#[test]
fn a_pod_without_a_controller_is_left_to_its_node_and_its_rejection_is_explained() {
    let mut rejected = gpu_pod("ours");
    rejected["spec"]["nodeName"] = json!("n1");
    rejected["status"] = json!({"phase": "Failed", "reason": "OutOfnvidia.com/gpu",
        "message": "Node didn't have enough resource: nvidia.com/gpu", "startTime": "2026-01-01T00:00:03Z"});
    let later = vec![(3, PODS, rejected)];
    let (log, _) = play(Story { races: race(Moment::After), later, ..story(gpu_pod("ours")) });
    let writes = writes(&log);
    assert!(times(&writes, "/eviction").is_empty(), "{writes:#?}");
    let events: Vec<&&str> = writes.iter().filter(|line| line.contains("ContestedNode")).collect();
    assert_eq!(events.len(), 2, "{writes:#?}");
    assert!(events[0].contains("The node decides which of them runs"), "{events:?}");
    assert!(events[1].contains("node n1 rejected the pod (OutOfnvidia.com/gpu): pod a/other of another scheduler took the capacity at the same time. A pod without a controller does not come back: create it again"), "{events:?}");
}

#[test]
fn a_bind_request_to_a_contested_node_is_withdrawn_and_the_pod_goes_elsewhere() {
    HOMES.into_iter().for_each(assert_withdrawn);
}

fn assert_withdrawn(bind_requests: BindRequests) {
    let mut start = story(sharing_pod("ours", "100m", ("gpu-fraction", "0.5")));
    start.objects.push(("/api/v1/nodes", gpu_node("n2", "1")));
    // The reservation pod takes three seconds; meanwhile the GPU goes to another pod.
    let (log, objects) = play(Story {
        agents: vec![3],
        later: vec![(1, PODS, foreign("other", "n1"))],
        seconds: 40,
        bind_requests,
        ..start
    });
    let writes = writes(&log);
    if bind_requests == BindRequests::Always {
        let count = |what: &str| times(&writes, what).len();
        let path = "/apis/scheduling.run.ai/v1alpha2/namespaces/a/bindrequests";
        assert_eq!(count(&format!("POST {path}")), 2, "{writes:#?}");
        assert_eq!(count(&format!("DELETE {path}/ours")), 1, "{writes:#?}");
    }
    assert_eq!(times(&writes, "pods/ours/binding").len(), 1, "{writes:#?}");
    assert!(names_on(&objects[PODS], "n2").contains(&"ours"), "{writes:#?}");
}
