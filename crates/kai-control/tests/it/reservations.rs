//! Reservations that are slow, failed bind requests that stay, and binds that fail for lasting reasons.

use kai_settings::planner::BindRequests;
use serde_json::{Value, json};

use crate::virtual_time::{Story, play, requests_of};
use crate::{HOMES, fault, node, pod, queue, sharing_pod, times, writes};

const PODS: &str = "/api/v1/pods";
const RESERVATION: &str = "POST /api/v1/namespaces/kai-resource-reservation/pods";
const REQUEST: &str = "POST /apis/scheduling.run.ai/v1alpha2/namespaces/a/bindrequests";

fn sharing(name: &str, portion: &str) -> Value {
    sharing_pod(name, "100m", ("gpu-fraction", portion))
}

/// One node of eight devices, and these pods.
fn story(pods: Vec<Value>) -> Story {
    let mut node = node("n1", "8");
    node["status"]["allocatable"]["nvidia.com/gpu"] = json!("8");
    node["status"]["allocatable"]["pods"] = json!("100");
    let mut objects = vec![("/api/v1/nodes", node), ("/apis/scheduling.run.ai/v2/queues", queue())];
    objects.extend(pods.into_iter().map(|pod| (PODS, pod)));
    Story { objects, agents: vec![0], seconds: 300, ..Story::default() }
}

#[test]
fn a_node_starts_four_reservation_pods_at_a_time_and_all_pods_are_bound() {
    let pods = (0..8).map(|number| sharing(&format!("p{number}"), "0.75")).collect();
    let log = requests_of(Story { agents: vec![10], ..story(pods) });
    let writes = writes(&log);
    let made = times(&writes, RESERVATION);
    assert_eq!(made.len(), 8, "{writes:#?}");
    assert!(made[3] < 1.0, "{made:?}");
    assert!((10.0..11.0).contains(&made[4]) && (10.0..11.0).contains(&made[7]), "{made:?}");
    let bound = times(&writes, "/binding");
    assert_eq!(bound.len(), 8, "{writes:#?}");
    assert!(bound[3] < 11.0, "the first are bound while the last are reserved: {bound:?}");
}

#[test]
fn a_reservation_that_is_slow_on_a_busy_node_is_not_reverted() {
    let pods = vec![sharing("p1", "0.75"), sharing("p2", "0.75")];
    let (log, objects) = play(Story { agents: vec![30, 60], ..story(pods) });
    let writes = writes(&log);
    assert_eq!(times(&writes, RESERVATION).len(), 2, "{writes:#?}");
    assert_eq!(times(&writes, "FailedBinding").len(), 0, "{writes:#?}");
    let bound =
        |pod: &&Value| pod["metadata"]["namespace"] == "a" && pod["spec"]["nodeName"] == "n1";
    assert_eq!(objects[PODS].iter().filter(bound).count(), 2, "{writes:#?}");
}

#[test]
fn a_bind_request_is_not_posted_again_while_the_failed_one_is_there() {
    let faults = vec![fault("DELETE", "/bindrequests/", 500, 5)];
    // The first reservation does not answer within its time.
    let agents = vec![1000, 0];
    let start = Story { bind_requests: BindRequests::Always, ..story(vec![sharing("p", "0.5")]) };
    let log = requests_of(Story { faults, agents, ..start });
    let writes = writes(&log);
    let removed =
        times(&writes, "DELETE /apis/scheduling.run.ai/v1alpha2/namespaces/a/bindrequests/p");
    assert!(removed.len() >= 6, "five refused: {writes:#?}");
    let posted = times(&writes, REQUEST);
    assert_eq!(posted.len(), 2, "{writes:#?}");
    assert!(posted[1] > removed[5], "posted {posted:?}, removed {removed:?}");
    assert_eq!(times(&writes, "pods/p/binding").len(), 1, "{writes:#?}");
}

#[test]
fn a_lasting_failure_backs_off_to_minutes_and_says_what_is_missing() {
    HOMES.into_iter().for_each(assert_backs_off);
}

fn assert_backs_off(bind_requests: BindRequests) {
    let mut unseen = pod("p", "100m");
    unseen["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    let (log, objects) = play(Story { bind_requests, seconds: 1200, ..story(vec![unseen]) });
    let writes = writes(&log);
    let failed = times(&writes, "\"FailedBinding\"");
    assert!((5..16).contains(&failed.len()), "{failed:?}");
    let last = failed[failed.len() - 1] - failed[failed.len() - 2];
    assert!(last >= 60.0, "{failed:?}");
    assert!(
        times(&writes, RESERVATION).is_empty(),
        "no device is reserved without need: {writes:#?}"
    );
    let failed = writes.iter().find(|line| line.contains("\"FailedBinding\""));
    let said = "the annotation runai/shared-gpu-configmap is missing because the admission webhook did not see the pod";
    assert!(failed.is_some_and(|line| line.contains(said)), "{failed:?}");
    assert!(objects[PODS].iter().all(|pod| pod["spec"]["nodeName"].is_null()));
}

#[test]
fn reservation_of_an_earlier_process_goes_before_another_is_made_on_its_node() {
    let mut node = node("n1", "8");
    node["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
    let mut leftover = pod("gpu-reservation-leftover", "0");
    leftover["metadata"]["namespace"] = json!("kai-resource-reservation");
    leftover["metadata"]["labels"] =
        json!({"app": "kai-resource-reservation", "runai-gpu-group": "g"});
    leftover["spec"]["nodeName"] = json!("n1");
    leftover["status"]["phase"] = json!("Running");
    let objects = vec![
        ("/api/v1/nodes", node),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        (PODS, leftover),
        (PODS, sharing("p", "0.5")),
    ];
    let agents = vec![0];
    let (log, objects) =
        play(Story { objects, agents, gpus_per_node: Some(1), seconds: 60, ..Story::default() });
    let writes = writes(&log);
    assert!(times(&writes, "FailedBinding").is_empty(), "its node has one device: {writes:#?}");
    let bound = times(&writes, "pods/p/binding");
    assert!(bound.len() == 1 && bound[0] < 7.0, "{writes:#?}");
    assert_eq!(objects[PODS].len(), 2, "{writes:#?}");
}
