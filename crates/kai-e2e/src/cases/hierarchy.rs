//! Queues of several levels.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use super::integrations::only_group;
use crate::objects::{capped, pod, pods, queue, quota};
use crate::room::Room;

/// Cases of reclaim.
pub(super) const FAIRNESS: &[(&str, Run)] =
    &[("fairness of all levels, or of the lowest only", |room| Box::pin(fairness(room)))];

pub(super) const CASES: &[(&str, Run)] = &[
    ("quota: a hierarchy of one level", |room| Box::pin(levels(room, &[500.0]))),
    ("quota: a hierarchy of three levels", |room| Box::pin(levels(room, &[1000.0, 500.0, 200.0]))),
    ("quota: a hierarchy of four levels", |room| {
        Box::pin(levels(room, &[2000.0, 1000.0, 500.0, 200.0]))
    }),
];

/// Queues one below the other, with quota and limit of CPU each. KAI reads the conditions of the group for one level only.
async fn levels(room: &Room, milli: &[f64]) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    for (level, milli) in milli.iter().enumerate() {
        let own = queue(&format!("q{level}")).cpu(capped(*milli));
        let own = if level == 0 { own } else { own.below(&format!("q{}", level - 1)) };
        room.queue(&own).await?;
    }
    room.start(&[]).await?;
    room.pod(&pod("p", &format!("q{}", milli.len() - 1)).cpu("100m")).await?;
    room.scheduled(&["p"]).await?;
    let group = only_group(room).await?;
    let conditions = group["status"]["schedulingConditions"].as_array();
    let is_unschedulable = |one: &Value| one["type"] == "UnschedulableOnNodePool";
    ensure!(!conditions.into_iter().flatten().any(is_unschedulable), "{group}");
    Ok(())
}

/// Changed: `kai` is restarted with the other setting; KAI's operator restarts its scheduler.
/// A queue below one that deserves nothing gets nothing, unless only the lowest level counts.
async fn fairness(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 2).await?;
    room.queue(&queue("gives-parent")).await?;
    room.queue(&queue("gives").below("gives-parent").gpu(quota(0.0))).await?;
    room.queue(&queue("takes-parent").gpu(quota(0.0).limited(0.0))).await?;
    room.queue(&queue("takes").below("takes-parent").gpu(quota(0.0))).await?;
    room.start(&[]).await?;
    room.pods(&pods(2, |at| pod(format!("held-{at}"), "gives").gpus(1))).await?;
    room.counts("held-", 2, 0).await?;
    room.pod(&pod("taken", "takes").gpus(1)).await?;
    room.unschedulable(&["taken"]).await?;
    room.stop().await;
    room.start(&["--full-hierarchy-fairness=false"]).await?;
    room.scheduled(&["taken"]).await
}
