//! What is reported, and how seldom.

use serde_json::{Value, json};

use crate::virtual_time::{Story, requests_of};
use crate::{fault, node, pod, running, times, writes};

/// A queue that can have all there is.
fn queue() -> Value {
    let mut queue = crate::queue();
    for resource in ["cpu", "gpu", "memory"] {
        queue["spec"]["resources"][resource]["quota"] = json!(-1);
    }
    queue
}

/// The bodies of requests to a path.
fn bodies(log: &[&str], what: &str) -> Vec<Value> {
    let lines = log.iter().filter(|line| line.contains(what));
    let body = |line: &&&str| line[line.find(" {").expect("a body")..].parse().expect("JSON");
    lines.collect::<Vec<_>>().iter().map(body).collect()
}

/// Events with a reason.
fn events(log: &[&str], reason: &str) -> Vec<Value> {
    let all = bodies(log, "POST /api/v1/namespaces/a/events ");
    all.into_iter().filter(|event| event["reason"] == reason).collect()
}

/// A node half of which is in use, and a pod that needs all of it.
fn full_cluster() -> Vec<(&'static str, Value)> {
    vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        ("/api/v1/pods", pod("large", "2")),
        ("/api/v1/pods", fixed("holder", "1")),
    ]
}

/// A running pod that may not be preempted.
fn fixed(name: &str, cpu: &str) -> Value {
    let mut pod = running(name, cpu, "n1");
    pod["metadata"]["labels"]["kai.scheduler/preemptibility"] = json!("non-preemptible");
    pod
}

const NO_CPU: &str =
    "no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores.";

#[test]
fn overhead_that_alone_prevents_a_fit_is_named() {
    let mut objects = full_cluster();
    let mut sandboxed = pod("sandboxed", "800m");
    sandboxed["spec"]["overhead"] = json!({"cpu": "500m", "memory": "120Mi"});
    objects[2] = ("/api/v1/pods", sandboxed);
    let log = requests_of(Story { objects, seconds: 30, ..Story::default() });
    let reports = bodies(&writes(&log), "PATCH /api/v1/namespaces/a/pods/sandboxed/status");
    let overhead = "Not enough resources due to pod overhead resources. The overhead resources are cpu: 500m memory: 120Mi.";
    assert_eq!(reports[0]["status"]["conditions"][0]["message"], format!("{NO_CPU} {overhead}"));
}

#[test]
fn reason_of_a_pending_pod_is_reported_once() {
    let log = requests_of(Story { objects: full_cluster(), seconds: 300, ..Story::default() });
    let writes = writes(&log);
    let conditions = bodies(&writes, "PATCH /api/v1/namespaces/a/pods/large/status");
    assert_eq!(conditions.len(), 1, "{writes:#?}");
    let condition = &conditions[0]["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled");
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], NO_CPU);
    let mut events = events(&writes, "Unschedulable");
    events.retain(|event| event["involvedObject"]["kind"] == "Pod");
    assert_eq!(events.len(), 1, "{writes:#?}");
    assert_eq!((&events[0]["message"], &events[0]["type"]), (&json!(NO_CPU), &json!("Warning")));
    let sums = bodies(&writes, "PATCH /apis/scheduling.run.ai/v2/queues/q/status");
    let wanted = json!({"requested": {"cpu": "3"}, "allocated": {"cpu": "1"}, "allocatedNonPreemptible": {"cpu": "1"}});
    assert_eq!(sums, [json!({"status": wanted})], "{writes:#?}");
}

#[test]
fn a_text_that_keeps_changing_is_not_written_at_every_change() {
    let later = (20..40).map(|second| {
        let name = format!("late-{second}");
        (second, "/api/v1/nodes", node(&name, "1"))
    });
    let story =
        Story { objects: full_cluster(), later: later.collect(), seconds: 100, ..Story::default() };
    let log = requests_of(story);
    let writes = writes(&log);
    let reports = times(&writes, "PATCH /api/v1/namespaces/a/pods/large/status");
    assert!((3..=4).contains(&reports.len()), "{reports:?}");
    assert!(reports.windows(2).all(|pair| pair[1] - pair[0] >= 10.0), "{reports:?}");
    let last = bodies(&writes, "pods/large/status").pop().expect("a write");
    let message = last["status"]["conditions"][0]["message"].as_str().expect("a text").to_owned();
    assert!(message.contains("21 node(s)"), "the latest is reported: {message}");
}

fn gang(min: u32) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "a", "uid": "g", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"minMember": min, "queue": "q"}})
}

fn member(mut pod: Value) -> Value {
    pod["metadata"]["annotations"] = json!({"pod-group-name": "gang"});
    pod
}

