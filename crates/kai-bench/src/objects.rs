//! Objects of the worlds that are measured.

use kai_testenv::objects;
use serde_json::{Value, json};

/// Namespace of all pods that are measured.
pub(crate) const NAMESPACE: &str = "bench";
/// Namespace of reservation pods.
pub(crate) const RESERVATIONS: &str = "kai-resource-reservation";
/// GPUs of a node.
pub(crate) const GPUS_PER_NODE: usize = 8;
/// Queue without quota: its pods may be reclaimed.
pub(crate) const BORROWER: &str = "borrower";
/// Queue with all quota.
pub(crate) const OWNER: &str = "owner";

/// The scheduler of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulerName {
    Kai,
    KubeScheduler,
    /// The load client binds the pod itself.
    None,
}

impl SchedulerName {
    fn name(self) -> &'static str {
        match self {
            Self::Kai => "kai-scheduler",
            Self::KubeScheduler => "default-scheduler",
            Self::None => "none",
        }
    }
}

/// What one pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Gpus(usize),
    HalfGpu,
}

/// The name of a node.
pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

pub(crate) fn node(number: usize, gpus: usize) -> Value {
    let amounts =
        json!({"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": gpus.to_string()});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node_name(number), "labels": {"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": gpus.to_string()}},
        "status": objects::ready_node_status(&amounts),
    })
}

pub(crate) fn queue(name: &str, gpus: i64) -> Value {
    objects::queue(name, &json!({"quota": gpus, "limit": -1, "overQuotaWeight": 1}))
}

pub(crate) fn pod(name: &str, scheduler: SchedulerName, queue: &str, request: Request) -> Value {
    let mut resources = json!({"cpu": "100m"});
    if let Request::Gpus(count) = request {
        resources["nvidia.com/gpu"] = json!(count.to_string());
    }
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kai.scheduler/queue": queue}, "annotations": {}},
        "spec": {
            "schedulerName": scheduler.name(),
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": resources, "limits": resources}}],
        },
    });
    if request == Request::HalfGpu {
        pod["metadata"]["annotations"]["gpu-fraction"] = json!("0.5");
        objects::add_share_references(&mut pod);
        // As our admission leaves it, so that the binder does not write the second map.
        pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["optional"] = json!(true);
    }
    pod
}

pub(crate) fn pod_group(name: &str, queue: &str, members: usize) -> Value {
    json!({
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": members, "queue": queue},
    })
}

/// A pod of a gang.
pub(crate) fn member(mut pod: Value, gang: &str) -> Value {
    pod["metadata"]["annotations"]["pod-group-name"] = json!(gang);
    pod
}

pub(crate) fn binding(pod: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

/// A reservation pod of the device `group` on a node.
pub(crate) fn reservation(group: &str, node: &str) -> Value {
    let gpu = json!({"nvidia.com/gpu": "1"});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("reservation-{group}"),
            "namespace": RESERVATIONS,
            "labels": {"app": "kai-resource-reservation", "runai-gpu-group": group},
        },
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "containers": [{"name": "resource-reservation", "image": "none", "resources": {"requests": gpu, "limits": gpu}}],
        },
    })
}

/// The config map to which a half-GPU pod refers.
pub(crate) fn shared_config_map(pod: &str, uid: &str, device: &str) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("{pod}-shared-gpu-0"), "namespace": NAMESPACE, "ownerReferences": [owner]},
        "data": {"NVIDIA_VISIBLE_DEVICES": device, "RUNAI_NUM_OF_GPUS": "0.5", "GPU_PORTION": "0.5"},
    })
}

/// The binding of a half-GPU pod to a node and to the device `group`.
pub(crate) fn shared_binding(pod: &str, node: &str, group: &str) -> Value {
    let mut binding = binding(pod, node);
    binding["metadata"]["labels"] = json!({"runai-gpu-group": group});
    binding["metadata"]["annotations"] = json!({"received-resource-type": "Fraction"});
    binding
}

pub(crate) fn eviction(pod: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
    })
}
