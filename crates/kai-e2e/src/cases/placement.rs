//! Which of the nodes that fit.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, queue};
use crate::settings;
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("node order: preferred pod affinity", |space| Box::pin(affinity(space, "podAffinity", true))),
    ("node order: preferred pod anti-affinity", |space| {
        Box::pin(affinity(space, "podAntiAffinity", false))
    }),
    ("node order: pods without GPUs go to nodes without", |space| Box::pin(resource_type(space))),
    ("placement binpack: two pods on one node", |space| {
        Box::pin(two_pods(space, Spread::No, |name| pod(name, "q").gpus(1)))
    }),
    ("placement spread: two pods on two nodes", |space| {
        Box::pin(two_pods(space, Spread::Yes, |name| pod(name, "q").gpus(1)))
    }),
    ("placement spread: two halves on two nodes", |space| {
        Box::pin(two_pods(space, Spread::Yes, |name| pod(name, "q").fraction("0.5")))
    }),
    ("placement spread: two halves of one node on two GPUs", |space| Box::pin(two_gpus(space))),
];

async fn two_gpu_nodes(space: &TestSpace) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        space.gpu_node(name, 8).await?;
    }
    space.queue(&queue("q")).await
}

/// Preferred affinity or anti-affinity to the pod with the label `app: first`.
fn near_first(kind: &str) -> Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "first"}}});
    let preference = json!([{"weight": 10, "podAffinityTerm": term}]);
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preference}}})
}

async fn affinity(space: &TestSpace, kind: &str, same: bool) -> anyhow::Result<()> {
    two_gpu_nodes(space).await?;
    space.start(&[]).await?;
    space.pod(&pod("first", "q").labelled("app", "first")).await?;
    space.scheduled(&["first"]).await?;
    space.pod(&pod("second", "q").with(near_first(kind))).await?;
    space.scheduled(&["second"]).await?;
    let nodes = (space.node_of("first").await?, space.node_of("second").await?);
    ensure!((nodes.0 == nodes.1) == same, "{nodes:?}");
    Ok(())
}

async fn resource_type(space: &TestSpace) -> anyhow::Result<()> {
    two_gpu_nodes(space).await?;
    space.node("plain", json!({}), json!({})).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q")).await?;
    space.scheduled(&["p"]).await?;
    let node = space.node_of("p").await?;
    ensure!(node == "plain", "{node}");
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    Yes,
    No,
}

async fn two_pods(space: &TestSpace, spread: Spread, make: fn(&str) -> Pod) -> anyhow::Result<()> {
    two_gpu_nodes(space).await?;
    match spread {
        Spread::Yes => space.start_as(&settings::spread(), &[]).await?,
        Spread::No => space.start(&[]).await?,
    }
    space.pods(&[make("p-0"), make("p-1")]).await?;
    space.scheduled(&["p-0", "p-1"]).await?;
    let nodes = (space.node_of("p-0").await?, space.node_of("p-1").await?);
    ensure!((nodes.0 != nodes.1) == (spread == Spread::Yes), "{nodes:?}");
    Ok(())
}

async fn two_gpus(space: &TestSpace) -> anyhow::Result<()> {
    two_gpu_nodes(space).await?;
    space.start_as(&settings::spread(), &[]).await?;
    space.pod(&pod("p-0", "q").fraction("0.5")).await?;
    space.ready(&["p-0"]).await?;
    let node = space.node_name(&space.node_of("p-0").await?);
    space.pod(&pod("p-1", "q").fraction("0.5").on("kubernetes.io/hostname", &node)).await?;
    space.ready(&["p-1"]).await?;
    let mut groups = Vec::new();
    for name in ["p-0", "p-1"] {
        let pod_object = space.see_pod(name).await?.unwrap_or_default();
        groups.push(pod_object["metadata"]["labels"]["runai-gpu-group"].clone());
    }
    ensure!(groups[0] != groups[1] && !groups[0].is_null(), "{groups:?}");
    let devices = (space.visible_device("p-0").await?, space.visible_device("p-1").await?);
    ensure!(devices.0 != devices.1, "{devices:?}");
    Ok(())
}
