//! How much a waiting pod may ask for in words: each is compared with, and reported of, every node.

use kai_core::input::PodSpec;
use kai_core::input::pod::GpuRequest;

use crate::problem::Complaints;

/// Different resources beside CPU, memory and whole GPUs.
const MOST_NAMED_RESOURCES: usize = 64;
/// Terms and expressions of the affinity to nodes, and of that to pods.
const MOST_EXPRESSIONS: usize = 1_000;

pub(super) fn check(pod: &PodSpec, complaints: &mut Complaints) {
    let profiles =
        if let GpuRequest::Mig(profiles) = &pod.request.gpu { profiles.len() } else { 0 };
    let resources = pod.request.other.len() + profiles;
    if resources > MOST_NAMED_RESOURCES {
        let message = format!(
            "the pod requests {resources} different resources, at most {MOST_NAMED_RESOURCES} are supported"
        );
        complaints.add("spec.containers", message);
    }
    let constraints = &pod.constraints;
    let node_terms = constraints.node_terms.iter();
    let of_nodes: usize = node_terms.map(|term| 1 + term.labels.len() + term.fields.len()).sum();
    let required = constraints.pod_affinity.iter().chain(&constraints.pod_anti_affinity);
    let preferred = constraints.preferred_pod_terms.iter().map(|(_, term)| term);
    let of_pods: usize =
        required.chain(preferred).map(|term| 1 + term.selector.requirements.len()).sum();
    for (field, count) in
        [("spec.affinity.nodeAffinity", of_nodes), ("spec.affinity.podAffinity", of_pods)]
    {
        if count > MOST_EXPRESSIONS {
            let message = format!(
                "has {count} terms and expressions, at most {MOST_EXPRESSIONS} are supported"
            );
            complaints.add(field, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::pod::{PodRules, translate};

    #[test]
    fn only_pods_that_are_to_be_placed_are_limited() {
        let requests: serde_json::Map<String, Value> =
            (0..65).map(|number| (format!("example.com/r{number}"), json!("1"))).collect();
        let container = json!({"name": "c", "resources": {"requests": requests}});
        let read = |scheduler: &str, node: Option<&str>| {
            let spec =
                json!({"schedulerName": scheduler, "nodeName": node, "containers": [container]});
            let pod =
                json!({"metadata": {"name": "p", "namespace": "a", "uid": "u"}, "spec": spec});
            translate(&serde_json::from_value(pod).expect("a pod"), &PodRules::default())
        };
        let waiting = read("kai-scheduler", None);
        assert!(waiting.object.is_none());
        assert_eq!(
            waiting.problems[0].to_string(),
            "Pod a/p: spec.containers: the pod requests 65 different resources, at most 64 are supported"
        );
        for (scheduler, node) in
            [("kai-scheduler", Some("n")), ("other", Some("n")), ("other", None)]
        {
            let counted = read(scheduler, node);
            assert!(counted.problems.is_empty(), "{scheduler} {node:?}");
            assert_eq!(counted.object.map(|pod| pod.request.other.len()), Some(65));
        }
    }
}
