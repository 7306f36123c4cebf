//! `Config` and shards in virtual time: read live, told once, and the same every time.

use serde_json::{Value, json};

use crate::virtual_time::{Story, play};
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
fn settings_are_read_live_and_told_once() {
    let (log, objects) = play(story());
    assert_eq!(log, play(story()).0, "the same story gives the same requests");
    let writes = writes(&log);
    let told = times(&writes, "PATCH /apis/kai.scheduler/v1/configs/kai-config/status");
    assert_eq!(told.len(), 2, "at first and when it changes: {writes:#?}");
    assert!(told[0] < 1.0 && (50.0..52.0).contains(&told[1]), "{told:?}");
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
