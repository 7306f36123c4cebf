//! What objects are accepted and what is written on them.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{capped, pod, queue, quota};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("conditions: non-preemptible over quota", |room| {
        Box::pin(condition(room, "build", quota(0.0), "NonPreemptibleOverQuota"))
    }),
    ("conditions: preemptible over limit", |room| {
        Box::pin(condition(room, "train", capped(0.0), "OverLimit"))
    }),
    ("conditions: non-preemptible over limit", |room| {
        Box::pin(condition(room, "build", quota(-1.0).limited(0.0), "OverLimit"))
    }),
    ("events: too few pods", |room| Box::pin(not_ready(room))),
];

/// The reason of a group's condition, and that its details name the queue.
async fn condition(
    room: &Room,
    class: &str,
    gpu: crate::objects::Share,
    reason: &str,
) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q").gpu(gpu)).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").gpus(1).class(class)).await?;
    let reasons = async || -> anyhow::Result<Vec<Value>> {
        let groups = room.groups().await?;
        let conditions =
            |group: &Value| group["status"]["schedulingConditions"].as_array().cloned();
        let all = groups.iter().filter_map(conditions).flatten();
        Ok(all.flat_map(|one| one["reasons"].as_array().cloned().unwrap_or_default()).collect())
    };
    let told = async || Ok(reasons().await?.iter().any(|one| one["reason"] == reason));
    room.until(&format!("a condition {reason}"), told).await?;
    let text = format!("{:?}", reasons().await?);
    ensure!(text.contains(&room.queue_name("q")), "{text}");
    Ok(())
}

async fn not_ready(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.group("g", "q", json!({"minMember": 2})).await?;
    room.pod(&pod("p", "q").of_group("g")).await?;
    room.not_ready_event("g").await
}
