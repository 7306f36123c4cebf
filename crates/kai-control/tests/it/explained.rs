//! `kai explain` plans as the shard would that it concerns.

use std::sync::Arc;

use kai_client::env::{Env, TokioSpawner};
use kai_control::explain::{ExplainError, ExplainTarget, explain};
use kai_core::input::ObjectName;
use kai_settings::flags::Flagged;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, Fault};
use crate::virtual_time::{VirtualClock, client};
use crate::{fault, node, pod, queue};

const POOL: &str = "kai.scheduler/node-pool";
const SHARDS: &str = "/apis/kai.scheduler/v1/schedulingshards";

/// A node and a queue in the part `gpu`, two shards, and one pod that fits.
fn objects() -> Vec<(&'static str, Value)> {
    let mut there = [node("n1", "4"), queue(), pod("p", "1")];
    for object in &mut there {
        object["metadata"]["labels"][POOL] = json!("gpu");
    }
    let [node, queue, pod] = there;
    let shard = |name: &str, spec: Value| json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": name}, "spec": spec});
    let strict =
        json!({"partitionLabelValue": "gpu", "args": {"restrict-node-scheduling": "true"}});
    vec![
        ("/api/v1/nodes", node),
        ("/apis/scheduling.run.ai/v2/queues", queue),
        ("/api/v1/pods", pod),
        (SHARDS, shard("default", json!({}))),
        (SHARDS, shard("strict", strict)),
    ]
}

fn ask(
    objects: Vec<(&'static str, Value)>,
    faults: Vec<Fault>,
    asked: &ExplainTarget,
) -> Result<String, ExplainError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let begin = Instant::now();
        let clock = Arc::new(move || begin.elapsed().as_secs_f64());
        let api = Api::new(clock, faults, Vec::new(), Vec::new());
        for (path, object) in objects {
            api.set(path, object);
        }
        let env = Env::new(Arc::new(VirtualClock(begin)), Arc::new(TokioSpawner));
        let answer = explain(&client(&api), &env, &Flagged::default().settings, None, asked).await;
        let log = api.log();
        assert!(log.iter().all(|line| line.contains(" GET ")), "nothing is written: {log:#?}");
        answer
    })
}

fn pod_p() -> ExplainTarget {
    ExplainTarget::Pod(ObjectName::new("a", "p"))
}

#[test]
fn the_settings_of_the_shard_count_that_the_pod_belongs_to() {
    let answer = ask(objects(), Vec::new(), &pod_p()).expect("an answer");
    assert!(answer.contains("can't run on non cpu nodes"), "{answer}");
    assert!(answer.ends_with("Planned as shard strict plans\n"), "{answer}");
    // A worker is what the shard wants.
    let mut suited = objects();
    suited[0].1["metadata"]["labels"]["node-role.kubernetes.io/cpu-worker"] = json!("");
    let answer = ask(suited, Vec::new(), &pod_p()).expect("an answer");
    assert!(answer.contains("a plan made now binds it to n1"), "{answer}");
    let answer = ask(objects(), Vec::new(), &ExplainTarget::Queue("q".into())).expect("an answer");
    assert!(answer.ends_with("Planned as shard strict plans\n"), "{answer}");
}

#[test]
fn config_counts_too() {
    let mut theirs = objects();
    theirs[2].1["spec"]["schedulerName"] = json!("theirs");
    let unknown = ask(theirs.clone(), Vec::new(), &pod_p()).expect_err("a pod of no shard");
    assert_eq!(
        unknown.to_string(),
        "there is no pod a/p here; another scheduler's, or in another part of the cluster?"
    );
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": {"global": {"schedulerName": "theirs"}}});
    theirs.push(("/apis/kai.scheduler/v1/configs", config));
    let answer = ask(theirs, Vec::new(), &pod_p()).expect("an answer");
    assert!(answer.starts_with("Pod a/p of group a/pg-p-uid-p\n"), "{answer}");
}

#[test]
fn past_usage_that_cannot_be_learnt_is_missed() {
    let mut recorded = objects();
    recorded[4].1["spec"]["usageDBConfig"] = json!({"clientType": "recorder"});
    let answer = ask(recorded.clone(), Vec::new(), &pod_p()).expect("an answer");
    assert!(!answer.contains("Past usage"), "{answer}");
    let unread = fault("GET", "configmaps/kai-scheduler-usage-gpu", 500, u32::MAX);
    let answer = ask(recorded, vec![unread], &pod_p()).expect("an answer");
    assert!(answer.contains("Past usage counts and could not be learnt"), "{answer}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let forbidden = vec![fault("GET", "/api/v1/nodes", 403, u32::MAX)];
    let error = ask(objects(), forbidden, &pod_p()).expect_err("no answer");
    assert!(error.to_string().starts_with("Node: "), "{error}");
}
