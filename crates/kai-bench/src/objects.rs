//! Objects of the worlds that are measured.

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

pub(crate) fn node(number: usize) -> Value {
    let amounts = json!({"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": GPUS_PER_NODE.to_string()});
    let moment = "2026-01-01T00:00:00Z";
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node_name(number), "labels": {"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": GPUS_PER_NODE.to_string()}},
        "status": {
            "allocatable": amounts, "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Bench", "message": "", "lastHeartbeatTime": moment, "lastTransitionTime": moment}],
        },
    })
}

pub(crate) fn queue(name: &str, gpus: i64) -> Value {
    let all = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": {"cpu": all, "memory": all, "gpu": {"quota": gpus, "limit": -1, "overQuotaWeight": 1}}},
    })
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
        refer_to_share(&mut pod, name);
    }
    pod
}

/// What admission adds to a pod that shares a GPU.
fn refer_to_share(pod: &mut Value, name: &str) {
    let prefix = format!("{name}-shared-gpu");
    let map = format!("{prefix}-0");
    pod["metadata"]["annotations"] =
        json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": prefix});
    let variable = |key: &str| json!({"name": key, "valueFrom": {"configMapKeyRef": {"name": map, "key": key}}});
    let container = &mut pod["spec"]["containers"][0];
    container["env"] =
        json!(["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"].map(variable));
    container["envFrom"] =
        json!([{"configMapRef": {"name": format!("{map}-evar"), "optional": true}}]);
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

pub(crate) fn eviction(pod: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
    })
}
