//! Pods with GPU fractions.

use std::collections::BTreeSet;

use anyhow::ensure;

use super::Run;
use crate::objects::{pod, pods, queue};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("a fraction without a namespace takes that of the request", |room| {
        Box::pin(fraction_without_namespace(room))
    }),
    ("resources: half a GPU", |room| Box::pin(half(room))),
    ("resources: a cluster full of parts of 0.7", |room| Box::pin(fill(room))),
    ("resources: 500 MiB of a GPU", |room| Box::pin(memory(room, 500, true))),
    ("resources: more memory than any GPU has", |room| Box::pin(memory(room, 500_000_000, false))),
    ("placement binpack: two halves on one GPU", |room| Box::pin(same_gpu(room))),
];

async fn fraction_without_namespace(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let mut object = room.pod_object(&pod("p", "q").fraction("0.5"));
    object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    room.create(&format!("/api/v1/namespaces/{}/pods", room.name), &object).await?;
    room.ready(&["p"]).await
}

async fn half(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").fraction("0.5")).await?;
    room.ready(&["p"]).await?;
    let seen = room.see_pod("p").await?.unwrap_or_default();
    ensure!(seen["metadata"]["annotations"]["received-resource-type"] == "Fraction", "{seen}");
    Ok(())
}

async fn fill(room: &Room) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        room.gpu_node(name, 2).await?;
    }
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pods(&pods(8, |at| pod(format!("p-{at}"), "q").fraction("0.7"))).await?;
    room.counts("p-", 4, 4).await?;
    let placed = room.pods_named("p-").await?;
    let groups: BTreeSet<&str> = placed
        .iter()
        .filter(|pod| !pod["spec"]["nodeName"].is_null())
        .filter_map(|pod| pod["metadata"]["labels"]["runai-gpu-group"].as_str())
        .collect();
    ensure!(groups.len() == 4, "one pod per device: {groups:?}");
    let mut devices = BTreeSet::new();
    for pod in placed.iter().filter(|pod| !pod["spec"]["nodeName"].is_null()) {
        devices.insert(
            room.visible_device(pod["metadata"]["name"].as_str().unwrap_or_default()).await?,
        );
    }
    ensure!(devices.len() == 4, "one config map per device: {devices:?}");
    Ok(())
}

async fn memory(room: &Room, mib: u32, fits: bool) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").gpu_memory(mib)).await?;
    if fits { room.ready(&["p"]).await } else { room.unschedulable(&["p"]).await }
}

async fn same_gpu(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pods(&pods(2, |at| pod(format!("p-{at}"), "q").fraction("0.5"))).await?;
    room.ready(&["p-0", "p-1"]).await?;
    let pods = room.pods_named("p-").await?;
    let groups: BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["labels"]["runai-gpu-group"].as_str())
        .collect();
    ensure!(groups.len() == 1, "{groups:?}");
    let devices = (room.visible_device("p-0").await?, room.visible_device("p-1").await?);
    ensure!(devices.0 == devices.1, "{devices:?}");
    Ok(())
}