#[test]
fn a_group_shows_its_sums_and_why_it_waits() {
    let mut objects = full_cluster();
    objects.truncate(2);
    objects.push(("/apis/scheduling.run.ai/v2alpha2/podgroups", gang(2)));
    objects.push(("/api/v1/pods", member(pod("m1", "2"))));
    objects.push(("/api/v1/pods", member(pod("m2", "2"))));
    let log = requests_of(Story { objects, seconds: 100, ..Story::default() });
    let writes = writes(&log);
    let reports = bodies(&writes, "podgroups/gang/status");
    assert_eq!(reports.len(), 1, "{writes:#?}");
    let status = &reports[0]["status"];
    assert_eq!(status["resourcesStatus"], json!({"requested": {"cpu": "4"}}));
    let condition = &status["schedulingConditions"][0];
    assert_eq!(condition["type"], "UnschedulableOnNodePool");
    assert_eq!(condition["nodePool"], "default");
    assert_eq!(condition["transitionID"], "1");
    assert_eq!(condition["reasons"][0]["reason"], "PodSchedulingErrors");
    let message = condition["message"].as_str().expect("a text");
    assert!(
        message.starts_with("PodSchedulingErrors: Resources were found for 1 pods while 2 are required for gang scheduling."),
        "{message}"
    );
    let about_group = |event: &&Value| event["involvedObject"]["kind"] == "PodGroup";
    assert_eq!(events(&writes, "Unschedulable").iter().filter(about_group).count(), 1);
    for name in ["m1", "m2"] {
        assert_eq!(times(&writes, &format!("pods/{name}/status")).len(), 1, "{writes:#?}");
    }
}

#[test]
fn group_that_lacks_pods_is_reported_as_not_ready() {
    let mut objects = full_cluster();
    objects.truncate(2);
    objects.push(("/apis/scheduling.run.ai/v2alpha2/podgroups", gang(3)));
    objects.push(("/api/v1/pods", member(pod("m1", "1"))));
    let log = requests_of(Story { objects, seconds: 50, ..Story::default() });
    let writes = writes(&log);
    let reports = events(&writes, "NotReady");
    let texts: Vec<&Value> = reports.iter().map(|event| &event["message"]).collect();
    assert_eq!(
        texts,
        ["Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated"]
    );
    assert!(times(&writes, "pods/m1/status").is_empty(), "{writes:#?}");
}

#[test]
fn what_the_cluster_shows_already_is_not_written_again() {
    let mut objects = full_cluster();
    objects[1].1["status"] = json!({"requested": {"cpu": "3000m"}, "allocated": {"cpu": 1}, "allocatedNonPreemptible": {"cpu": "1"}});
    objects[2].1["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_CPU}]);
    let log = requests_of(Story { objects, seconds: 50, ..Story::default() });
    let reports = writes(&log)
        .into_iter()
        .filter(|line| line.contains("/status") || line.contains("/events"))
        .filter(|line| !line.contains("pg-large")); // its group is new
    assert_eq!(reports.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn failed_bind_is_reported() {
    let story = Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            ("/api/v1/pods", pod("small", "1")),
        ],
        faults: vec![fault("POST", "pods/small/binding", 500, 3)],
        seconds: 30,
        ..Story::default()
    };
    let log = requests_of(story);
    let writes = writes(&log);
    let failed = events(&writes, "FailedBinding");
    assert_eq!(failed.len(), 3, "{writes:#?}");
    let message = failed[0]["message"].as_str().expect("a text");
    assert!(message.starts_with("Failed to bind pod a/small to node n1. "), "{message}");
    let conditions = bodies(&writes, "pods/small/status");
    assert_eq!(conditions[0]["status"]["conditions"][0]["reason"], "BindingError");
    assert_eq!(conditions.len(), 1, "the same error is reported once: {writes:#?}");
    let at = |path: &str, nth: usize| {
        let mut places = writes.iter().enumerate().filter(|(_, line)| line.contains(path));
        places.nth(nth).map(|(place, _)| place).expect("a write")
    };
    let (reports, tried_again) = (at("pods/small/status", 0), at("pods/small/binding", 1));
    assert!(reports < tried_again, "it is reported before it is tried again: {writes:#?}");
    assert!(events(&writes, "Scheduled").is_empty(), "success is not reported by default");
}

#[test]
fn success_is_reported_where_that_is_set() {
    let story = Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            ("/api/v1/pods", pod("small", "1")),
        ],
        reports_success: true,
        seconds: 30,
        ..Story::default()
    };
    let log = requests_of(story);
    let writes = writes(&log);
    let scheduled = events(&writes, "Scheduled");
    assert_eq!(
        scheduled[0]["message"],
        "Successfully assigned pod a/small to node n1 at node-pool default"
    );
    let bound = events(&writes, "Bound");
    assert_eq!(bound[0]["message"], "Pod bound successfully to node n1");
    assert_eq!(bound[0]["source"]["component"], "binder");
    let condition = &bodies(&writes, "pods/small/status")[0]["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("PodBound"), &json!("True")));
}

