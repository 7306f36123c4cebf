//! Queues of several levels.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use super::integrations::only_group;
use crate::objects::{capped, pod, pods, queue, quota};
use crate::test_space::TestSpace;

/// Cases of KAI's reclaim suite.
pub(super) const FAIRNESS: &[(&str, Run)] =
    &[("fairness of all levels, or of the lowest only", |space| Box::pin(fairness(space)))];

pub(super) const CASES: &[(&str, Run)] = &[
    ("quota: a hierarchy of one level", |space| Box::pin(levels(space, &[500.0]))),
    ("quota: a hierarchy of three levels", |space| {
        Box::pin(levels(space, &[1000.0, 500.0, 200.0]))
    }),
    ("quota: a hierarchy of four levels", |space| {
        Box::pin(levels(space, &[2000.0, 1000.0, 500.0, 200.0]))
    }),
];

/// Queues one below the other, with quota and limit of CPU each. KAI reads the conditions of the group for one level only.
async fn levels(space: &TestSpace, milli: &[f64]) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    for (level, milli) in milli.iter().enumerate() {
        let own = queue(&format!("q{level}")).cpu(capped(*milli));
        let own = if level == 0 { own } else { own.below(&format!("q{}", level - 1)) };
        space.queue(&own).await?;
    }
    space.start(&[]).await?;
    space.pod(&pod("p", &format!("q{}", milli.len() - 1)).cpu("100m")).await?;
    space.scheduled(&["p"]).await?;
    let group = only_group(space).await?;
    let conditions = group["status"]["schedulingConditions"].as_array();
    let is_unschedulable = |one: &Value| one["type"] == "UnschedulableOnNodePool";
    ensure!(!conditions.into_iter().flatten().any(is_unschedulable), "{group}");
    Ok(())
}

/// Changed: `kai` is restarted with the other setting; KAI's operator restarts its scheduler.
/// A queue below one that deserves nothing gets nothing, unless only the lowest level counts.
async fn fairness(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 2).await?;
    space.queue(&queue("gives-parent")).await?;
    space.queue(&queue("gives").below("gives-parent").gpu(quota(0.0))).await?;
    space.queue(&queue("takes-parent").gpu(quota(0.0).limited(0.0))).await?;
    space.queue(&queue("takes").below("takes-parent").gpu(quota(0.0))).await?;
    space.start(&[]).await?;
    space.pods(&pods(2, |at| pod(format!("held-{at}"), "gives").gpus(1))).await?;
    space.counts("held-", 2, 0).await?;
    space.pod(&pod("taken", "takes").gpus(1)).await?;
    space.unschedulable(&["taken"]).await?;
    space.stop().await;
    space.start(&["--full-hierarchy-fairness=false"]).await?;
    space.scheduled(&["taken"]).await
}
