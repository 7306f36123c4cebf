//! Pods are aligned to the NUMA zones of nodes, as the kubelet will ask.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::foreign;
use crate::objects::{Pod, pod, pods, queue, quota};
use crate::room::Room;
use crate::settings;
use crate::zones::{OBSERVED, TOPOLOGY, zoned_node, zones_of};

const GPU: &str = "nvidia.com/gpu";
const SINGLE: &str = "single-numa-node";
const RESTRICTED: &str = "restricted";

pub(super) const CASES: &[(&str, Run)] = &[
    ("modes: single zone, a pod that fits one", |room| Box::pin(fits_one_zone(room))),
    ("modes: single zone, a pod that spans two", |room| Box::pin(spans_two_zones(room))),
    ("modes: restricted, a pod of two zones", |room| Box::pin(restricted_two_zones(room))),
    ("modes: restricted, more than all zones have", |room| Box::pin(restricted_above_all(room))),
    ("modes: best effort and none let everything pass", |room| Box::pin(not_enforced(room))),
    ("modes: a node without zones", |room| Box::pin(without_zones(room))),
    ("quality of service: guaranteed across zones", |room| Box::pin(guaranteed(room))),
    ("quality of service: burstable", |room| Box::pin(burstable(room))),
    ("quality of service: best effort", |room| Box::pin(best_effort(room))),
    ("preempt: one victim opens a zone", |room| Box::pin(preempt(room))),
    ("reclaim: single zone, one zone", |room| Box::pin(reclaim_one_zone(room, SINGLE))),
    ("reclaim: restricted, one zone", |room| Box::pin(reclaim_one_zone(room, RESTRICTED))),
    ("reclaim: two zones from pods of a zone each", |room| Box::pin(reclaim_full_zones(room))),
    ("reclaim: two zones from pods of one GPU", |room| Box::pin(reclaim_single_gpus(room))),
    ("reclaim: the whole node", |room| Box::pin(reclaim_node(room))),
    ("reclaim: a gang with a zone for each", |room| Box::pin(reclaim_gang(room))),
];

async fn start(room: &Room, policy: &str) -> anyhow::Result<()> {
    zoned_node(room, "n", policy).await?;
    room.queue(&queue("q")).await?;
    room.start_as(&settings::aligned(), &[]).await
}

/// A guaranteed pod.
fn wants(name: impl Into<String>, queue: &str, cpu: &str, memory: &str) -> Pod {
    pod(name, queue).cpu(cpu).asks("memory", memory)
}

/// A guaranteed pod that takes all of a zone.
fn zone(name: impl Into<String>, queue: &str) -> Pod {
    wants(name, queue, "1", "2Gi").gpus(4)
}

/// A guaranteed pod that takes both zones.
fn both_zones(name: &str, queue: &str) -> Pod {
    wants(name, queue, "2", "4Gi").gpus(8)
}

/// Writes on a pod what the agent of its node would: it has this much of these zones.
async fn observe(
    room: &Room,
    name: &str,
    zones: &[&str],
    amounts: &[(&str, &str)],
) -> anyhow::Result<()> {
    let amounts: serde_json::Map<String, Value> =
        amounts.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount))).collect();
    let zones: Vec<Value> =
        zones.iter().map(|zone| json!({"zone": zone, "amount": amounts})).collect();
    let annotations = json!({OBSERVED: json!(zones).to_string()});
    let path = format!("/api/v1/namespaces/{}/pods/{name}", room.name);
    room.patch(&path, &json!({"metadata": {"annotations": annotations}})).await.map(|_| ())
}

async fn fits_one_zone(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&zone("p", "q")).await?;
    room.scheduled(&["p"]).await?;
    let zones = zones_of(room, "p").await?;
    ensure!(zones.len() == 1, "{zones:?}");
    Ok(())
}

async fn spans_two_zones(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&wants("p", "q", "1", "1Gi").gpus(6)).await?;
    room.unschedulable(&["p"]).await?;
    room.pod(&wants("smaller", "q", "1", "1Gi").gpus(2)).await?;
    room.scheduled(&["smaller"]).await
}

async fn restricted_two_zones(room: &Room) -> anyhow::Result<()> {
    start(room, RESTRICTED).await?;
    room.pod(&both_zones("p", "q")).await?;
    room.scheduled(&["p"]).await?;
    let zones = zones_of(room, "p").await?;
    ensure!(zones == ["node-0", "node-1"], "{zones:?}");
    Ok(())
}

async fn restricted_above_all(room: &Room) -> anyhow::Result<()> {
    start(room, RESTRICTED).await?;
    room.pod(&wants("p", "q", "3", "1Gi")).await?;
    room.unschedulable(&["p"]).await
}

