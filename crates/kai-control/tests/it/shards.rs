//! `Config` and shards in virtual time: read live, reported once, and the same every time.

use std::sync::Arc;

use kai_client::env::{Env, TokioSpawner};
use kai_client::lease::Election;
use kai_control::run::Connections;
use kai_control::shards;
use kai_settings::planner::Settings;
use serde_json::{Value, json};
use tokio::sync::mpsc::channel;
use tokio::time::{Duration, Instant, sleep};

use crate::api::Api;
use crate::virtual_time::{Story, VirtualClock, client, play};
use crate::{node, pod, queue, times, writes};

const CONFIGS: &str = "/apis/kai.scheduler/v1/configs";
const SHARDS: &str = "/apis/kai.scheduler/v1/schedulingshards";

fn object(kind: &str, name: &str, generation: i64, spec: &Value) -> Value {
    json!({"apiVersion": "kai.scheduler/v1", "kind": kind,
        "metadata": {"name": name, "generation": generation}, "spec": spec})
}

/// A Config that makes no sense until it is repaired, a shard, and pods before and after.
fn story() -> Story {
    let bad = json!({"binder": {"plugins": {"magic": {}}}});
    let good = json!({"queueController": {"metricsNamespace": "ours"}});
    Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "2")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            (CONFIGS, object("Config", "kai-config", 1, &bad)),
            (SHARDS, object("SchedulingShard", "default", 1, &json!({"args": {"typo": "1"}}))),
            ("/api/v1/pods", pod("early", "1")),
        ],
        later: vec![
            (50, CONFIGS, object("Config", "kai-config", 2, &good)),
            (80, "/api/v1/pods", pod("late", "1")),
        ],
        divided: true,
        seconds: 100,
        ..Story::default()
    }
}

fn ready(objects: &[Value]) -> (&str, &str) {
    let conditions = objects[0]["status"]["conditions"].as_array().expect("conditions");
    let ready = conditions.iter().find(|one| one["type"] == "Ready").expect("a condition");
    (ready["status"].as_str().expect("a status"), ready["message"].as_str().expect("a message"))
}

#[test]
fn settings_are_read_live_and_reported_once() {
    let (log, objects) = play(story());
    assert_eq!(log, play(story()).0, "the same story gives the same requests");
    let writes = writes(&log);
    let reported = times(&writes, "PATCH /apis/kai.scheduler/v1/configs/kai-config/status");
    assert_eq!(reported.len(), 2, "at first and when it changes: {writes:#?}");
    assert!(reported[0] < 1.0 && (50.0..52.0).contains(&reported[1]), "{reported:?}");
    let shard = times(&writes, "PATCH /apis/kai.scheduler/v1/schedulingshards/default/status");
    assert_eq!(shard.len(), 1, "it never changed: {writes:#?}");
    assert_eq!(ready(&objects[CONFIGS]), ("True", "System is ready"));
    assert_eq!(ready(&objects[SHARDS]), ("False", "unknown flag: --typo"));
    let refused = "spec.binder.plugins.magic: there is no such plugin";
    assert!(writes.iter().any(|line| line.contains(refused)), "{writes:#?}");
    for (name, second) in [("early", 0.0), ("late", 80.0)] {
        let bound = times(&writes, &format!("pods/{name}/binding"));
        assert_eq!(bound.len(), 1, "{writes:#?}");
        assert!((second..second + 2.0).contains(&bound[0]), "{name}: {bound:?}");
    }
}

/// Two processes that read the same `Config`, which changes at 10 and at 40 seconds; from 20 on the first cannot renew its
/// leases. Requests of both.
fn two_processes() -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let begin = Instant::now();
        let clock = Arc::new(move || begin.elapsed().as_secs_f64());
        let api = Api::new(clock, Vec::new(), Vec::new(), Vec::new());
        api.set(CONFIGS, object("Config", "kai-config", 1, &json!({})));
        api.set(SHARDS, object("SchedulingShard", "default", 1, &json!({})));
        let process = |name: &'static str| {
            let election =
                Election { identity: name.to_owned(), namespace: "kai-scheduler".to_owned() };
            let settings = Settings { election: Some(election), ..Settings::default() };
            let env = Env::new(Arc::new(VirtualClock(begin)), Arc::new(TokioSpawner));
            let client = client(&api.of(name));
            async move {
                let (_silence, questions) = channel(1);
                let end = sleep(Duration::from_secs(58));
                let connections = Connections::new(client, env, questions);
                Box::pin(shards::run(connections, settings, |_| {}, end)).await;
            }
        };
        let story = async {
            sleep(Duration::from_secs(10)).await;
            api.set(CONFIGS, object("Config", "kai-config", 2, &json!({})));
            sleep(Duration::from_secs(10)).await;
            api.cut_off(Some(" one"));
            sleep(Duration::from_secs(20)).await;
            api.set(CONFIGS, object("Config", "kai-config", 3, &json!({})));
        };
        let second = async {
            sleep(Duration::from_secs(1)).await;
            Box::pin(process(" two")).await;
        };
        tokio::join!(process(" one"), second, story);
        api.log()
    })
}

#[test]
fn only_the_leader_reports_the_status_of_settings() {
    let log = two_processes();
    assert_eq!(log, two_processes(), "the same story gives the same requests");
    let reported: Vec<(f64, &str)> = log
        .iter()
        .filter(|line| line.contains("PATCH /apis/kai.scheduler/v1/configs/kai-config/status"))
        .map(|line| {
            let mut words = line.split(' ');
            let second = words.next().and_then(|word| word.parse().ok()).expect("a time");
            (second, words.next().expect("a caller"))
        })
        .collect();
    let [(first, one), (second, again), (third, other)] = reported[..] else {
        panic!("{reported:#?}")
    };
    assert!(first < 3.0 && (10.0..12.0).contains(&second) && (40.0..42.0).contains(&third));
    assert_eq!((one, again, other), ("one", "one", "two"), "{reported:#?}");
    let shard = log.iter().filter(|line| line.contains("schedulingshards/default/status"));
    assert_eq!(shard.count(), 1);
}

/// A pod comes with a change of settings: it is planned under the new ones.
#[test]
fn a_pod_received_after_a_change_of_settings_is_planned_under_the_new_ones() {
    let shard = |generation: i64, allocates: bool| {
        let spec = json!({"actions": {"allocate": {"enabled": allocates}}});
        object("SchedulingShard", "default", generation, &spec)
    };
    let (log, objects) = play(Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "4")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            (SHARDS, shard(1, true)),
            ("/api/v1/pods", pod("before", "1")),
        ],
        later: vec![
            (50, SHARDS, shard(2, false)),
            (50, "/api/v1/pods", pod("after", "1")),
            (90, SHARDS, shard(3, true)),
        ],
        divided: true,
        seconds: 100,
        ..Story::default()
    });
    let writes = writes(&log);
    assert_eq!(times(&writes, "pods/before/binding").len(), 1, "{writes:#?}");
    let after = times(&writes, "pods/after/binding");
    assert_eq!(after.len(), 1, "{writes:#?}");
    assert!((90.0..90.1).contains(&after[0]), "not while nothing is allocated: {after:?}");
    let reported = times(&writes, "schedulingshards/default/status");
    assert_eq!(reported.len(), 3, "once per generation: {reported:?}");
    assert!((50.0..50.1).contains(&reported[1]), "without a delay: {reported:?}");
    assert_eq!(ready(&objects[SHARDS]), ("True", "System is ready"));
}
