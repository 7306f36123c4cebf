//! Kubernetes objects that several tests and benchmarks make.

use serde_json::{Value, json};

/// A resource of a queue without bounds.
pub fn unbounded() -> Value {
    json!({"quota": -1, "limit": -1, "overQuotaWeight": 1})
}

/// A queue with these bounds of its GPUs; CPU and memory are unbounded.
pub fn queue(name: &str, gpu: &Value) -> Value {
    json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": {"cpu": unbounded(), "memory": unbounded(), "gpu": gpu}},
    })
}

/// Status of a ready node with these amounts.
pub fn ready_node_status(amounts: &Value) -> Value {
    let moment = "2026-01-01T00:00:00Z";
    let ready = json!({"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastHeartbeatTime": moment, "lastTransitionTime": moment});
    json!({"allocatable": amounts, "capacity": amounts, "conditions": [ready]})
}

/// Adds what KAI's admission adds to a pod that shares a GPU: references to both config maps of its share.
pub fn add_share_references(pod: &mut Value) {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let prefix = format!("{name}-shared-gpu");
    let map = format!("{prefix}-0");
    let variable = |key: &str| json!({"name": key, "valueFrom": {"configMapKeyRef": {"name": map, "key": key}}});
    let variables = ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"].map(variable);
    pod["metadata"]["annotations"]["runai/shared-gpu-configmap"] = json!(prefix);
    let container = &mut pod["spec"]["containers"][0];
    container["env"] = json!(variables);
    container["envFrom"] = json!([{"configMapRef": {"name": format!("{map}-evar")}}]);
}
