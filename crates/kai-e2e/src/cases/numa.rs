//! Pods are aligned to the NUMA zones of nodes, as the kubelet will ask.
//!
//! Sizes are KAI's: guaranteed pods ask for 100m, 128Mi and GPUs; a request of two zones asks for one GPU, one core and
//! 1 MiB more than a zone has. Changed throughout: nodes and their zones are made for the case instead of found, pods are
//! not pinned where there is one node, and what the agent of a node reports is written by the case from what the
//! scheduler predicted. Where a case differs in more, it says so.

use anyhow::ensure;
use serde_json::json;

use super::Run;
use super::integrations::job;
use crate::foreign;
use crate::objects::{Pod, capped, pod, pods, queue, quota};
use crate::room::Room;
use crate::settings;
use crate::zones::{OBSERVED, TOPOLOGY, gpus_of, placement_of, zoned_node, zones_of};

const SINGLE: &str = "single-numa-node";
const RESTRICTED: &str = "restricted";
/// GPUs of a zone, and of a node.
const ZONE_GPUS: u32 = 4;
const NODE_GPUS: u32 = 8;
/// Quality of service of a pod whose limits are its requests.
const GUARANTEED: &str = "Guaranteed";

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
    ("reclaim: two zones from pods of a zone each", |room| {
        Box::pin(reclaim_two_zones(room, ZONE_GPUS, ZONE_GPUS + 1))
    }),
    ("reclaim: two zones from pods of one GPU", |room| {
        Box::pin(reclaim_two_zones(room, 1, ZONE_GPUS + 1))
    }),
    ("reclaim: the whole node", |room| Box::pin(reclaim_two_zones(room, ZONE_GPUS, NODE_GPUS))),
    ("reclaim: a gang with a zone for each", |room| Box::pin(reclaim_gang(room))),
];

async fn start(room: &Room, policy: &str) -> anyhow::Result<()> {
    zoned_node(room, "n", policy).await?;
    room.queue(&queue("q")).await?;
    room.start_as(&settings::aligned(), &[]).await
}

/// A guaranteed pod.
fn wants(name: impl Into<String>, queue: &str, gpus: u32) -> Pod {
    pod(name, queue).cpu("100m").asks("memory", "128Mi").gpus(gpus)
}

/// A guaranteed pod whose every request needs two zones: under `restricted` they must agree.
fn wants_two_zones(name: impl Into<String>, queue: &str, gpus: u32) -> Pod {
    pod(name, queue).cpu("2").asks("memory", "2049Mi").gpus(gpus)
}

/// Writes on a pod what the agent of its node would: it has the zones that were predicted.
async fn observe(room: &Room, name: &str) -> anyhow::Result<()> {
    let annotations = json!({OBSERVED: placement_of(room, name).await?});
    let path = format!("/api/v1/namespaces/{}/pods/{name}", room.name);
    room.patch(&path, &json!({"metadata": {"annotations": annotations}})).await.map(|_| ())
}

/// The pod has this many zones, and in them this many GPUs.
async fn has_zones(room: &Room, name: &str, count: usize, gpus: u32) -> anyhow::Result<()> {
    let zones = zones_of(room, name).await?;
    ensure!(zones.len() == count, "{name} has {zones:?} instead of {count} zones");
    let placed = gpus_of(room, name).await?;
    ensure!(placed == gpus, "{name} has {placed} GPUs instead of {gpus} in {zones:?}");
    Ok(())
}

/// The API server gave the pod this quality of service.
async fn has_quality(room: &Room, name: &str, quality: &str) -> anyhow::Result<()> {
    let pod = room.see_pod(name).await?.unwrap_or_default();
    ensure!(pod["status"]["qosClass"] == quality, "{name} is {}", pod["status"]["qosClass"]);
    Ok(())
}

async fn fits_one_zone(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&wants("p", "q", ZONE_GPUS)).await?;
    has_quality(room, "p", GUARANTEED).await?;
    room.scheduled(&["p"]).await?;
    has_zones(room, "p", 1, ZONE_GPUS).await
}

async fn spans_two_zones(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&wants("p", "q", ZONE_GPUS + 1)).await?;
    has_quality(room, "p", GUARANTEED).await?;
    room.unschedulable(&["p"]).await?;
    room.pod(&wants("smaller", "q", ZONE_GPUS)).await?;
    room.scheduled(&["smaller"]).await
}

async fn restricted_two_zones(room: &Room) -> anyhow::Result<()> {
    start(room, RESTRICTED).await?;
    room.pod(&wants_two_zones("p", "q", ZONE_GPUS + 1)).await?;
    has_quality(room, "p", GUARANTEED).await?;
    room.scheduled(&["p"]).await?;
    has_zones(room, "p", 2, ZONE_GPUS + 1).await
}

async fn restricted_above_all(room: &Room) -> anyhow::Result<()> {
    start(room, RESTRICTED).await?;
    room.pod(&wants("p", "q", NODE_GPUS + 1)).await?;
    has_quality(room, "p", GUARANTEED).await?;
    room.unschedulable(&["p"]).await
}

