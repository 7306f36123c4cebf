//! Binds of several steps under faults, and gangs.

use std::collections::BTreeMap;

use kai_settings::planner::BindRequests;
use serde_json::{Value, json};

use crate::api::Fault;
use crate::virtual_time::{Story, play, requests_of};
use crate::{
    HOMES, assert_succeeded, bind_requests_of, fault, gpu_node, node, pod, queue, sharing_pod,
    times, writes,
};

const PODS: &str = "/api/v1/pods";
const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2/podgroups";
const CONFIG_MAPS: &str = "/api/v1/configmaps";

/// A pod that wants a part of a device, as admission would leave it.
fn sharing(name: &str, portion: &str) -> Value {
    sharing_pod(name, "1", ("gpu-fraction", portion))
}

fn member(mut pod: Value) -> Value {
    pod["metadata"]["annotations"]["pod-group-name"] = json!("gang");
    pod
}

fn gang(members: u32) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "a", "uid": "g", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"minMember": members, "queue": "q"}})
}

fn story(pods: Vec<Value>) -> Story {
    let mut objects = vec![
        ("/api/v1/nodes", gpu_node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
    ];
    objects.extend(pods.into_iter().map(|pod| (PODS, pod)));
    Story { objects, agents: vec![0], seconds: 300, ..Story::default() }
}

/// The writes of the bind of a sharing pod, in their order.
const WRITES: [(&str, &str); 4] = [
    ("POST", "/namespaces/kai-resource-reservation/pods"),
    ("PATCH", "/namespaces/a/pods/p"),
    ("POST", "/configmaps"),
    ("POST", "/pods/p/binding"),
];
/// The writes beside them where the bind request is an object.
const WRITES_OF_REQUEST: [(&str, &str); 2] =
    [("POST", "/bindrequests"), ("PATCH", "/bindrequests/p/status")];

/// Every write of the bind of a sharing pod, by the home of its bind request.
fn writes_by_home() -> impl Iterator<Item = (BindRequests, &'static str, &'static str)> {
    HOMES.into_iter().flat_map(|home| {
        let is_object = home == BindRequests::Always;
        let of_request = WRITES_OF_REQUEST.into_iter().filter(move |_| is_object);
        WRITES.into_iter().chain(of_request).map(move |(method, path)| (home, method, path))
    })
}

/// What must hold however it came about: the pod is bound, its config map names the device, and nothing is left over.
fn assert_bound(objects: &BTreeMap<String, Vec<Value>>, home: BindRequests, what: &str) {
    let pods = &objects[PODS];
    let bound = pods.iter().find(|pod| pod["metadata"]["name"] == "p").expect("the pod");
    assert_eq!(bound["spec"]["nodeName"], "n1", "{what}");
    let reservations: Vec<&Value> = pods
        .iter()
        .filter(|pod| pod["metadata"]["namespace"] == "kai-resource-reservation")
        .collect();
    assert_eq!(reservations.len(), 1, "{what}");
    let labels = &reservations[0]["metadata"]["labels"];
    assert_eq!(bound["metadata"]["labels"]["runai-gpu-group"], labels["runai-gpu-group"], "{what}");
    let device = &reservations[0]["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"];
    let maps = &objects[CONFIG_MAPS];
    assert_eq!(maps.len(), 2, "{what}");
    let devices = maps.iter().filter_map(|map| map["data"].get("NVIDIA_VISIBLE_DEVICES"));
    assert_eq!(devices.collect::<Vec<_>>(), [device], "{what}");
    assert_succeeded(objects, home, 1, what);
}

#[test]
fn a_bind_survives_refusals_of_every_write() {
    for (bind_requests, method, path) in writes_by_home() {
        for code in [409, 429, 500] {
            let what = format!("{bind_requests:?}: {method} {path} is answered with {code}");
            let faults = vec![fault(method, path, code, 2)];
            let start = Story { bind_requests, ..story(vec![sharing("p", "0.5")]) };
            let (log, objects) = play(Story { faults, ..start });
            assert_bound(&objects, bind_requests, &what);
            let binds = times(&writes(&log), "pods/p/binding").len();
            let refused = if path.ends_with("binding") { 2 } else { 0 };
            assert_eq!(binds, 1 + refused, "{what}: {log:#?}");
        }
    }
}

/// The garbage collector removes what an earlier pod of the name had only after a while.
#[test]
fn pod_of_a_name_that_was_used_before_replaces_the_config_maps_of_the_earlier_pod() {
    let earlier = |name: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "earlier"});
        let metadata = json!({"name": name, "namespace": "a", "uid": format!("earlier-{name}"), "ownerReferences": [owner]});
        json!({"metadata": metadata, "data": {"NVIDIA_VISIBLE_DEVICES": "GPU-of-the-earlier-pod"}})
    };
    for bind_requests in HOMES {
        let mut story = Story { bind_requests, ..story(vec![sharing("p", "0.5")]) };
        let maps = ["p-shared-gpu-0", "p-shared-gpu-0-evar"];
        story.objects.extend(maps.map(|name| (CONFIG_MAPS, earlier(name))));
        let (log, objects) = play(story);
        assert_bound(&objects, bind_requests, &format!("{bind_requests:?}"));
        let owners = objects[CONFIG_MAPS].iter().map(|map| &map["metadata"]["ownerReferences"][0]);
        assert!(owners.into_iter().all(|owner| owner["uid"] == "uid-p"), "{objects:#?}");
        assert!(!writes(&log).iter().any(|line| line.contains("FailedBinding")), "{log:#?}");
    }
}

