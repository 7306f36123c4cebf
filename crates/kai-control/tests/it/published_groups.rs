//! With `--pod-groups=always` the object of a pod's group, and the pod's annotation, exist before the pod is bound.

use kai_settings::planner::Publish;

use crate::virtual_time::{Story, requests_of};
use crate::{fault, node, pod, queue, times, writes};

const PODS: usize = 60;

/// A burst of pods, each its own group; the first writes of some groups fail.
fn burst() -> Story {
    let mut node = node("n1", "100");
    node["status"]["allocatable"]["pods"] = "100".into();
    let mut objects = vec![("/api/v1/nodes", node), ("/apis/scheduling.run.ai/v2/queues", queue())];
    objects.extend((0..PODS).map(|at| ("/api/v1/pods", pod(&format!("p{at:02}"), "100m"))));
    let faults = vec![
        fault("PATCH", "podgroups/pg-p07-uid-p07", 403, 2),
        fault("PATCH", "/api/v1/namespaces/a/pods/p08", 403, 2),
    ];
    Story { objects, faults, publish: Some(Publish::Always), seconds: 30, ..Story::default() }
}

#[test]
fn no_pod_of_a_burst_is_bound_before_its_group_and_annotation_are_written() {
    let log = requests_of(burst());
    let writes = writes(&log);
    let place = |what: &str| writes.iter().rposition(|line| line.contains(what));
    for at in 0..PODS {
        let name = format!("p{at:02}");
        let bound = place(&format!("pods/{name}/binding"));
        let bound = bound.unwrap_or_else(|| panic!("{name} is not bound: {writes:#?}"));
        let group = place(&format!("podgroups/pg-{name}-uid-{name}?"));
        let annotation = writes[..bound].iter().rposition(|line| {
            line.contains(&format!("PATCH /api/v1/namespaces/a/pods/{name}"))
                && line.contains("pod-group-name")
        });
        assert!(group.is_some_and(|group| group < bound), "{name}: {writes:#?}");
        assert!(annotation.is_some_and(|write| write < bound), "{name}: {writes:#?}");
        assert_eq!(times(&writes, &format!("pods/{name}/binding")).len(), 1, "{writes:#?}");
    }
    let last = times(&writes, "/binding").into_iter().fold(0.0, f64::max);
    assert!(last < 5.0, "refused writes are repeated: {last}");
}

#[test]
fn a_pod_whose_annotation_is_observed_after_its_group_is_bound() {
    let objects = vec![
        ("/api/v1/nodes", node("n1", "4")),
        ("/apis/scheduling.run.ai/v2/queues", queue()),
        ("/api/v1/pods", pod("p", "1")),
    ];
    let faults = vec![fault("PATCH", "/api/v1/namespaces/a/pods/p", 403, 2)];
    let publish = Some(Publish::Always);
    let log = requests_of(Story { objects, faults, publish, seconds: 30, ..Story::default() });
    let writes = writes(&log);
    let marks = writes.iter().filter(|line| line.contains("last-start")).count();
    assert_eq!(times(&writes, "pods/p/binding").len(), 1, "{writes:#?}");
    assert_eq!(marks, 1, "it starts once, with its bind: {writes:#?}");
}

#[test]
fn pods_are_bound_at_once_where_groups_need_not_come_first() {
    let log = requests_of(Story { publish: None, ..burst() });
    let bound = times(&writes(&log), "/binding");
    assert_eq!(bound.len(), PODS);
    assert!(bound.iter().all(|second| *second < 0.1), "{bound:?}");
}
