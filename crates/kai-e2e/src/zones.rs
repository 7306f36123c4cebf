//! Nodes with NUMA zones, and what pods have of them.

use anyhow::Context;
use serde_json::{Value, json};

use crate::foreign::{self, Kind};
use crate::test_space::TestSpace;

/// The kind that says which zones a node has.
pub const TOPOLOGY: Kind = Kind {
    group: "topology.node.k8s.io",
    versions: &["v1alpha2"],
    kind: "NodeResourceTopology",
    cluster_wide: true,
};
/// Annotation with the zones that the scheduler predicted for a pod.
const PREDICTED: &str = "kai.scheduler/numa-placement-predicted";
/// What the agent of the node says about a pod.
pub const OBSERVED: &str = "kai.scheduler/numa-placement-observed";
const GPU: &str = "nvidia.com/gpu";

/// A node of 8 GPUs whose two zones have a core, 2 GiB and 4 GPUs each. The node itself has more cores and memory, so that
/// only its zones can reject a pod of theirs.
pub async fn zoned_node(space: &TestSpace, name: &str, policy: &str) -> anyhow::Result<()> {
    space.gpu_node(name, 8).await?;
    let amounts = [("cpu", "1"), ("memory", "2Gi"), (GPU, "4")];
    let resource = |(name, amount): (&str, &str)| json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount});
    let resources = amounts.map(resource);
    let zone = |at| json!({"name": format!("node-{at}"), "type": "Node", "resources": resources});
    let attributes = [("topologyManagerPolicy", policy), ("topologyManagerScope", "pod")];
    let attributes = attributes.map(|(name, value)| json!({"name": name, "value": value}));
    let zones = [zone(0), zone(1)];
    let object = json!({"metadata": {"name": space.node_name(name)}, "attributes": attributes, "zones": zones});
    foreign::make(space, &TOPOLOGY, object).await.map(|_| ())
}

/// The zones that the scheduler predicted for a pod, with the amounts, as the annotation has them.
pub async fn placement_of(space: &TestSpace, name: &str) -> anyhow::Result<String> {
    let pod = space.see_pod(name).await?.with_context(|| format!("pod {name} is gone"))?;
    let text = pod["metadata"]["annotations"][PREDICTED].as_str();
    Ok(text.with_context(|| format!("no zones are predicted for {name}"))?.to_owned())
}

/// The zones that the scheduler predicted for a pod.
pub async fn zones_of(space: &TestSpace, name: &str) -> anyhow::Result<Vec<String>> {
    let zones: Value = serde_json::from_str(&placement_of(space, name).await?)?;
    let name = |zone: &Value| zone["zone"].as_str().unwrap_or_default().to_owned();
    Ok(zones.as_array().into_iter().flatten().map(name).collect())
}

/// The GPUs that the scheduler predicted for a pod, in all zones together.
pub async fn gpus_of(space: &TestSpace, name: &str) -> anyhow::Result<u32> {
    let zones: Value = serde_json::from_str(&placement_of(space, name).await?)?;
    let mut gpus = 0;
    for zone in zones.as_array().into_iter().flatten() {
        if let Some(amount) = zone["amount"][GPU].as_str() {
            gpus += amount.parse::<u32>().with_context(|| format!("GPUs of {name}: {zone}"))?;
        }
    }
    Ok(gpus)
}
