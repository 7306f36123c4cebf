//! What objects are accepted and what is written on them.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{capped, pod, queue, quota};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("conditions: non-preemptible over quota", |space| {
        Box::pin(condition(space, "build", quota(0.0), "NonPreemptibleOverQuota"))
    }),
    ("conditions: preemptible over limit", |space| {
        Box::pin(condition(space, "train", capped(0.0), "OverLimit"))
    }),
    ("conditions: non-preemptible over limit", |space| {
        Box::pin(condition(space, "build", quota(-1.0).limited(0.0), "OverLimit"))
    }),
    ("events: too few pods", |space| Box::pin(not_ready(space))),
];

/// The reason of a group's condition, and that its details name the queue.
async fn condition(
    space: &TestSpace,
    class: &str,
    gpu: crate::objects::Share,
    reason: &str,
) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q").gpu(gpu)).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").gpus(1).class(class)).await?;
    let reasons = async || -> anyhow::Result<Vec<Value>> {
        let groups = space.groups().await?;
        let conditions =
            |group: &Value| group["status"]["schedulingConditions"].as_array().cloned();
        let all = groups.iter().filter_map(conditions).flatten();
        Ok(all.flat_map(|one| one["reasons"].as_array().cloned().unwrap_or_default()).collect())
    };
    let has_reason = async || Ok(reasons().await?.iter().any(|one| one["reason"] == reason));
    space.until(&format!("a condition {reason}"), has_reason).await?;
    let text = format!("{:?}", reasons().await?);
    ensure!(text.contains(&space.queue_name("q")), "{text}");
    Ok(())
}

async fn not_ready(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.group("g", "q", json!({"minMember": 2})).await?;
    space.pod(&pod("p", "q").of_group("g")).await?;
    space.not_ready_event("g").await
}
