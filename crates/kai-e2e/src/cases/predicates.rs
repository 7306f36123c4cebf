//! What keeps a pod off a node.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, queue};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("predicates: node affinity is met", |room| Box::pin(affinity_met(room))),
    ("predicates: node affinity is not met", |room| Box::pin(affinity_not_met(room))),
    ("predicates: required pod affinity is not met", |room| Box::pin(pod_affinity_not_met(room))),
    ("predicates: the config map exists", |room| Box::pin(config_map(room, true))),
    ("predicates: the config map is missing", |room| Box::pin(config_map(room, false))),
    ("predicates: a storage class that does not exist", |room| Box::pin(bad_storage_class(room))),
    ("predicates: restricted nodes, a GPU worker", |room| Box::pin(restricted(room, true))),
    ("predicates: restricted nodes, a CPU worker", |room| Box::pin(restricted(room, false))),
    ("predicates: a taint without toleration", |room| Box::pin(tainted(room, false))),
    ("predicates: a taint with toleration", |room| Box::pin(tainted(room, true))),
];

fn required_node(key: &str, value: &str) -> Value {
    let terms = json!([{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]);
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

async fn affinity_met(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("a", 1).await?;
    room.gpu_node("b", 1).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let wanted = required_node("kubernetes.io/hostname", &room.node_name("b"));
    room.pod(&pod("p", "q").gpus(1).with(wanted)).await?;
    room.scheduled(&["p"]).await?;
    let node = room.node_of("p").await?;
    ensure!(node == "b", "{node}");
    Ok(())
}

async fn affinity_not_met(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("gpu", 1).await?;
    room.node("cpu", json!({"kind": "cpu"}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").gpus(1).with(required_node("kind", "cpu"))).await?;
    room.unschedulable(&["p"]).await
}

/// The first pod requires to be near pods like itself, which it is.
async fn pod_affinity_not_met(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("a", 1).await?;
    room.gpu_node("b", 1).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let near = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "first"}}}]);
    let own = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}}});
    room.pod(&pod("first", "q").gpus(1).labelled("app", "first").with(own)).await?;
    room.scheduled(&["first"]).await?;
    let node = room.node_name(&room.node_of("first").await?);
    let elsewhere = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}]);
    let affinity = json!({"affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": elsewhere}},
    }});
    room.pod(&pod("p", "q").gpus(1).labelled("app", "first").with(affinity)).await?;
    room.unschedulable(&["p"]).await
}

async fn config_map(room: &Room, exists: bool) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    if exists {
        let map = json!({"metadata": {"name": "settings"}, "data": {"a": "b"}});
        room.create(&format!("/api/v1/namespaces/{}/configmaps", room.name), &map).await?;
    }
    let volumes = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    let mut object = room.pod_object(&pod("p", "q").with(json!({"volumes": volumes})));
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    room.create(&format!("/api/v1/namespaces/{}/pods", room.name), &object).await?;
    if exists { room.scheduled(&["p"]).await } else { room.unschedulable(&["p"]).await }
}

async fn bad_storage_class(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let spec = json!({"storageClassName": "nowhere", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = json!({"metadata": {"name": "data"}, "spec": spec});
    room.create(&format!("/api/v1/namespaces/{}/persistentvolumeclaims", room.name), &claim)
        .await?;
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    room.pod(&pod("p", "q").with(json!({"volumes": volume}))).await?;
    room.unschedulable(&["p"]).await
}

/// Under restricted scheduling pods with GPUs go to GPU workers and others to CPU workers.
async fn restricted(room: &Room, gpu_worker: bool) -> anyhow::Result<()> {
    let role = if gpu_worker { "gpu" } else { "cpu" };
    let label = format!("node-role.kubernetes.io/{role}-worker");
    let labels = json!({label: "", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "11441"});
    room.node("n", labels, json!({"nvidia.com/gpu": "2"})).await?;
    room.queue(&queue("q")).await?;
    room.start(&["--restrict-node-scheduling"]).await?;
    room.pods(&[pod("gpu", "q").gpus(1), pod("cpu", "q").cpu("1")]).await?;
    let (placed, waits) = if gpu_worker { ("gpu", "cpu") } else { ("cpu", "gpu") };
    room.scheduled(&[placed]).await?;
    room.unschedulable(&[waits]).await
}

async fn tainted(room: &Room, tolerated: bool) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    let taints = json!([{"key": "dedicated", "value": "team", "effect": "NoSchedule"}]);
    let path = format!("/api/v1/nodes/{}", room.node_name("n"));
    room.patch(&path, &json!({"spec": {"taints": taints}})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let plain: Pod = pod("p", "q");
    if tolerated {
        let toleration = json!([{"key": "dedicated", "operator": "Equal", "value": "team", "effect": "NoSchedule"}]);
        room.pod(&plain.with(json!({"tolerations": toleration}))).await?;
        room.scheduled(&["p"]).await
    } else {
        room.pod(&plain).await?;
        room.unschedulable(&["p"]).await
    }
}