#[test]
fn a_bind_survives_answers_that_are_lost() {
    for (bind_requests, method, path) in writes_by_home() {
        let what =
            format!("{bind_requests:?}: {method} {path} is carried out, but answered with 500");
        let faults = vec![Fault { carried_out: true, ..fault(method, path, 500, 1) }];
        let start = Story { bind_requests, ..story(vec![sharing("p", "0.5")]) };
        let (_, objects) = play(Story { faults, ..start });
        assert_bound(&objects, bind_requests, &what);
    }
}

#[test]
fn a_bind_that_is_forbidden_is_undone_and_does_not_win_every_cycle() {
    HOMES.into_iter().for_each(assert_undone);
}

fn assert_undone(bind_requests: BindRequests) {
    let faults = vec![fault("POST", "/pods/p/binding", 403, u32::MAX)];
    let start = Story { bind_requests, ..story(vec![sharing("p", "0.5")]) };
    let (log, objects) = play(Story { faults, ..start });
    let tried = times(&writes(&log), "pods/p/binding");
    let gaps: Vec<f64> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((1.0..1.2).contains(&gaps[0]), "{gaps:?}");
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0] - 0.2), "waits grow: {gaps:?}");
    assert!(*gaps.last().expect("several tries") >= 60.0, "{gaps:?}");
    let left = objects[PODS].iter().filter(|pod| pod["metadata"]["name"] != "p");
    assert_eq!(left.count(), 0, "its reservation is released");
    let pod = &objects[PODS][0];
    assert!(pod["metadata"]["labels"].get("runai-gpu-group").is_none(), "{pod:#}");
    assert!(objects[CONFIG_MAPS].is_empty() && bind_requests_of(&objects).is_empty());
}

#[test]
fn a_pod_whose_bind_fails_on_one_node_goes_to_another() {
    let objects = vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/api/v1/nodes", node("n2", "2")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        (PODS, pod("p", "1")),
    ];
    let faults = vec![fault("POST", "pods/p/binding", 403, 2)];
    let log = requests_of(Story { objects, faults, seconds: 30, ..Story::default() });
    let writes = writes(&log);
    let nodes: Vec<bool> = writes
        .iter()
        .filter(|line| line.contains("/binding"))
        .map(|line| line.contains("\"n1\""))
        .collect();
    let [first, second, third] = nodes[..] else { panic!("{writes:#?}") };
    assert_eq!((first, second), (second, first), "a hiccup is no reason to move");
    assert_ne!(second, third, "the same again is");
}

#[test]
fn a_gang_is_bound_when_all_of_it_is_prepared() {
    HOMES.into_iter().for_each(assert_bound_together);
}

fn assert_bound_together(bind_requests: BindRequests) {
    let pods =
        vec![member(sharing("m1", "0.75")), member(sharing("m2", "0.75")), member(pod("m3", "1"))];
    let mut story = Story { agents: vec![0, 7], seconds: 60, bind_requests, ..story(pods) };
    story.objects.insert(2, (GROUPS, gang(3)));
    let (log, objects) = play(story);
    let writes = writes(&log);
    let bound = times(&writes, "/binding");
    assert_eq!(bound.len(), 3, "{writes:#?}");
    assert!(bound.iter().all(|second| (7.0..8.0).contains(second)), "{bound:?}");
    assert_succeeded(&objects, bind_requests, 3, "a gang");
}

#[test]
fn a_gang_of_which_one_cannot_be_prepared_goes_back_as_a_whole() {
    HOMES.into_iter().for_each(assert_goes_back);
}

fn assert_goes_back(bind_requests: BindRequests) {
    let pods = vec![member(sharing("m1", "0.75")), member(sharing("m2", "0.75"))];
    let faults = vec![fault("POST", "/configmaps", 403, 1)];
    let mut story = Story { faults, bind_requests, seconds: 60, ..story(pods) };
    story.objects.insert(2, (GROUPS, gang(2)));
    let (log, objects) = play(story);
    let writes = writes(&log);
    let failed: Vec<&&str> =
        writes.iter().filter(|line| line.contains("\"FailedBinding\"")).collect();
    assert_eq!(failed.len(), 2, "{writes:#?}");
    assert!(failed.iter().any(|line| line.contains(" of its group failed to bind")), "{failed:#?}");
    let bound = times(&writes, "/binding");
    assert_eq!(bound.len(), 2, "both, later: {writes:#?}");
    assert!(bound.iter().all(|second| *second > 1.0), "{bound:?}");
    let reservations = objects[PODS].iter().filter(|pod| pod["metadata"]["namespace"] != "a");
    assert_eq!(reservations.count(), 2);
}

