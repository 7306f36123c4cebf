//! Bind requests field by field: those that KAI's scheduler makes are carried out here, and ours are as it would make them.

use kai_settings::planner::BindRequests;
use serde_json::{Value, json};

use crate::virtual_time::{GroupLabels, Story, play, requests_of};
use crate::{HOMES, fault, gpu_node, pod, queue, running, sharing_pod, times, writes};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
const REQUESTS: &str = "/apis/scheduling.run.ai/v1alpha2/bindrequests";
const CONFIG_MAPS: &str = "/api/v1/configmaps";

/// A pod that wants half a device, as admission would leave it.
fn half(name: &str) -> Value {
    sharing_pod(name, "1", ("gpu-fraction", "0.5"))
}

/// A request for the pod `p` as KAI's scheduler makes it.
fn of_kai(name: &str, node: &str, spec: &Value) -> Value {
    let mut request = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": name, "namespace": "a", "uid": "uid-request", "labels": {"selected-node": node},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}]},
        "spec": spec,
        "status": {},
    });
    request["spec"]["podName"] = json!("p");
    request["spec"]["selectedNode"] = json!(node);
    request
}

fn story(pod: Value, requests: Vec<Value>) -> Story {
    let mut objects = vec![
        (NODES, gpu_node("n1", "2")),
        (NODES, gpu_node("n2", "2")),
        (QUEUES, queue()),
        (PODS, pod),
    ];
    objects.extend(requests.into_iter().map(|request| (REQUESTS, request)));
    Story { objects, agents: vec![0], seconds: 60, ..Story::default() }
}

fn regular() -> Value {
    json!({"receivedResourceType": "Regular", "receivedGPU": {"count": 0, "portion": "0.00"}})
}

#[test]
fn a_request_of_kais_scheduler_is_carried_out_whatever_its_name() {
    for (name, kind) in [("p", regular()), ("p-x7f2k", regular()), ("p", json!({}))] {
        for node in ["n1", "n2"] {
            let request = of_kai(name, node, &kind);
            let (log, objects) = play(story(pod("p", "1"), vec![request]));
            let bound = &objects[PODS][0];
            assert_eq!(bound["spec"]["nodeName"], node, "{log:#?}");
            assert_eq!(bound["metadata"]["annotations"]["received-resource-type"], "Regular");
            assert_eq!(objects[REQUESTS][0]["status"]["phase"], "Succeeded");
            let writes = writes(&log);
            assert_eq!(
                times(&writes, "/binding").len(),
                1,
                "no other process binds it: {writes:#?}"
            );
            assert!(times(&writes, "POST /apis/scheduling.run.ai").is_empty(), "{writes:#?}");
        }
    }
}

#[test]
fn a_share_that_kais_scheduler_gave_is_handed_over() {
    let group = "6c1b6a3e-7f0a-4f2e-9a52-7d1f5f3b7a11";
    // As of KAI 0.18, and before it.
    let newer = json!([{"id": group, "computeSharingMode": "time-slicing"}]);
    for (key, groups) in
        [("selectedGPUGroups", json!([group])), ("selectedFractionalGpuGroups", newer)]
    {
        let share = json!({
            "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"},
            key: groups,
        });
        let (_, objects) = play(story(half("p"), vec![of_kai("p", "n2", &share)]));
        let named = |pod: &&Value| pod["metadata"]["name"] == "p";
        let bound = objects[PODS].iter().find(named).expect("the pod");
        assert_eq!(bound["spec"]["nodeName"], "n2", "{key}");
        assert_eq!(bound["metadata"]["labels"]["runai-gpu-group"], group);
        let reservation = objects[PODS].iter().find(|pod| pod["metadata"]["namespace"] != "a");
        let reservation = reservation.expect("a reservation");
        assert_eq!(reservation["metadata"]["labels"]["runai-gpu-group"], group);
        let map =
            objects[CONFIG_MAPS].iter().find(|map| map["metadata"]["name"] == "p-shared-gpu-0");
        assert_eq!(map.expect("a map")["data"]["GPU_PORTION"], "0.50");
    }
}