async fn not_enforced(room: &Room) -> anyhow::Result<()> {
    zoned_node(room, "best", "best-effort").await?;
    zoned_node(room, "none", "none").await?;
    room.queue(&queue("q")).await?;
    room.start_as(&settings::aligned(), &[]).await?;
    for node in ["best", "none"] {
        let name = room.node_name(node);
        room.pod(&wants(node, "q", "3", "1Gi").on("kubernetes.io/hostname", &name)).await?;
    }
    room.scheduled(&["best", "none"]).await
}

async fn without_zones(room: &Room) -> anyhow::Result<()> {
    foreign::install(room, &TOPOLOGY).await?;
    room.gpu_node("n", 8).await?;
    room.queue(&queue("q")).await?;
    room.start_as(&settings::aligned(), &[]).await?;
    room.pod(&wants("p", "q", "3", "1Gi").gpus(6)).await?;
    room.scheduled(&["p"]).await
}

async fn guaranteed(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&wants("p", "q", "2", "1Gi")).await?;
    room.unschedulable(&["p"]).await
}

async fn burstable(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&pod("p", "q").cpu("2")).await?;
    room.scheduled(&["p"]).await
}

async fn best_effort(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&pod("p", "q")).await?;
    room.scheduled(&["p"]).await
}

async fn preempt(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pods(&pods(2, |at| zone(format!("low-{at}"), "q").class("train"))).await?;
    room.counts("low-", 2, 0).await?;
    room.pod(&zone("high", "q").class("build-preemptible")).await?;
    room.scheduled(&["high"]).await?;
    room.left("low-", 1).await
}

/// A node full of pods of a queue without quota; another queue may have everything.
async fn full(room: &Room, policy: &str, held: &[Pod]) -> anyhow::Result<()> {
    zoned_node(room, "n", policy).await?;
    room.queue(&queue("gives").gpu(quota(0.0))).await?;
    room.queue(&queue("takes").gpu(quota(8.0))).await?;
    room.start_as(&settings::aligned(), &[]).await?;
    room.pods(held).await?;
    room.counts("held-", held.len(), 0).await
}

/// Two pods with a zone each, which their node's agent confirms.
async fn full_zones(room: &Room, policy: &str) -> anyhow::Result<()> {
    full(room, policy, &pods(2, |at| zone(format!("held-{at}"), "gives"))).await?;
    for at in 0..2 {
        let name = format!("held-{at}");
        let zones = zones_of(room, &name).await?;
        let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
        let amounts = [("cpu", "1"), ("memory", "2147483648"), (GPU, "4")];
        observe(room, &name, &zones, &amounts).await?;
    }
    Ok(())
}

async fn reclaim_one_zone(room: &Room, policy: &str) -> anyhow::Result<()> {
    full_zones(room, policy).await?;
    room.pod(&zone("taken", "takes")).await?;
    room.scheduled(&["taken"]).await?;
    room.left("held-", 1).await
}

async fn reclaim_full_zones(room: &Room) -> anyhow::Result<()> {
    full_zones(room, RESTRICTED).await?;
    room.pod(&both_zones("taken", "takes")).await?;
    room.scheduled(&["taken"]).await?;
    room.left("held-", 0).await?;
    let zones = zones_of(room, "taken").await?;
    ensure!(zones.len() == 2, "{zones:?}");
    Ok(())
}

async fn reclaim_single_gpus(room: &Room) -> anyhow::Result<()> {
    full(room, RESTRICTED, &pods(8, |at| pod(format!("held-{at}"), "gives").gpus(1))).await?;
    room.pod(&both_zones("taken", "takes")).await?;
    room.scheduled(&["taken"]).await?;
    room.left("held-", 0).await
}

async fn reclaim_node(room: &Room) -> anyhow::Result<()> {
    full(room, RESTRICTED, &[both_zones("held-0", "gives")]).await?;
    let amounts = [("cpu", "1"), ("memory", "2147483648"), (GPU, "4")];
    observe(room, "held-0", &["node-0", "node-1"], &amounts).await?;
    room.pod(&both_zones("taken", "takes")).await?;
    room.scheduled(&["taken"]).await?;
    room.left("held-", 0).await
}

async fn reclaim_gang(room: &Room) -> anyhow::Result<()> {
    full_zones(room, SINGLE).await?;
    room.group("g", "takes", json!({"minMember": 2})).await?;
    room.pods(&pods(2, |at| zone(format!("taken-{at}"), "takes").of_group("g"))).await?;
    room.scheduled(&["taken-0", "taken-1"]).await?;
    room.left("held-", 0).await?;
    let zones = (zones_of(room, "taken-0").await?, zones_of(room, "taken-1").await?);
    ensure!(zones.0 != zones.1 && zones.0.len() == 1, "{zones:?}");
    Ok(())
}
