//! Servers that do not know device claims: pods that have some wait and are told why, and hold nobody up.

use anyhow::{Context, ensure};
use serde_json::json;

use super::Run;
use crate::objects::{Pod, pod, pods, queue};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("no DRA: a pod with a claim waits", |room| Box::pin(claim(room))),
    ("no DRA: a pod with a claim from a template waits", |room| Box::pin(template(room))),
    ("no DRA: a gang of which one has a claim waits", |room| Box::pin(gang(room))),
    ("no DRA: an extended resource without a device plugin waits", |room| Box::pin(extended(room))),
];

/// KAI's words.
const REASON: &str = "while dynamic resource allocation is not available in the cluster";

async fn furnished(room: &Room) -> anyhow::Result<()> {
    let api = room.see("/apis/resource.k8s.io/v1").await?;
    ensure!(api.is_none(), "this server knows device claims");
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// Why a pod waits.
async fn reason(room: &Room, name: &str) -> anyhow::Result<String> {
    let pod = room.see_pod(name).await?.with_context(|| format!("pod {name} is gone"))?;
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let told = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
    Ok(told.and_then(|told| told["message"].as_str()).unwrap_or_default().to_owned())
}

/// It waits and is told why, while another pod is placed.
async fn waits(room: &Room, wanting: Pod, why: &str) -> anyhow::Result<()> {
    let name = wanting.name.clone();
    furnished(room).await?;
    room.pod(&wanting).await?;
    room.unschedulable(&[&name]).await?;
    let told = async || Ok(reason(room, &name).await?.contains(why));
    room.until(&format!("{name} is told: {why}"), told).await?;
    room.pod(&pod("other", "q")).await?;
    room.ready(&["other"]).await?;
    room.unschedulable(&[&name]).await
}

async fn claim(room: &Room) -> anyhow::Result<()> {
    waits(room, pod("p", "q").uses_claim("mine"), REASON).await
}

async fn template(room: &Room) -> anyhow::Result<()> {
    waits(room, pod("p", "q").claims("one"), REASON).await
}

async fn gang(room: &Room) -> anyhow::Result<()> {
    furnished(room).await?;
    room.group("g", "q", json!({"minMember": 3})).await?;
    room.pods(&pods(2, |at| pod(format!("p-{at}"), "q").of_group("g"))).await?;
    room.pod(&pod("p-2", "q").of_group("g").claims("one")).await?;
    room.counts("p-", 0, 3).await?;
    room.pod(&pod("other", "q")).await?;
    room.ready(&["other"]).await?;
    room.counts("p-", 0, 3).await
}

async fn extended(room: &Room) -> anyhow::Result<()> {
    let resource = room.extended_resource();
    waits(room, pod("p", "q").asks(&resource, "1"), &resource).await
}