#[test]
fn a_request_for_a_contradictory_pod_fails_and_reserves_nothing() {
    let share = json!({
        "receivedResourceType": "Fraction",
        "receivedGPU": {"count": 1, "portion": "0.50"},
        "selectedGPUGroups": ["g"],
    });
    let mut two = half("p");
    two["metadata"]["annotations"]["gpu-memory"] = json!("8000");
    let mut whole = half("p");
    whole["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
    for (pod, why) in [
        (two, "metadata.annotations[gpu-memory]: cannot request both GPU and GPU memory"),
        (
            whole,
            "metadata.annotations[gpu-fraction]: cannot have both GPU fraction request and whole GPU resource request/limit",
        ),
    ] {
        let request = of_kai("p", "n2", &share);
        let (log, objects) = play(story(pod, vec![request]));
        assert_eq!(objects[PODS].len(), 1, "no reservation pod: {:#?}", objects[PODS]);
        assert!(objects[PODS][0]["spec"]["nodeName"].is_null());
        let writes = writes(&log);
        assert!(times(&writes, "/binding").is_empty(), "{writes:#?}");
        let status = &objects[REQUESTS][0]["status"];
        assert_eq!(status["phase"], "Failed", "{log:#?}");
        assert_eq!(status["reason"], format!("Pod a/p: {why}"));
    }
}

#[test]
fn our_requests_are_as_kais_scheduler_makes_them() {
    let bind_requests = BindRequests::Always;
    let (_, objects) = play(Story { bind_requests, ..story(half("p"), Vec::new()) });
    let mut request = objects[REQUESTS][0].clone();
    let group = objects[PODS][0]["metadata"]["labels"]["runai-gpu-group"].clone();
    assert!(group.is_string());
    for key in ["uid", "resourceVersion", "creationTimestamp"] {
        request["metadata"].as_object_mut().expect("metadata").remove(key);
    }
    let expected = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {
            "name": "p", "namespace": "a", "labels": {"selected-node": "n1"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}],
        },
        "spec": {
            "podName": "p", "selectedNode": "n1", "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"}, "selectedGPUGroups": [group],
            "selectedFractionalGpuGroups": [{"id": group, "computeSharingMode": "time-slicing"}],
        },
        "status": {"phase": "Succeeded", "failedAttempts": 0},
    });
    assert_eq!(request, expected);
}

#[test]
fn requests_say_how_pods_share_the_processors_of_their_devices() {
    let mut pod = half("p");
    pod["metadata"]["annotations"]["nvidia.com/container.c.gpu-compute.mode"] = json!("sm-sharing");
    let bind_requests = BindRequests::Always;
    let (_, objects) = play(Story { bind_requests, ..story(pod, Vec::new()) });
    let groups = &objects[REQUESTS][0]["spec"]["selectedFractionalGpuGroups"];
    assert_eq!(groups[0]["computeSharingMode"], "sm-sharing", "{groups}");
}

#[test]
fn a_request_is_tried_again_as_often_as_it_says() {
    let mut request = of_kai("p", "n2", &regular());
    request["spec"]["backoffLimit"] = json!(3);
    let faults = vec![fault("POST", "pods/p/binding", 403, 3)];
    let log = requests_of(Story { faults, ..story(pod("p", "1"), vec![request]) });
    let writes = writes(&log);
    let tried = times(&writes, "pods/p/binding");
    let [first, second, third, _] = tried[..] else { panic!("{writes:#?}") };
    assert!((1.0..1.3).contains(&(second - first)), "{tried:?}");
    assert!((2.0..2.3).contains(&(third - second)), "{tried:?}");
    for attempt in 1..=3 {
        let attempts = format!("\"failedAttempts\":{attempt}");
        assert_eq!(times(&writes, &attempts).len(), 1, "{writes:#?}");
    }
    let dropped = times(&writes, "DELETE /apis/scheduling.run.ai/v1alpha2/namespaces/a/bindreq");
    assert_eq!(dropped.len(), 1, "and then given up: {writes:#?}");
}

