//! Which of the nodes that fit.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{pod, pods, queue};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("node order: preferred pod affinity", |room| Box::pin(affinity(room, "podAffinity", true))),
    ("node order: preferred pod anti-affinity", |room| {
        Box::pin(affinity(room, "podAntiAffinity", false))
    }),
    ("node order: pods without GPUs go to nodes without", |room| Box::pin(resource_type(room))),
    ("placement binpack: two pods on one node", |room| Box::pin(binpack(room))),
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
    let wish = json!([{"weight": 100, "podAffinityTerm": term}]);
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wish}}})
}

async fn affinity(room: &Room, kind: &str, same: bool) -> anyhow::Result<()> {
    two_gpu_nodes(room).await?;
    room.start(&[]).await?;
    room.pod(&pod("first", "q").cpu("100m").labelled("app", "first")).await?;
    room.scheduled(&["first"]).await?;
    room.pod(&pod("second", "q").cpu("100m").with(near_first(kind))).await?;
    room.scheduled(&["second"]).await?;
    let nodes = (room.node_of("first").await?, room.node_of("second").await?);
    ensure!((nodes.0 == nodes.1) == same, "{nodes:?}");
    Ok(())
}

async fn resource_type(room: &Room) -> anyhow::Result<()> {
    two_gpu_nodes(room).await?;
    room.node("plain", json!({}), json!({})).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").cpu("1")).await?;
    room.scheduled(&["p"]).await?;
    let node = room.node_of("p").await?;
    ensure!(node == "plain", "{node}");
    Ok(())
}

async fn binpack(room: &Room) -> anyhow::Result<()> {
    two_gpu_nodes(room).await?;
    room.start(&[]).await?;
    room.pods(&pods(2, |at| pod(format!("p-{at}"), "q").gpus(1))).await?;
    room.scheduled(&["p-0", "p-1"]).await?;
    let nodes = (room.node_of("p-0").await?, room.node_of("p-1").await?);
    ensure!(nodes.0 == nodes.1, "{nodes:?}");
    Ok(())
}
