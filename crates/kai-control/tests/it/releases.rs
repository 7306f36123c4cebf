//! Reservations that no pod needs any more are removed, whatever the server answers to the first tries.

use serde_json::{Value, json};

use crate::virtual_time::{Story, play};
use crate::{fault, node, pod, queue, times, writes};

const PODS: &str = "/api/v1/pods";
const RESERVATIONS: &str = "/api/v1/namespaces/kai-resource-reservation/pods";

/// A pod that shares a device is gone after half a minute.
fn story() -> Story {
    let mut place = node("n1", "8");
    place["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
    let mut sharing = pod("p", "1");
    sharing["metadata"]["annotations"] =
        json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "p-shared-gpu"});
    Story {
        objects: vec![
            ("/api/v1/nodes", place),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            (PODS, sharing),
        ],
        gone: vec![(30, "/api/v1/namespaces/a/pods/p")],
        agents: vec![1],
        seconds: 120,
        ..Story::default()
    }
}

#[test]
fn a_removal_that_is_refused_is_tried_again() {
    for code in [409, 429, 500] {
        let faults = vec![fault("DELETE", RESERVATIONS, code, 2)];
        let (log, objects) = play(Story { faults, ..story() });
        assert_eq!(objects[PODS], Vec::<Value>::new(), "{code}: {log:#?}");
        let tried = times(&writes(&log), &format!("DELETE {RESERVATIONS}"));
        assert_eq!(tried.len(), 3, "{code}: {tried:?}");
    }
}
