//! Which of the nodes that fit.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, queue};
use crate::room::Room;
use crate::settings;

pub(super) const CASES: &[(&str, Run)] = &[
    ("node order: preferred pod affinity", |room| Box::pin(affinity(room, "podAffinity", true))),
    ("node order: preferred pod anti-affinity", |room| {
        Box::pin(affinity(room, "podAntiAffinity", false))
    }),
    ("node order: pods without GPUs go to nodes without", |room| Box::pin(resource_type(room))),
    ("placement binpack: two pods on one node", |room| {
        Box::pin(two_pods(room, Spread::No, |name| pod(name, "q").gpus(1)))
    }),
    ("placement spread: two pods on two nodes", |room| {
        Box::pin(two_pods(room, Spread::Yes, |name| pod(name, "q").gpus(1)))
    }),
    ("placement spread: two halves on two nodes", |room| {
        Box::pin(two_pods(room, Spread::Yes, |name| pod(name, "q").fraction("0.5")))
    }),
    ("placement spread: two halves of one node on two GPUs", |room| Box::pin(two_gpus(room))),
];

async fn two_gpu_nodes(room: &Room) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        room.gpu_node(name, 8).await?;
    }
    room.queue(&queue("q")).await
}

/// A wish to be, or not to be, where the pod with the label `app: first` is.
fn near_first(kind: &str) -> Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "first"}}});
    let wish = json!([{"weight": 10, "podAffinityTerm": term}]);
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wish}}})
}

async fn affinity(room: &Room, kind: &str, same: bool) -> anyhow::Result<()> {
    two_gpu_nodes(room).await?;
    room.start(&[]).await?;
    room.pod(&pod("first", "q").labelled("app", "first")).await?;
    room.scheduled(&["first"]).await?;
    room.pod(&pod("second", "q").with(near_first(kind))).await?;
    room.scheduled(&["second"]).await?;
    let nodes = (room.node_of("first").await?, room.node_of("second").await?);
    ensure!((nodes.0 == nodes.1) == same, "{nodes:?}");
    Ok(())
}

async fn resource_type(room: &Room) -> anyhow::Result<()> {
    two_gpu_nodes(room).await?;
    room.node("plain", json!({}), json!({})).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q")).await?;
    room.scheduled(&["p"]).await?;
    let node = room.node_of("p").await?;
    ensure!(node == "plain", "{node}");
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    Yes,
    No,
}

async fn two_pods(room: &Room, spread: Spread, make: fn(&str) -> Pod) -> anyhow::Result<()> {
    two_gpu_nodes(room).await?;
    match spread {
        Spread::Yes => room.start_as(&settings::spread(), &[]).await?,
        Spread::No => room.start(&[]).await?,
    }
    room.pods(&[make("p-0"), make("p-1")]).await?;
    room.scheduled(&["p-0", "p-1"]).await?;
    let nodes = (room.node_of("p-0").await?, room.node_of("p-1").await?);
    ensure!((nodes.0 != nodes.1) == (spread == Spread::Yes), "{nodes:?}");
    Ok(())
}

async fn two_gpus(room: &Room) -> anyhow::Result<()> {
    two_gpu_nodes(room).await?;
    room.start_as(&settings::spread(), &[]).await?;
    room.pod(&pod("p-0", "q").fraction("0.5")).await?;
    room.ready(&["p-0"]).await?;
    let node = room.node_name(&room.node_of("p-0").await?);
    room.pod(&pod("p-1", "q").fraction("0.5").on("kubernetes.io/hostname", &node)).await?;
    room.ready(&["p-1"]).await?;
    let mut groups = Vec::new();
    for name in ["p-0", "p-1"] {
        let seen = room.see_pod(name).await?.unwrap_or_default();
        groups.push(seen["metadata"]["labels"]["runai-gpu-group"].clone());
    }
    ensure!(groups[0] != groups[1] && !groups[0].is_null(), "{groups:?}");
    let devices = (room.visible_device("p-0").await?, room.visible_device("p-1").await?);
    ensure!(devices.0 != devices.1, "{devices:?}");
    Ok(())
}
