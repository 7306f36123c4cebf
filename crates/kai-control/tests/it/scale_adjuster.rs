//! Scaling pods in virtual time: made when pods that share devices find none, removed when they are of no use, once each.

use kai_api::function::Function;
use serde_json::{Value, json};

use crate::api::Fault;
use crate::virtual_time::{Story, play, requests_of};
use crate::{fault, gpu_node, node, queue, sharing_pod, times, writes};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const MADE: &str = "POST /api/v1/namespaces/kai-scale-adjust/pods ";
const REMOVED: &str = "DELETE /api/v1/namespaces/kai-scale-adjust/pods/";

const OVER_LIMIT: &str = r#""reason":"OverQueueLimit""#;

fn sharing(name: &str, portion: &str) -> Value {
    sharing_pod(name, "1", ("gpu-fraction", portion))
}

/// A scaling pod as KAI makes it, in this phase.
fn scaling(origin: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": format!("a-{origin}"), "namespace": "kai-scale-adjust", "uid": format!("uid-of-{origin}"),
            "labels": {"app": "scaling-pod", "shared-gpu-pod-name": origin, "shared-gpu-pod-namespace": "a"}},
        "spec": {"containers": [{"name": "scaling-pod", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": phase},
    })
}

/// A cluster without devices, and these pods.
fn story(pods: Vec<Value>) -> Story {
    let mut objects =
        vec![(NODES, node("n1", "8")), ("/apis/scheduling.run.ai/v2/queues", queue())];
    objects.extend(pods.into_iter().map(|pod| (PODS, pod)));
    let also = Some(Function::NodeScaleAdjuster);
    Story { objects, agents: vec![0], also, seconds: 200, ..Story::default() }
}

fn scaling_pods(pods: &[Value]) -> Vec<&Value> {
    pods.iter().filter(|pod| pod["metadata"]["namespace"] == "kai-scale-adjust").collect()
}

