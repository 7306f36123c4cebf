//! Bind requests that live in the process: they end with its leases, with their pods, and where another scheduler requests the
//! bind in the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::api::Api;
use crate::leases::{candidate, requests};
use crate::virtual_time::{Story, in_virtual_time, play};
use crate::{bind_requests_of, gpu_node, queue, sharing_pod, times, writes};

const PODS: &str = "/api/v1/pods";
const BINDER_LEASE: &str = "2ad35f9c.kai.scheduler";

fn half(name: &str) -> Value {
    sharing_pod(name, "1", ("gpu-fraction", "0.5"))
}

/// The pod `p` is on this node, and its reservation pod is the only one.
fn assert_bound(objects: &BTreeMap<String, Vec<Value>>, node: &str, what: &str) {
    let (own, reservations): (Vec<&Value>, Vec<&Value>) =
        objects[PODS].iter().partition(|pod| pod["metadata"]["namespace"] == "a");
    let ([pod], [reservation]) = (&own[..], &reservations[..]) else {
        panic!("{own:#?} {reservations:#?} {what}")
    };
    assert_eq!(pod["spec"]["nodeName"], node, "{what}");
    assert_eq!(reservation["spec"]["nodeName"], node, "{what}");
    let group = |pod: &Value| pod["metadata"]["labels"]["runai-gpu-group"].clone();
    assert!(group(pod).is_string(), "{what}");
    assert_eq!(group(pod), group(reservation), "{what}");
}

/// A pod appears after five seconds, its reservation pod names a device at 35. From 20 to 50 seconds the first of two candidates
/// cannot renew these leases. Writes, and what there is in the end.
fn lease_is_lost(cut_off: impl Fn(&Api)) -> (Vec<String>, BTreeMap<String, Vec<Value>>) {
    in_virtual_time(async {
        let begin = Instant::now();
        let clock = Arc::new(move || begin.elapsed().as_secs_f64());
        let api = Api::new(clock, Vec::new(), vec![30, 0], Vec::new());
        api.set("/api/v1/nodes", gpu_node("n1", "2"));
        api.set("/apis/scheduling.run.ai/v2/queues", queue());
        let story = async {
            sleep(Duration::from_secs(5)).await;
            api.set(PODS, half("p"));
            sleep(Duration::from_secs(15)).await;
            cut_off(&api);
            sleep(Duration::from_secs(30)).await;
            api.cut_off(None);
        };
        let second = async {
            sleep(Duration::from_secs(1)).await;
            candidate(&api, begin, " two", 100).await;
        };
        tokio::join!(candidate(&api, begin, " one", 100), second, story);
        let is_write = |line: &String| !line.contains(" GET ") && !line.contains("/leases");
        (api.log().into_iter().filter(is_write).collect(), api.objects())
    })
}

#[test]
fn process_that_takes_all_leases_over_binds_what_the_other_had_begun() {
    let (log, objects) = lease_is_lost(|api| api.cut_off(Some(" one")));
    assert_bound(&objects, "n1", &format!("{log:#?}"));
    let bound = requests(&log, "pods/p/binding");
    assert!(matches!(bound[..], [(_, "two")]), "{bound:?}");
    let by_one = requests(&log, " ").into_iter().filter(|(_, caller)| *caller == "one");
    let last = by_one.map(|(time, _)| time).fold(0.0, f64::max);
    assert!(last <= 31.0, "the first process goes on at {last}: {log:#?}");
}

/// The other candidate leaves the lease alone while it does not lead as scheduler: the first one gets it back.
#[test]
fn bind_goes_through_an_object_while_the_process_does_not_lead_as_binder() {
    let (log, objects) = lease_is_lost(|api| api.cut_off_lease(" one", BINDER_LEASE));
    assert_bound(&objects, "n1", &format!("{log:#?}"));
    let posted = requests(&log, "POST /apis/scheduling.run.ai/v1alpha2/namespaces/a/bindrequests");
    assert!(matches!(posted[..], [(time, "one")] if time > 20.0), "{posted:?}");
    let bound = requests(&log, "pods/p/binding");
    assert!(matches!(bound[..], [(time, "one")] if time >= 50.0), "{bound:?}");
    assert_eq!(bind_requests_of(&objects)[0]["status"]["phase"], "Succeeded", "{log:#?}");
}

/// Two nodes, the pod `p`, and reservation pods that name their devices after ten seconds.
fn story() -> Story {
    let objects = vec![
        ("/api/v1/nodes", gpu_node("n1", "2")),
        ("/api/v1/nodes", gpu_node("n2", "2")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        (PODS, half("p")),
    ];
    Story { objects, agents: vec![10], seconds: 60, ..Story::default() }
}

#[test]
fn request_of_another_scheduler_replaces_the_local_one() {
    let request = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": "p-x7f2k", "namespace": "a", "uid": "u",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}]},
        "spec": {"podName": "p", "selectedNode": "n2", "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"}, "selectedGPUGroups": ["theirs"]},
        "status": {},
    });
    let later = vec![(3, crate::BIND_REQUESTS, request)];
    let (log, objects) = play(Story { later, ..story() });
    let what = format!("{log:#?}");
    assert_bound(&objects, "n2", &what);
    assert_eq!(times(&writes(&log), "pods/p/binding").len(), 1, "{what}");
    assert_eq!(bind_requests_of(&objects)[0]["status"]["phase"], "Succeeded", "{what}");
}

#[test]
fn local_request_goes_with_its_pod_and_not_to_the_next_of_its_name() {
    let mut next = half("p");
    next["metadata"]["uid"] = json!("uid-next");
    let gone = vec![(3, "/api/v1/namespaces/a/pods/p")];
    let (log, objects) = play(Story { gone, later: vec![(4, PODS, next)], ..story() });
    let writes = writes(&log);
    assert_bound(&objects, "n1", &format!("{writes:#?}"));
    let bound: Vec<&&str> = writes.iter().filter(|line| line.contains("pods/p/binding")).collect();
    let [bound] = bound[..] else { panic!("{writes:#?}") };
    assert!(bound.contains("uid-next"), "{bound}");
}

#[test]
fn pod_that_goes_during_its_bind_leaves_nothing() {
    let gone = vec![(3, "/api/v1/namespaces/a/pods/p")];
    let (log, objects) = play(Story { gone, ..story() });
    assert!(objects[PODS].is_empty(), "{log:#?}");
    assert!(times(&writes(&log), "/binding").is_empty(), "{log:#?}");
}