/// Changed: both policies are tried; KAI takes the one that its cluster has.
async fn not_enforced(room: &Room) -> anyhow::Result<()> {
    zoned_node(room, "best", "best-effort").await?;
    zoned_node(room, "none", "none").await?;
    room.queue(&queue("q")).await?;
    room.start_as(&settings::aligned(), &[]).await?;
    for node in ["best", "none"] {
        let name = room.node_name(node);
        let pod = wants(node, "q", ZONE_GPUS + 1).on("kubernetes.io/hostname", &name);
        room.pod(&pod).await?;
    }
    room.scheduled(&["best", "none"]).await
}

async fn without_zones(room: &Room) -> anyhow::Result<()> {
    foreign::install(room, &TOPOLOGY).await?;
    room.gpu_node("n", NODE_GPUS).await?;
    room.queue(&queue("q")).await?;
    room.start_as(&settings::aligned(), &[]).await?;
    room.pod(&pod("p", "q").cpu("250m").asks("memory", "128Mi")).await?;
    has_quality(room, "p", GUARANTEED).await?;
    room.scheduled(&["p"]).await
}

async fn guaranteed(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&wants("p", "q", ZONE_GPUS + 1)).await?;
    has_quality(room, "p", GUARANTEED).await?;
    room.unschedulable(&["p"]).await
}

/// Changed: KAI expects a burstable pod with more GPUs than a zone has to be bound. The kubelet's device manager aligns the
/// devices of pods of every quality of service and would reject the pod, so it stays pending. Its CPU is not aligned.
async fn burstable(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&pod("devices", "q").cpu("100m").gpus(ZONE_GPUS + 1)).await?;
    has_quality(room, "devices", "Burstable").await?;
    room.unschedulable(&["devices"]).await?;
    room.pod(&pod("cores", "q").cpu("2")).await?;
    has_quality(room, "cores", "Burstable").await?;
    room.scheduled(&["cores"]).await
}

async fn best_effort(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    room.pod(&pod("p", "q")).await?;
    has_quality(room, "p", "BestEffort").await?;
    room.scheduled(&["p"]).await
}

/// Every zone is full of pods of one GPU but for one GPU: a pod of two needs one victim more.
async fn preempt(room: &Room) -> anyhow::Result<()> {
    start(room, SINGLE).await?;
    let count = NODE_GPUS as usize;
    room.pods(&pods(count, |at| wants(format!("low-{at}"), "q", 1).class("train"))).await?;
    room.counts("low-", count, 0).await?;
    let mut freed: Vec<String> = Vec::new();
    for at in 0..count {
        let name = format!("low-{at}");
        observe(room, &name).await?;
        let zones = zones_of(room, &name).await?;
        ensure!(zones.len() == 1, "{name} has {zones:?}");
        if !freed.contains(&zones[0]) {
            room.delete_pod(&name).await?;
            freed.extend(zones);
        }
    }
    ensure!(freed.len() == 2, "the pods are in {freed:?}");
    room.left("low-", count - 2).await?;
    room.pod(&wants("high", "q", 2).class("build-preemptible")).await?;
    room.scheduled(&["high"]).await?;
    room.left("low-", count - 3).await
}

/// A node full of pods of a queue without quota; its sibling may have everything.
async fn full(room: &Room, policy: &str, gpus: u32) -> anyhow::Result<()> {
    let total = f64::from(NODE_GPUS);
    zoned_node(room, "n", policy).await?;
    room.queue(&queue("both").gpu(capped(total))).await?;
    room.queue(&queue("gives").gpu(quota(0.0)).below("both")).await?;
    room.queue(&queue("takes").gpu(quota(total)).below("both")).await?;
    room.start_as(&settings::aligned(), &[]).await?;
    let count = (NODE_GPUS / gpus) as usize;
    room.pods(&pods(count, |at| wants(format!("held-{at}"), "gives", gpus))).await?;
    room.counts("held-", count, 0).await?;
    for at in 0..count {
        observe(room, &format!("held-{at}")).await?;
    }
    Ok(())
}

async fn reclaim_one_zone(room: &Room, policy: &str) -> anyhow::Result<()> {
    full(room, policy, ZONE_GPUS).await?;
    room.pod(&wants("taken", "takes", ZONE_GPUS)).await?;
    room.scheduled(&["taken"]).await?;
    has_zones(room, "taken", 1, ZONE_GPUS).await
}

async fn reclaim_two_zones(room: &Room, held: u32, taken: u32) -> anyhow::Result<()> {
    full(room, RESTRICTED, held).await?;
    room.pod(&wants_two_zones("taken", "takes", taken)).await?;
    room.scheduled(&["taken"]).await?;
    has_zones(room, "taken", 2, taken).await
}

/// One pod of a whole zone for each zone, of one Job.
async fn reclaim_gang(room: &Room) -> anyhow::Result<()> {
    full(room, RESTRICTED, ZONE_GPUS).await?;
    let mut gang = job(room, "taken", &wants("x", "takes", ZONE_GPUS));
    gang["spec"]["parallelism"] = json!(2);
    gang["spec"]["completions"] = json!(2);
    room.create(&format!("/apis/batch/v1/namespaces/{}/jobs", room.name), &gang).await?;
    room.counts("taken-", 2, 0).await?;
    let mut zones = Vec::new();
    for pod in room.pods_named("taken-").await? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        has_zones(room, name, 1, ZONE_GPUS).await?;
        zones.extend(zones_of(room, name).await?);
    }
    ensure!(zones[0] != zones[1], "both pods are in {zones:?}");
    Ok(())
}