/// A pod that runs on a shared device whose reservation is gone.
fn orphan() -> Value {
    let mut pod = running("p", "1", "n1");
    pod["metadata"]["labels"]["runai-gpu-group"] = json!("g");
    pod["metadata"]["annotations"] = json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "p-shared-gpu", "kai.scheduler/gpu-devices": "g=GPU-1"});
    pod
}

#[test]
fn a_lost_reservation_is_made_again_and_its_pods_stay_where_it_has_the_same_device() {
    for (device, stays) in [("GPU-1", true), ("GPU-2", false)] {
        let story = Story {
            devices: vec![device],
            group_labels: GroupLabels::Unsigned,
            ..story(orphan(), Vec::new())
        };
        let (log, objects) = play(story);
        let writes = writes(&log);
        let made = times(&writes, "POST /api/v1/namespaces/kai-resource-reservation/pods");
        assert!(!made.is_empty(), "{writes:#?}");
        assert_eq!(times(&writes, "pods/p/eviction").is_empty(), stays, "{writes:#?}");
        let held = objects[PODS].iter().filter(|pod| pod["metadata"]["namespace"] != "a");
        assert!(!stays || held.count() == 1, "{objects:#?}");
    }
}

#[test]
fn reservations_that_ended_are_swept_at_the_start() {
    for phase in ["Pending", "Failed", "Succeeded"] {
        let mut leaked = running("gpu-reservation-leaked", "1", "n1");
        leaked["metadata"]["namespace"] = json!("kai-resource-reservation");
        leaked["metadata"]["labels"] =
            json!({"app": "kai-resource-reservation", "runai-gpu-group": "g"});
        leaked["status"]["phase"] = json!(phase);
        let (log, objects) = play(story(leaked, Vec::new()));
        assert_eq!(objects[PODS], Vec::<Value>::new(), "{phase}: {:#?}", writes(&log));
    }
}

#[test]
fn devices_are_written_under_the_old_key_too() {
    let mut story = story(half("p"), Vec::new());
    let map = json!({"metadata": {"name": "p-shared-gpu-0-evar", "namespace": "a", "uid": "m",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}]}, "data": {"RUNAI-VISIBLE-DEVICES": ""}});
    story.objects.push((CONFIG_MAPS, map));
    let (_, objects) = play(story);
    let map = objects[CONFIG_MAPS].iter().find(|map| map["metadata"]["uid"] == "m");
    let data = &map.expect("the map")["data"];
    assert!(data["NVIDIA_VISIBLE_DEVICES"].is_string(), "{data}");
    assert_eq!(data["RUNAI-VISIBLE-DEVICES"], data["NVIDIA_VISIBLE_DEVICES"]);
}

#[test]
fn binds_by_request_are_reported_like_others() {
    HOMES.into_iter().for_each(assert_reported);
}

fn assert_reported(bind_requests: BindRequests) {
    let story = || Story { bind_requests, reports_success: true, ..story(half("p"), Vec::new()) };
    let log = requests_of(story());
    let writes = writes(&log);
    let count = |what: &str| writes.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("Pod bound successfully to node n1"), 2, "event and condition: {writes:#?}");
    assert_eq!(count("\"type\":\"PodBound\""), 1, "{writes:#?}");
    let faults = vec![fault("POST", "pods/p/binding", 403, 1)];
    let log = requests_of(Story { faults, ..story() });
    let refused = log.iter().filter(|line| line.contains("\"BindingError\""));
    let refused: Vec<&String> = refused.filter(|line| line.contains("\"PodBound\"")).collect();
    assert_eq!(refused.len(), 1, "{log:#?}");
    assert!(refused[0].contains("Failed to bind pod a/p to node n1: "), "{refused:#?}");
}
