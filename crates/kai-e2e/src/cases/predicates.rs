//! What keeps a pod off a node.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, queue};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("predicates: node affinity is met", |space| Box::pin(affinity_met(space))),
    ("predicates: node affinity is not met", |space| Box::pin(affinity_not_met(space))),
    ("predicates: required pod affinity is not met", |space| Box::pin(pod_affinity_not_met(space))),
    ("predicates: the config map exists", |space| Box::pin(config_map(space, true))),
    ("predicates: the config map is missing", |space| Box::pin(config_map(space, false))),
    ("predicates: a storage class that does not exist", |space| Box::pin(bad_storage_class(space))),
    ("predicates: restricted nodes, a GPU worker", |space| Box::pin(restricted(space, true))),
    ("predicates: restricted nodes, a CPU worker", |space| Box::pin(restricted(space, false))),
    ("predicates: a taint without toleration", |space| Box::pin(tainted(space, false))),
    ("predicates: a taint with toleration", |space| Box::pin(tainted(space, true))),
];

fn required_node(key: &str, value: &str) -> Value {
    let terms = json!([{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]);
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

async fn affinity_met(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("a", 1).await?;
    space.gpu_node("b", 1).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let wanted = required_node("kubernetes.io/hostname", &space.node_name("b"));
    space.pod(&pod("p", "q").gpus(1).with(wanted)).await?;
    space.scheduled(&["p"]).await?;
    let node = space.node_of("p").await?;
    ensure!(node == "b", "{node}");
    Ok(())
}

async fn affinity_not_met(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("gpu", 1).await?;
    space.node("cpu", json!({"kind": "cpu"}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").gpus(1).with(required_node("kind", "cpu"))).await?;
    space.unschedulable(&["p"]).await
}

/// The first pod requires to be near pods like itself, which it is.
async fn pod_affinity_not_met(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("a", 1).await?;
    space.gpu_node("b", 1).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let near = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "first"}}}]);
    let own = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}}});
    space.pod(&pod("first", "q").gpus(1).labelled("app", "first").with(own)).await?;
    space.scheduled(&["first"]).await?;
    let node = space.node_name(&space.node_of("first").await?);
    let elsewhere = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}]);
    let affinity = json!({"affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": elsewhere}},
    }});
    space.pod(&pod("p", "q").gpus(1).labelled("app", "first").with(affinity)).await?;
    space.unschedulable(&["p"]).await
}

async fn config_map(space: &TestSpace, exists: bool) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    if exists {
        let map = json!({"metadata": {"name": "settings"}, "data": {"a": "b"}});
        space.create(&format!("/api/v1/namespaces/{}/configmaps", space.name), &map).await?;
    }
    let volumes = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    let mut object = space.pod_object(&pod("p", "q").with(json!({"volumes": volumes})));
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    space.create(&format!("/api/v1/namespaces/{}/pods", space.name), &object).await?;
    if exists { space.scheduled(&["p"]).await } else { space.unschedulable(&["p"]).await }
}

async fn bad_storage_class(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let spec = json!({"storageClassName": "nowhere", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = json!({"metadata": {"name": "data"}, "spec": spec});
    space
        .create(&format!("/api/v1/namespaces/{}/persistentvolumeclaims", space.name), &claim)
        .await?;
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    space.pod(&pod("p", "q").with(json!({"volumes": volume}))).await?;
    space.unschedulable(&["p"]).await
}

/// Under restricted scheduling pods with GPUs go to GPU workers and others to CPU workers.
async fn restricted(space: &TestSpace, gpu_worker: bool) -> anyhow::Result<()> {
    let role = if gpu_worker { "gpu" } else { "cpu" };
    let label = format!("node-role.kubernetes.io/{role}-worker");
    let labels = json!({label: "", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "11441"});
    space.node("n", labels, json!({"nvidia.com/gpu": "2"})).await?;
    space.queue(&queue("q")).await?;
    space.start(&["--restrict-node-scheduling"]).await?;
    space.pods(&[pod("gpu", "q").gpus(1), pod("cpu", "q").cpu("1")]).await?;
    let (placed, waits) = if gpu_worker { ("gpu", "cpu") } else { ("cpu", "gpu") };
    space.scheduled(&[placed]).await?;
    space.unschedulable(&[waits]).await
}

async fn tainted(space: &TestSpace, tolerated: bool) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    let taints = json!([{"key": "dedicated", "value": "team", "effect": "NoSchedule"}]);
    let path = format!("/api/v1/nodes/{}", space.node_name("n"));
    space.patch(&path, &json!({"spec": {"taints": taints}})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let plain: Pod = pod("p", "q");
    if tolerated {
        let toleration = json!([{"key": "dedicated", "operator": "Equal", "value": "team", "effect": "NoSchedule"}]);
        space.pod(&plain.with(json!({"tolerations": toleration}))).await?;
        space.scheduled(&["p"]).await
    } else {
        space.pod(&plain).await?;
        space.unschedulable(&["p"]).await
    }
}
