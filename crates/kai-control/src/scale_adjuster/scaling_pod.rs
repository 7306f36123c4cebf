//! Scaling pods: each asks the default scheduler, and so the cluster's autoscaler, for whole devices on behalf of a pod that
//! shares some. Autoscalers do not see annotations.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm};
use kai_api::json;
use kai_api::names::{gpu, objects};
use kai_binder::scaling_pod_origin;
use kai_client::short_hash::short_hash;
use kai_core::input::{ObjectName, Text};
use kai_translate::view;
use serde_json::{Value, json};

use super::ScaleAdjusterSettings;

/// Longest name of a pod.
const LONGEST_NAME: usize = 253;
/// Longest value of a label.
const LONGEST_LABEL: usize = 63;
/// A dash and a hash.
const HASHED: usize = 17;

/// A scaling pod that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScalingPod {
    pub(super) uid: Text,
    /// The pod it stands for.
    pub(super) origin: ObjectName,
    /// Devices it asks for.
    pub(super) devices: i64,
    /// The scaling pod was evicted and still ends.
    pub(super) leaving: bool,
    /// It ran: there is a node.
    pub(super) ended: bool,
}

impl ScalingPod {
    pub(super) fn read(pod: &view::Pod) -> Self {
        let requests = pod.spec.containers.first().map(|container| &container.resources.requests);
        let devices = requests.and_then(|requests| requests.get(gpu::NVIDIA)?.parse().ok());
        Self {
            uid: pod.metadata.uid.as_str().into(),
            origin: scaling_pod_origin(pod),
            devices: devices.map_or(0, |devices| devices.value()),
            leaving: pod.metadata.is_terminating(),
            ended: has_ended(pod),
        }
    }
}

/// It does not run and never will again.
pub(super) fn has_ended(pod: &view::Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// The name of the scaling pod of a pod: `<namespace>-<name>`, with a hash where that is too long or means another pod, too.
pub(super) fn name(origin: &ObjectName, is_taken: bool) -> String {
    let plain = format!("{}-{}", origin.namespace, origin.name);
    let fits = plain.len() <= LONGEST_NAME && !is_taken;
    if fits { plain } else { hashed(&plain, origin, LONGEST_NAME) }
}

/// The beginning of a text and a hash that only this pod has.
fn hashed(text: &str, origin: &ObjectName, longest: usize) -> String {
    let kept: String = text.chars().take(longest - HASHED).collect();
    let kept = kept.trim_end_matches(['-', '.']);
    format!("{kept}-{}", short_hash(&origin.to_string()))
}

fn label(text: &str, origin: &ObjectName) -> String {
    if text.len() <= LONGEST_LABEL { text.to_owned() } else { hashed(text, origin, LONGEST_LABEL) }
}

/// What a scaling pod copies from the pod it stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blueprint {
    /// Number of devices that the pod shares.
    pub(super) devices: i64,
    /// Millicores, of its containers, init containers and sandbox.
    pub(super) cpu_milli: i64,
    /// Memory of its containers, init containers and sandbox, in bytes.
    pub(super) memory_bytes: i64,
    /// Value of the label of its node pool.
    pub(super) pool: Option<String>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) affinity: Option<Box<Affinity>>,
    pub(super) tolerations: Vec<view::Toleration>,
}

/// The scaling pod of a pod.
pub(super) fn manifest(
    name: &str,
    origin: &ObjectName,
    blueprint: &Blueprint,
    settings: &ScaleAdjusterSettings,
) -> Value {
    let mut labels = json!({
        objects::APP: settings.app_label,
        objects::SHARED_GPU_POD_NAME: label(&origin.name, origin),
        objects::SHARED_GPU_POD_NAMESPACE: label(&origin.namespace, origin),
    });
    if let Some(pool) = &blueprint.pool {
        json::set(&mut labels, &[settings.node_pool_label_key.as_str()], json!(pool));
    }
    let devices = json!(blueprint.devices.to_string());
    let mut requests = json!({gpu::NVIDIA: devices});
    if blueprint.cpu_milli > 0 {
        json::set(&mut requests, &["cpu"], json!(format!("{}m", blueprint.cpu_milli)));
    }
    if blueprint.memory_bytes > 0 {
        json::set(&mut requests, &["memory"], json!(blueprint.memory_bytes.to_string()));
    }
    let affinity =
        blueprint.affinity.as_deref().map(|affinity| from_other_namespace(affinity, origin));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": labels,
            "annotations": {objects::SCALING_FOR: origin.to_string()},
        },
        "spec": {
            "affinity": affinity,
            "tolerations": blueprint.tolerations,
            "nodeSelector": blueprint.node_selector,
            "restartPolicy": "OnFailure",
            "serviceAccountName": settings.service_account,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": objects::SCALING_POD,
                "image": settings.image,
                "imagePullPolicy": settings.pull_policy,
                // Of our image; KAI's does the same without the argument.
                "args": ["agent", "scale"],
                "resources": {"requests": requests, "limits": {gpu::NVIDIA: devices}},
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "runAsNonRoot": true,
                    "runAsUser": 10_000,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }],
        },
    })
}