#[test]
fn two_halves_ask_for_one_device_and_run_when_it_is_there() {
    let played = || {
        let mut story = story(vec![sharing("p", "0.5"), sharing("q", "0.5")]);
        story.later = vec![(30, NODES, gpu_node("n2", "1"))];
        play(story)
    };
    let (log, objects) = played();
    assert_eq!(log, played().0, "the same story gives the same requests");
    let writes = writes(&log);
    let made = times(&writes, MADE);
    assert_eq!(made.len(), 1, "{writes:#?}");
    assert!((5.0..8.0).contains(&made[0]), "after the grace period: {made:?}");
    let line = writes.iter().find(|line| line.contains(MADE)).expect("it was made");
    assert!(line.contains(r#""kai.scheduler/scaling-for":"a/p""#), "{line}");
    assert!(line.contains(r#""limits":{"nvidia.com/gpu":"1"}"#), "{line}");
    let marked = times(&writes, "PATCH /api/v1/namespaces/kai-scale-adjust/pods/a-p/status");
    assert_eq!(marked.len(), 1, "autoscalers need not wait for the scheduler: {writes:#?}");
    // The pod that has no scaling pod waits for none, and the device is that of both.
    assert!(!writes.iter().any(|line| line.contains(SCALING_UP)), "{writes:#?}");
    assert_eq!(times(&writes, REMOVED).len(), 1, "{writes:#?}");
    let pods = &objects[PODS];
    assert!(scaling_pods(pods).is_empty(), "{pods:#?}");
    let bound = pods.iter().filter(|pod| pod["metadata"]["namespace"] == "a");
    assert!(bound.clone().all(|pod| pod["spec"]["nodeName"] == "n2"), "{pods:#?}");
    assert_eq!(bound.count(), 2);
}

const SCALING_UP: &str = "cluster is scaling up, could not create reservation pod";

/// While its scaling pod may come to the new node, no device of it is reserved for a pod. But the pod has a place now.
#[test]
fn pod_waits_until_its_own_scaling_pod_is_gone() {
    let mut story = story(vec![sharing("p", "0.5")]);
    story.later = vec![(30, NODES, gpu_node("n2", "1"))];
    let (log, objects) = play(story);
    let writes = writes(&log);
    assert!(writes.iter().any(|line| line.contains(SCALING_UP)), "{writes:#?}");
    assert_eq!(times(&writes, REMOVED).len(), 1, "{writes:#?}");
    let pods = &objects[PODS];
    assert!(scaling_pods(pods).is_empty(), "{pods:#?}");
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == "p").expect("the pod");
    assert_eq!(pod["spec"]["nodeName"], "n2");
}

/// A pod that needs more than any node has is asked for as long as it waits; others share GPUs meanwhile.
#[test]
fn scaling_pod_that_finds_no_node_holds_no_other_pod_up() {
    let mut large = sharing("large", "0.5");
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("64");
    let mut story = story(vec![large]);
    story.later = vec![(30, NODES, gpu_node("n2", "1")), (40, PODS, sharing("small", "0.5"))];
    let (log, objects) = play(story);
    let writes = writes(&log);
    assert_eq!(times(&writes, "POST /api/v1/namespaces/kai-scale-adjust/pods").len(), 1);
    let pods = &objects[PODS];
    assert_eq!(scaling_pods(pods).len(), 1, "it is still needed: {pods:#?}");
    let small = pods.iter().find(|pod| pod["metadata"]["name"] == "small").expect("the pod");
    assert_eq!(small["spec"]["nodeName"], "n2", "{writes:#?}");
    assert!(!writes.iter().any(|line| line.contains(SCALING_UP)), "{writes:#?}");
}

#[test]
fn after_one_went_no_other_is_made_for_a_minute() {
    let mut story = story(vec![sharing("p", "0.5")]);
    story.later = vec![(40, PODS, sharing("q", "0.5"))];
    story.gone = vec![(30, "/api/v1/namespaces/a/pods/p")];
    let log = requests_of(story);
    let writes = writes(&log);
    let (made, removed) = (times(&writes, MADE), times(&writes, REMOVED));
    assert_eq!((made.len(), removed.len()), (2, 1), "{writes:#?}");
    assert!((30.0..32.0).contains(&removed[0]), "its pod is gone: {removed:?}");
    let pause = made[1] - removed[0];
    assert!((60.0..62.0).contains(&pause), "{made:?} {removed:?}");
}

#[test]
fn one_that_ran_is_removed_and_asked_for_again_while_there_is_need() {
    let mut story = story(vec![sharing("p", "0.5")]);
    story.later = vec![(20, PODS, scaling("p", "Succeeded"))];
    let log = requests_of(story);
    let writes = writes(&log);
    let (made, removed) = (times(&writes, MADE), times(&writes, REMOVED));
    assert_eq!((made.len(), removed.len()), (2, 1), "{writes:#?}");
    assert!((20.0..22.0).contains(&removed[0]), "its own event is enough: {removed:?}");
    assert!((80.0..82.0).contains(&made[1]), "{made:?}");
}

#[test]
fn a_restart_makes_none_twice() {
    let log = requests_of(story(vec![sharing("p", "0.5"), scaling("p", "Pending")]));
    let writes = writes(&log);
    assert!(times(&writes, MADE).is_empty(), "{writes:#?}");
    assert!(times(&writes, REMOVED).is_empty(), "{writes:#?}");
}

#[test]
fn stuck_terminating_pod_is_skipped_and_delays_no_other() {
    let mut stuck = scaling("p", "Pending");
    stuck["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut story = story(vec![sharing("p", "0.5"), stuck]);
    story.later = vec![(100, NODES, gpu_node("n2", "1"))];
    let (log, objects) = play(story);
    let writes = writes(&log);
    assert!(times(&writes, REMOVED).is_empty(), "it was removed already: {writes:#?}");
    assert!(times(&writes, MADE).is_empty(), "its name is taken: {writes:#?}");
    let bound = times(&writes, "pods/p/binding");
    assert!(bound.len() == 1 && (100.0..102.0).contains(&bound[0]), "{bound:?}");
    assert_eq!(scaling_pods(&objects[PODS]).len(), 1);
}

#[test]
fn a_new_node_of_other_devices_is_not_waited_for() {
    // The scaling pod needs four devices on one node; one with two can be reserved at once for those who need no more.
    let mut wide = sharing("wide", "0.5");
    wide["metadata"]["annotations"]["gpu-fraction-num-devices"] = json!("4");
    let mut story = story(vec![wide]);
    story.later = vec![(30, NODES, gpu_node("n2", "2")), (40, PODS, sharing("narrow", "0.5"))];
    let log = requests_of(story);
    let writes = writes(&log);
    assert_eq!(times(&writes, MADE).len(), 1, "{writes:#?}");
    let bound = times(&writes, "pods/narrow/binding");
    assert!(bound.len() == 1 && (40.0..42.0).contains(&bound[0]), "{bound:?}");
}

#[test]
fn refusals_and_lost_answers_leave_one_scaling_pod() {
    let path = "/namespaces/kai-scale-adjust/pods";
    let lost = Fault { carried_out: true, ..fault("POST", path, 500, 1) };
    // What was carried out is seen, and not tried again.
    for (fault, tries) in [(fault("POST", path, 500, 3), 4), (lost, 1)] {
        let faults = vec![fault];
        let (log, objects) = play(Story { faults, ..story(vec![sharing("p", "0.5")]) });
        let writes = writes(&log);
        let tried = times(&writes, MADE);
        assert_eq!(tried.len(), tries, "{tried:?}");
        let gaps: Vec<f64> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap >= 0.99), "{tried:?}");
        assert!(gaps.windows(2).all(|pair| pair[1] > pair[0]), "waits grow: {gaps:?}");
        let pods = scaling_pods(&objects[PODS]);
        assert_eq!(pods.len(), 1, "{writes:#?}");
        assert_eq!(pods[0]["metadata"]["name"], "a-p");
    }
}

#[test]
fn one_that_is_refused_for_good_does_not_hold_up_its_likes() {
    let mut story = story(vec![sharing("p", "0.5"), sharing("q", "0.5")]);
    // The first is tried again; while it has to wait, the other has its turn.
    story.faults = vec![fault("POST", "/namespaces/kai-scale-adjust/pods", 403, 2)];
    let (log, objects) = play(story);
    let tried = times(&writes(&log), MADE);
    assert_eq!(tried.len(), 3, "{tried:?}");
    assert_eq!(scaling_pods(&objects[PODS])[0]["metadata"]["name"], "a-q");
}

#[test]
fn two_pods_of_one_name_have_a_scaling_pod_each() {
    let mut story = story(Vec::new());
    let mut one = sharing("b-c", "0.75");
    let mut other = sharing("c", "0.75");
    other["metadata"]["namespace"] = json!("a-b");
    one["metadata"]["uid"] = json!("one");
    story.objects.extend([(PODS, one), (PODS, other)]);
    let (log, objects) = play(story);
    let pods = scaling_pods(&objects[PODS]);
    let mut meant: Vec<&str> = pods
        .iter()
        .map(|pod| {
            pod["metadata"]["annotations"]["kai.scheduler/scaling-for"].as_str().expect("a pod")
        })
        .collect();
    meant.sort_unstable();
    assert_eq!(meant, ["a-b/c", "a/b-c"], "{log:#?}");
}

#[test]
fn without_the_function_no_scaling_pod_is_made() {
    let log = requests_of(Story { also: None, ..story(vec![sharing("p", "0.5")]) });
    assert!(times(&writes(&log), "kai-scale-adjust").is_empty());
}

#[test]
fn pods_over_the_limit_of_their_queue_ask_for_nothing() {
    let mut story = story(vec![sharing("p", "0.5"), sharing("q", "0.5")]);
    let limited = |object: &mut Value| {
        object["spec"]["resources"]["gpu"] = json!({"quota": 0, "limit": 0, "overQuotaWeight": 1});
    };
    story
        .objects
        .iter_mut()
        .filter(|(path, _)| path.contains("queues"))
        .for_each(|(_, queue)| limited(queue));
    let log = requests_of(story);
    let writes = writes(&log);
    assert!(writes.iter().any(|line| line.contains("allowable limit of GPUs")), "{writes:#?}");
    assert!(writes.iter().any(|line| line.contains(OVER_LIMIT)), "{writes:#?}");
    assert!(times(&writes, MADE).is_empty(), "{writes:#?}");
}

/// No pod alone is over the limit, but all of them together are.
#[test]
fn pods_ask_for_no_more_nodes_than_the_limit_of_their_queue_allows() {
    let pods = (0..10).map(|at| sharing(&format!("p{at}"), "0.5"));
    let mut story = story(pods.collect());
    let queues = story.objects.iter_mut().filter(|(path, _)| path.contains("queues"));
    for (_, queue) in queues {
        queue["spec"]["resources"]["gpu"] = json!({"quota": 0, "limit": 2, "overQuotaWeight": 1});
    }
    let (log, objects) = play(story);
    let writes = writes(&log);
    assert_eq!(times(&writes, MADE).len(), 2, "{writes:#?}");
    let reasons = |wanted: &str| {
        let pods = objects[PODS].iter().filter(|pod| pod["metadata"]["namespace"] == "a");
        let conditions = pods.filter_map(|pod| pod["status"]["conditions"].as_array());
        conditions.flatten().filter(|one| one["reason"] == wanted).count()
    };
    assert_eq!((reasons("Unschedulable"), reasons("OverQueueLimit")), (4, 6));
}
