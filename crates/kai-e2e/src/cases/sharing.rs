//! Pods with GPU fractions.

use std::collections::BTreeSet;

use anyhow::ensure;

use super::Run;
use crate::objects::{pod, pods, queue};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("a fraction without a namespace takes that of the request", |space| {
        Box::pin(fraction_without_namespace(space))
    }),
    ("resources: half a GPU", |space| Box::pin(half(space))),
    ("resources: a cluster full of parts of 0.7", |space| Box::pin(fill(space))),
    ("resources: 500 MiB of a GPU", |space| Box::pin(memory(space, 500, true))),
    ("resources: more memory than any GPU has", |space| {
        Box::pin(memory(space, 500_000_000, false))
    }),
    ("placement binpack: two halves on one GPU", |space| Box::pin(same_gpu(space))),
];

async fn fraction_without_namespace(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let mut object = space.pod_object(&pod("p", "q").fraction("0.5"));
    object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    space.create(&format!("/api/v1/namespaces/{}/pods", space.name), &object).await?;
    space.ready(&["p"]).await
}

async fn half(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").fraction("0.5")).await?;
    space.ready(&["p"]).await?;
    let pod_object = space.see_pod("p").await?.unwrap_or_default();
    ensure!(
        pod_object["metadata"]["annotations"]["received-resource-type"] == "Fraction",
        "{pod_object}"
    );
    Ok(())
}

async fn fill(space: &TestSpace) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        space.gpu_node(name, 2).await?;
    }
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pods(&pods(8, |at| pod(format!("p-{at}"), "q").fraction("0.7"))).await?;
    space.counts("p-", 4, 4).await?;
    let placed = space.pods_named("p-").await?;
    let groups: BTreeSet<&str> = placed
        .iter()
        .filter(|pod| !pod["spec"]["nodeName"].is_null())
        .filter_map(|pod| pod["metadata"]["labels"]["runai-gpu-group"].as_str())
        .collect();
    ensure!(groups.len() == 4, "one pod per device: {groups:?}");
    let mut devices = BTreeSet::new();
    for pod in placed.iter().filter(|pod| !pod["spec"]["nodeName"].is_null()) {
        devices.insert(
            space.visible_device(pod["metadata"]["name"].as_str().unwrap_or_default()).await?,
        );
    }
    ensure!(devices.len() == 4, "one config map per device: {devices:?}");
    Ok(())
}

async fn memory(space: &TestSpace, mib: u32, fits: bool) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").gpu_memory(mib)).await?;
    if fits { space.ready(&["p"]).await } else { space.unschedulable(&["p"]).await }
}

async fn same_gpu(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 8).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pods(&pods(2, |at| pod(format!("p-{at}"), "q").fraction("0.5"))).await?;
    space.ready(&["p-0", "p-1"]).await?;
    let pods = space.pods_named("p-").await?;
    let groups: BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["labels"]["runai-gpu-group"].as_str())
        .collect();
    ensure!(groups.len() == 1, "{groups:?}");
    let devices = (space.visible_device("p-0").await?, space.visible_device("p-1").await?);
    ensure!(devices.0 == devices.1, "{devices:?}");
    Ok(())
}