#[test]
fn sums_of_queues_reach_the_root() {
    let mut root = queue();
    root["metadata"]["name"] = json!("root");
    let mut leaf = queue();
    leaf["spec"]["parentQueue"] = json!("root");
    let objects = vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", root),
        ("/apis/scheduling.run.ai/v2/queues", leaf),
        ("/api/v1/pods", running("one", "1", "n1")),
        ("/api/v1/pods", fixed("fixed", "500m")),
    ];
    let log = requests_of(Story { objects, seconds: 20, ..Story::default() });
    let writes = writes(&log);
    let sums = json!({"requested": {"cpu": "1500m"}, "allocated": {"cpu": "1500m"}, "allocatedNonPreemptible": {"cpu": "500m"}});
    let mut of_root = sums.clone();
    of_root["childQueues"] = json!(["q"]);
    assert_eq!(bodies(&writes, "queues/q/status"), [json!({"status": sums})]);
    assert_eq!(bodies(&writes, "queues/root/status"), [json!({"status": of_root})]);
}

#[test]
fn fault_of_a_queue_is_reported() {
    let mut lost = crate::queue();
    lost["spec"]["parentQueue"] = json!("nowhere");
    let objects = vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", lost),
        ("/api/v1/pods", running("one", "1", "n1")),
    ];
    let log = requests_of(Story { objects, seconds: 20, ..Story::default() });
    let reports = bodies(&writes(&log), "queues/q/status");
    assert_eq!(reports.len(), 1, "{log:#?}");
    let conditions = reports[0]["status"]["conditions"].as_array().expect("conditions");
    let kinds: Vec<&Value> = conditions.iter().map(|condition| &condition["type"]).collect();
    assert_eq!(kinds, ["Orphan", "OverQuota"]);
}

#[test]
fn contradiction_in_a_workload_is_reported() {
    let mut pod = pod("small", "1");
    pod["metadata"]["labels"]["runai/queue"] = json!("other");
    let objects = vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        ("/api/v1/pods", pod),
    ];
    let log = requests_of(Story { objects, seconds: 20, ..Story::default() });
    let reports = events(&writes(&log), "PodGrouperWarning");
    assert_eq!(reports.len(), 1, "{log:#?}");
    assert_eq!(reports[0]["source"]["component"], "pod-grouper");
}

#[test]
fn objects_with_invalid_fields_have_an_event_each_and_others_are_scheduled() {
    let mut malformed = crate::queue();
    malformed["metadata"] = json!({"name": "broken", "uid": "uid-broken"});
    malformed["spec"]["resources"] = json!({"gpu": {"quota": "many"}});
    let mut contradictory = pod("contradictory", "1");
    contradictory["metadata"]["annotations"] = json!({"gpu-fraction": "0.5", "gpu-memory": "2000"});
    let objects = vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", malformed),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        ("/api/v1/pods", contradictory),
        ("/api/v1/pods", pod("valid", "1")),
    ];
    let log = requests_of(Story { objects, seconds: 60, ..Story::default() });
    let writes = writes(&log);
    let reports = events(&writes, "InvalidObject");
    assert_eq!(reports.len(), 1, "{log:#?}");
    assert_eq!(reports[0]["involvedObject"]["name"], "contradictory");
    assert_eq!(
        reports[0]["message"],
        "metadata.annotations[gpu-memory]: cannot request both GPU and GPU memory"
    );
    let of_queues = bodies(&writes, "POST /api/v1/namespaces/default/events ");
    assert_eq!(of_queues.len(), 1, "{log:#?}");
    let involved = &of_queues[0]["involvedObject"];
    assert_eq!(
        (&involved["kind"], &involved["name"], &involved["uid"]),
        (&json!("Queue"), &json!("broken"), &json!("uid-broken"))
    );
    let message = of_queues[0]["message"].as_str().expect("a message");
    assert!(message.starts_with("spec.resources.gpu.quota: "), "{message}");
    assert!(!times(&writes, "pods/valid/binding").is_empty(), "{log:#?}");
    assert!(times(&writes, "pods/contradictory/binding").is_empty(), "{log:#?}");
}