/// The affinity as it reads in another namespace: pods that were meant are those beside the original.
fn from_other_namespace(affinity: &Affinity, origin: &ObjectName) -> Affinity {
    let mut affinity = affinity.clone();
    let locate = |term: &mut PodAffinityTerm| {
        let named = term.namespaces.as_ref().is_some_and(|names| !names.is_empty());
        if !named && term.namespace_selector.is_none() {
            term.namespaces = Some(vec![origin.namespace.to_string()]);
        }
    };
    if let Some(near) = &mut affinity.pod_affinity {
        let required = &mut near.required_during_scheduling_ignored_during_execution;
        let preferred = &mut near.preferred_during_scheduling_ignored_during_execution;
        required.iter_mut().flatten().for_each(locate);
        preferred.iter_mut().flatten().for_each(|one| locate(&mut one.pod_affinity_term));
    }
    if let Some(far) = &mut affinity.pod_anti_affinity {
        let required = &mut far.required_during_scheduling_ignored_during_execution;
        let preferred = &mut far.preferred_during_scheduling_ignored_during_execution;
        required.iter_mut().flatten().for_each(locate);
        preferred.iter_mut().flatten().for_each(|one| locate(&mut one.pod_affinity_term));
    }
    affinity
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blueprint() -> Blueprint {
        let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}},
            {"topologyKey": "zone", "namespaces": ["other"]},
        ]}});
        Blueprint {
            devices: 2,
            cpu_milli: 1500,
            memory_bytes: 1 << 30,
            pool: Some("p".to_owned()),
            node_selector: [("disk".to_owned(), "fast".to_owned())].into(),
            affinity: Some(serde_json::from_value(affinity).expect("an affinity")),
            tolerations: vec![view::Toleration { key: Some("gpu".into()), ..Default::default() }],
        }
    }

    #[test]
    fn a_scaling_pod_asks_for_whole_devices_where_the_pod_would_go() {
        let settings = ScaleAdjusterSettings::default();
        let origin = ObjectName::new("team", "train-0");
        let pod = manifest(&name(&origin, false), &origin, &blueprint(), &settings);
        assert_eq!(pod["metadata"]["name"], "team-train-0");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "scaling-pod", "shared-gpu-pod-name": "train-0",
                "shared-gpu-pod-namespace": "team", "kai.scheduler/node-pool": "p"})
        );
        let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
        assert!(spec["schedulerName"].is_null(), "the default scheduler places it");
        assert_eq!(spec["restartPolicy"], "OnFailure");
        assert_eq!(spec["serviceAccountName"], "kai-scale-adjust");
        assert_eq!(spec["nodeSelector"], json!({"disk": "fast"}));
        assert_eq!(spec["tolerations"], json!([{"key": "gpu"}]));
        assert_eq!(
            (&container["name"], &container["imagePullPolicy"]),
            (&json!("scaling-pod"), &json!("IfNotPresent"))
        );
        assert_eq!(
            container["resources"],
            json!({"requests": {"nvidia.com/gpu": "2", "cpu": "1500m", "memory": "1073741824"},
                "limits": {"nvidia.com/gpu": "2"}})
        );
        let near =
            &spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(near[0]["namespaces"], json!(["team"]), "pods beside the original are meant");
        assert_eq!(near[1]["namespaces"], json!(["other"]));
    }

    #[test]
    fn what_was_written_is_read() {
        let origin = ObjectName::new("team", "x".repeat(200));
        let pod = manifest("n", &origin, &blueprint(), &ScaleAdjusterSettings::default());
        let label = pod["metadata"]["labels"]["shared-gpu-pod-name"].as_str().expect("a label");
        assert_eq!(label.len(), LONGEST_LABEL);
        let mut pod: view::Pod = serde_json::from_value(pod).expect("a pod");
        let read = ScalingPod::read(&pod);
        assert_eq!((read.origin, read.devices, read.ended), (origin, 2, false));
        pod.metadata.annotations.clear();
        pod.metadata.labels.insert(objects::SHARED_GPU_POD_NAME.to_owned(), "p".to_owned());
        assert_eq!(ScalingPod::read(&pod).origin, ObjectName::new("team", "p"), "KAI's");
    }

    #[test]
    fn names_are_short_enough_and_mean_one_pod() {
        let (one, other) = (ObjectName::new("a-b", "c"), ObjectName::new("a", "b-c"));
        assert_eq!(name(&one, false), name(&other, false));
        let hashed = name(&other, true);
        assert!(hashed.starts_with("a-b-c-") && hashed.len() == "a-b-c".len() + HASHED, "{hashed}");
        let long = ObjectName::new("n".repeat(63), "p".repeat(253));
        assert_eq!(name(&long, false).len(), LONGEST_NAME);
    }
}
