//! Servers without device claims: pods with claims stay pending with a reason, and delay no other pods.

use anyhow::{Context, ensure};
use serde_json::json;

use super::Run;
use crate::objects::{Pod, pod, pods, queue};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("no DRA: a pod with a claim waits", |space| Box::pin(claim(space))),
    ("no DRA: a pod with a claim from a template waits", |space| Box::pin(template(space))),
    ("no DRA: a gang of which one has a claim waits", |space| Box::pin(gang(space))),
    ("no DRA: an extended resource without a device plugin waits", |space| {
        Box::pin(extended(space))
    }),
];

/// KAI's text for a pod with claims on a server without them.
const REASON: &str = "while dynamic resource allocation is not available in the cluster";

async fn furnished(space: &TestSpace) -> anyhow::Result<()> {
    let api = space.see("/apis/resource.k8s.io/v1").await?;
    ensure!(api.is_none(), "this server knows device claims");
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await
}

/// Why a pod waits.
async fn reason(space: &TestSpace, name: &str) -> anyhow::Result<String> {
    let pod = space.see_pod(name).await?.with_context(|| format!("pod {name} is gone"))?;
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
    Ok(condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned())
}

/// The pod is pending with a reason, while another pod is bound.
async fn waits(space: &TestSpace, wanting: Pod, why: &str) -> anyhow::Result<()> {
    let name = wanting.name.clone();
    furnished(space).await?;
    space.pod(&wanting).await?;
    space.unschedulable(&[&name]).await?;
    let has_reason = async || Ok(reason(space, &name).await?.contains(why));
    space.until(&format!("{name} is pending because {why}"), has_reason).await?;
    space.pod(&pod("other", "q")).await?;
    space.ready(&["other"]).await?;
    space.unschedulable(&[&name]).await
}

async fn claim(space: &TestSpace) -> anyhow::Result<()> {
    waits(space, pod("p", "q").uses_claim("mine"), REASON).await
}

async fn template(space: &TestSpace) -> anyhow::Result<()> {
    waits(space, pod("p", "q").claims("one"), REASON).await
}

async fn gang(space: &TestSpace) -> anyhow::Result<()> {
    furnished(space).await?;
    space.group("g", "q", json!({"minMember": 3})).await?;
    space.pods(&pods(2, |at| pod(format!("p-{at}"), "q").of_group("g"))).await?;
    space.pod(&pod("p-2", "q").of_group("g").claims("one")).await?;
    space.counts("p-", 0, 3).await?;
    space.pod(&pod("other", "q")).await?;
    space.ready(&["other"]).await?;
    space.counts("p-", 0, 3).await
}

async fn extended(space: &TestSpace) -> anyhow::Result<()> {
    let resource = space.extended_resource();
    waits(space, pod("p", "q").asks(&resource, "1"), &resource).await
}
