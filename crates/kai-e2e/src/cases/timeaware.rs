//! Queues with much past usage get a smaller fair share.

use serde_json::json;

use super::Run;
use crate::objects::{pod, queue, quota};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] =
    &[("past usage outweighs weights in time", |space| Box::pin(gives_way(space)))];

/// Changed: KAI asks Prometheus every five seconds; here the record is our own, which needs nothing else.
const CONFIGURATION: &str = "\
usageDBConfig:
  clientType: recorder
  usageParams: {windowSize: 30s, halfLifePeriod: 15s, fetchInterval: 1s}
tiers:
- plugins:
  - {name: predicates}
  - {name: proportion, arguments: {kValue: \"10000\"}}
  - {name: priority}
  - {name: nodeavailability}
  - {name: elastic}
  - {name: nodeplacement, arguments: {gpu: binpack, cpu: binpack}}
  - {name: sg-nodelocalgreedy}
  - {name: sg-multinodegang}
";

async fn gives_way(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 2).await?;
    space.queue(&queue("heavy").gpu(quota(0.0).weighing(10_000.0))).await?;
    space.queue(&queue("light").gpu(quota(0.0).weighing(1.0))).await?;
    space.start_as(CONFIGURATION, &[]).await?;
    space.group("used", "heavy", json!({"minMember": 1})).await?;
    for name in ["used-0", "used-1"] {
        space.pod(&pod(name, "heavy").of_group("used").gpus(1)).await?;
    }
    space.scheduled(&["used-0", "used-1"]).await?;
    let path = format!("/apis/scheduling.run.ai/v2/queues/{}", space.queue_name("heavy"));
    let counted = async || {
        let queue = space.see(&path).await?.unwrap_or_default();
        Ok(queue["status"]["allocated"]["nvidia.com/gpu"] == "2")
    };
    space.until("the queue counts two GPUs", counted).await?;
    space.pod(&pod("late", "light").gpus(1)).await?;
    space.scheduled(&["late"]).await
}