#[test]
fn a_gang_that_stays_below_its_minimum_is_evicted_whole() {
    let log = requests_of(plain_gang(vec![fault("POST", "pods/m2/binding", 403, u32::MAX)]));
    let writes = writes(&log);
    let evicted = times(&writes, "pods/m1/eviction");
    assert_eq!(evicted.len(), 1, "{writes:#?}");
    assert!((60.0..64.0).contains(&evicted[0]), "{evicted:?}");
}

/// A gang of two pods that need nothing but a node.
fn plain_gang(faults: Vec<Fault>) -> Story {
    let objects = vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        (GROUPS, gang(2)),
        (PODS, member(pod("m1", "1"))),
        (PODS, member(pod("m2", "1"))),
    ];
    Story { objects, faults, seconds: 100, ..Story::default() }
}

#[test]
fn the_rest_of_a_gang_is_bound_again_at_once_and_from_then_on_after_a_while() {
    let log = requests_of(plain_gang(vec![fault("POST", "pods/m2/binding", 500, 2)]));
    let tried = times(&writes(&log), "pods/m2/binding");
    let [first, second, third] = tried[..] else { panic!("{log:#?}") };
    assert!(second - first < 0.1, "its gang waits for it: {tried:?}");
    // Times of the log are rounded to milliseconds.
    assert!((0.999..3.0).contains(&(third - second)), "it may fail for long: {tried:?}");
    assert_eq!(times(&writes(&log), "pods/m1/binding").len(), 1, "{log:#?}");
    assert!(times(&writes(&log), "/eviction").is_empty(), "{log:#?}");
}

#[test]
fn a_node_that_goes_takes_its_reservation_with_it() {
    let (log, objects) = play(Story {
        agents: vec![60], // still awaited when the node goes
        gone: vec![(10, "/api/v1/nodes/n1")],
        later: vec![(20, "/api/v1/nodes", gpu_node("n2", "1"))],
        ..story(vec![sharing("p", "0.5")])
    });
    assert!(times(&writes(&log), "\"n1\"").len() <= 2, "{log:#?}");
    assert!(bind_requests_of(&objects).is_empty(), "{log:#?}");
    let pods = &objects[PODS];
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] != "n1"), "{pods:#?}");
}

#[test]
fn a_leaked_reservation_and_a_leaked_label_are_removed() {
    let mut leaked = pod("gpu-reservation-leaked", "1");
    leaked["metadata"]["namespace"] = json!("kai-resource-reservation");
    leaked["metadata"]["labels"] =
        json!({"app": "kai-resource-reservation", "runai-gpu-group": "g"});
    leaked["spec"] = json!({"nodeName": "n1", "containers": []});
    let mut labelled = sharing("p", "0.5");
    labelled["metadata"]["labels"]["runai-gpu-group"] = json!("g");
    labelled["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    let (log, objects) = play(Story { seconds: 30, ..story(vec![leaked, labelled]) });
    let writes = writes(&log);
    assert_eq!(
        times(&writes, "DELETE /api/v1/namespaces/kai-resource-reservation").len(),
        1,
        "{writes:#?}"
    );
    assert_eq!(objects[PODS].len(), 1);
    assert!(objects[PODS][0]["metadata"]["labels"].get("runai-gpu-group").is_none());
}

/// Its members are planned again while the binder is about them: they count once.
#[test]
fn gang_whose_node_goes_is_bound_elsewhere_together() {
    let pods = vec![member(sharing("m1", "0.75")), member(sharing("m2", "0.75"))];
    let mut story = Story {
        agents: vec![60, 60, 0],
        gone: vec![(10, "/api/v1/nodes/n1")],
        later: vec![(10, "/api/v1/nodes", gpu_node("n2", "2"))],
        ..story(pods)
    };
    story.objects.insert(2, (GROUPS, gang(2)));
    let (log, objects) = play(story);
    let writes = writes(&log);
    let bound = times(&writes, "/binding");
    assert_eq!(bound.len(), 2, "{writes:#?}");
    assert!(bound.iter().all(|second| *second < 20.0), "{bound:?}");
    let on_n2 = objects[PODS].iter().filter(|pod| pod["spec"]["nodeName"] == "n2").count();
    assert_eq!(on_n2, 4, "two pods, two reservation pods: {writes:#?}");
    assert!(bind_requests_of(&objects).is_empty(), "{writes:#?}");
}
