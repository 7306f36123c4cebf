//! A pod whose group cannot be determined gets the reason, once.

use serde_json::json;

use crate::virtual_time::{Story, requests_of};
use crate::{node, pod, queue, writes};

#[test]
fn reason_why_a_pod_has_no_group_is_reported_once() {
    let mut member = pod("p", "1");
    member["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "uid-j", "controller": true}]);
    let story = Story {
        objects: vec![
            ("/api/v1/nodes", node("n1", "4")),
            ("/apis/scheduling.run.ai/v2/queues", queue()),
            ("/api/v1/pods", member),
        ],
        seconds: 150,
        ..Story::default()
    };
    let log = requests_of(story);
    let writes = writes(&log);
    let reports: Vec<&&str> =
        writes.iter().filter(|line| line.contains("PodGrouperWarning")).collect();
    assert_eq!(reports.len(), 1, "{writes:#?}");
    assert!(reports[0].contains("Job") && reports[0].contains("pod-grouper"), "{reports:?}");
    assert!(!writes.iter().any(|line| line.contains("/binding")), "{writes:#?}");
}
