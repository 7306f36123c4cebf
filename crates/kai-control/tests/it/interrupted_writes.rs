//! `kai` dies between any two of its writes, and another takes over: whatever it was about, all of it is done in the end,
//! once, and nothing is left over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request};
use kai_client::env::{Env, Spawner, Work};
use kai_control::run::{Connections, run};
use kai_settings::planner::BindRequests;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::channel;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use crate::api::Api;
use crate::evictions::{crowd, preemption};
use crate::virtual_time::{GroupLabels, Story, VirtualClock, client, in_virtual_time};
use crate::{bind_requests_of, class, gpu_node, node, of_class, pod, queue, sharing_pod};

const PODS: &str = "/api/v1/pods";
const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2/podgroups";
const RESERVATIONS: &str = "kai-resource-reservation";
/// More than the writes of any story here.
const MANY: usize = 100;

/// Everything that one process started.
#[derive(Clone, Default)]
struct Process(Arc<Mutex<JoinSet<()>>>);

impl Process {
    /// At once, with whatever is under way.
    fn kill(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

impl Spawner for Process {
    fn spawn(&self, _name: &'static str, work: Work) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).spawn(work);
    }
}

/// A client that carries so many writes out; the next, and all that follow, are never sent and never answered.
fn dying_client(api: &Api, writes: usize, attempted: Arc<AtomicUsize>) -> Client {
    let api = api.clone();
    let transport = tower::service_fn(move |request: Request<Body>| {
        let (api, attempted) = (api.clone(), Arc::clone(&attempted));
        async move {
            let is_write = request.method() != Method::GET;
            if is_write && attempted.fetch_add(1, Ordering::SeqCst) >= writes {
                std::future::pending::<()>().await;
            }
            api.answer(request).await
        }
    });
    Client::new(transport, "default")
}

/// One process until `end`, then it is killed.
async fn live(story: &Story, client: Client, begin: Instant, end: impl Future<Output = ()> + Send) {
    let process = Process::default();
    let env = Env::new(Arc::new(VirtualClock(begin)), Arc::new(process.clone()));
    let (_silence, questions) = channel(1);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    // The process gets no signal: its future is dropped.
    let connections = Connections::new(client, env, questions);
    let alive = run(connections, story.settings(), async { drop(stopped.await) });
    tokio::select! { biased;
        () = end => {}
        () = alive => {}
    }
    process.kill();
    drop(stop);
}

/// Whether the first of two died, the requests of both, and what there is in the end.
fn dies_after(story: &Story, writes: usize) -> (bool, Vec<String>, BTreeMap<String, Vec<Value>>) {
    in_virtual_time(async {
        let begin = Instant::now();
        let clock = Arc::new(move || begin.elapsed().as_secs_f64());
        let api = Api::new(clock, Vec::new(), story.agents.clone(), Vec::new());
        story.begin(&api);
        let attempted = Arc::new(AtomicUsize::new(0));
        let dead = async {
            for _ in 0..story.seconds * 100 {
                if attempted.load(Ordering::SeqCst) > writes {
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        live(story, dying_client(&api, writes, Arc::clone(&attempted)), begin, dead).await;
        let died = attempted.load(Ordering::SeqCst) > writes;
        let end = sleep(Duration::from_secs(story.seconds));
        live(story, client(&api), begin, end).await;
        (died, api.log(), api.objects())
    })
}

/// Plays the story with a death after every number of writes, and looks at how it ends.
fn dies_everywhere(
    story: &Story,
    at_least: usize,
    look: impl Fn(&BTreeMap<String, Vec<Value>>, &str),
) {
    for writes in 0..MANY {
        let (died, log, objects) = dies_after(story, writes);
        let what = format!("killed after {writes} writes: {log:#?}");
        let mut bound = BTreeSet::new();
        for line in log.iter().filter(|line| line.contains("/binding ")) {
            let path = line.split(' ').nth(2).expect("a path");
            assert!(bound.insert(path), "bound twice: {path}, {what}");
        }
        look(&objects, &what);
        if !died {
            assert!(writes >= at_least, "it takes at least {at_least} writes: {what}");
            return;
        }
    }
    panic!("more than {MANY} writes");
}

fn of_gang(mut pod: Value) -> Value {
    pod["metadata"]["annotations"]["pod-group-name"] = json!("gang");
    pod
}

fn half(name: &str) -> Value {
    sharing_pod(name, "1", ("gpu-fraction", "0.5"))
}

#[test]
fn a_gang_that_shares_devices_is_bound_whole_wherever_kai_dies() {
    let with = |bind_requests| Story { bind_requests, ..Story::default() };
    assert_bound_whole(with(BindRequests::Needed), 7);
    assert_bound_whole(with(BindRequests::Always), 12);
    for group_labels in [GroupLabels::Unsigned, GroupLabels::OldServer] {
        assert_bound_whole(Story { group_labels, ..Story::default() }, 9);
    }
}

fn assert_bound_whole(settings: Story, at_least: usize) {
    let bind_requests = settings.bind_requests;
    let gang = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "a", "uid": "g", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"minMember": 3, "queue": "q"}});
    let story = Story {
        objects: vec![
            ("/api/v1/nodes", gpu_node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            (GROUPS, gang),
            (PODS, of_gang(half("m1"))),
            (PODS, of_gang(half("m2"))),
            (PODS, of_gang(pod("m3", "1"))),
            (PODS, pod("plain", "1")),
        ],
        agents: vec![1],
        seconds: 120,
        ..settings
    };
    dies_everywhere(&story, at_least, |objects, what| {
        let (own, reservations): (Vec<&Value>, Vec<&Value>) =
            objects[PODS].iter().partition(|pod| pod["metadata"]["namespace"] == "a");
        assert_eq!(own.len(), 4, "{what}");
        assert!(own.iter().all(|pod| pod["spec"]["nodeName"] == "n1"), "{what}");
        assert!(reservations.iter().all(|pod| pod["metadata"]["namespace"] == RESERVATIONS));
        let groups: BTreeSet<String> = own
            .iter()
            .filter_map(|pod| pod["metadata"]["labels"]["runai-gpu-group"].as_str())
            .map(str::to_owned)
            .collect();
        let kept: BTreeSet<String> = reservations
            .iter()
            .filter_map(|pod| pod["metadata"]["labels"]["runai-gpu-group"].as_str())
            .map(str::to_owned)
            .collect();
        assert_eq!(groups, kept, "no reservation is missing or left over: {what}");
        assert_eq!(kept.len(), reservations.len(), "one per group: {what}");
        let requests = bind_requests_of(objects);
        assert!(requests.iter().all(|one| one["status"]["phase"] == "Succeeded"), "{what}");
        assert_eq!(requests.is_empty(), bind_requests == BindRequests::Needed, "{what}");
    });
}

/// Every device of the node is needed, and the kubelet rejects reservation pods beyond them.
#[test]
fn full_devices_are_neither_oversold_nor_held_twice_wherever_kai_dies() {
    let names = ["h1", "h2", "h3", "h4"];
    let mut objects = vec![
        ("/api/v1/nodes", gpu_node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
    ];
    objects.extend(names.map(|name| (PODS, half(name))));
    let story =
        Story { objects, agents: vec![1], gpus_per_node: Some(2), seconds: 60, ..Story::default() };
    dies_everywhere(&story, 14, |objects, what| {
        assert!(!what.contains("FailedBinding"), "a reservation pod was rejected: {what}");
        let group = |pod: &Value| pod["metadata"]["labels"]["runai-gpu-group"].to_string();
        let (own, reservations): (Vec<&Value>, Vec<&Value>) =
            objects[PODS].iter().partition(|pod| pod["metadata"]["namespace"] == "a");
        let mut pods: BTreeMap<String, usize> = BTreeMap::new();
        for pod in &own {
            assert_eq!(pod["spec"]["nodeName"], "n1", "{what}");
            *pods.entry(group(pod)).or_default() += 1;
        }
        assert!(pods.values().all(|pods| *pods == 2), "{pods:?}: {what}");
        let kept: BTreeSet<String> = reservations.iter().map(|pod| group(pod)).collect();
        assert_eq!((kept.len(), reservations.len()), (2, 2), "{what}");
        assert!(kept.iter().all(|group| pods.contains_key(group)), "{what}");
        assert!(bind_requests_of(objects).is_empty(), "{what}");
    });
}

#[test]
fn an_eviction_is_carried_out_whole_wherever_kai_dies() {
    let story = Story { seconds: 60, ..preemption() };
    dies_everywhere(&story, 2, |objects, what| {
        let of_gang = |pod: &&Value| pod["metadata"]["annotations"]["pod-group-name"] == "gang";
        let victims: Vec<&Value> = objects[PODS].iter().filter(of_gang).collect();
        assert_eq!(victims.len(), 2, "no process removes them: {what}");
        let is_evicted = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_string();
        assert!(victims.iter().all(is_evicted), "one stays: {what}");
    });
}

/// Gangs and single pods, more than the first window holds: no eviction is repeated, none is forgotten.
#[test]
fn evictions_are_neither_repeated_nor_forgotten_wherever_kai_dies() {
    let story =
        Story { seconds: 60, ..crowd(&[("a", 1), ("b", 3), ("c", 1), ("d", 4), ("e", 2)], "11") };
    dies_everywhere(&story, 11, |objects, what| {
        let evictions = what.matches("/eviction").count();
        let victims: Vec<&Value> =
            objects[PODS].iter().filter(|pod| pod["metadata"]["name"] != "urgent").collect();
        let ends = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_string();
        assert_eq!(victims.iter().filter(|pod| ends(pod)).count(), 11, "forgotten: {what}");
        assert_eq!(evictions, 11, "repeated: {what}");
    });
}

#[test]
fn who_preempts_gets_the_place_wherever_kai_dies() {
    let story = Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", class("train", 50)),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", class("urgent", 75)),
            (PODS, of_class("low", "2", "train")),
        ],
        later: vec![(5, PODS, of_class("high", "2", "urgent"))],
        gone: vec![(60, "/api/v1/namespaces/a/pods/low")],
        seconds: 60,
        ..Story::default()
    };
    dies_everywhere(&story, 3, |objects, what| {
        let names: Vec<&Value> = objects[PODS].iter().map(|pod| &pod["metadata"]["name"]).collect();
        assert_eq!(names, ["high"], "{what}");
        assert_eq!(objects[PODS][0]["spec"]["nodeName"], "n1", "{what}");
    });
}
