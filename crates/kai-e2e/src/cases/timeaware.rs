//! Who used much in the past gives way.

use serde_json::json;

use super::Run;
use crate::objects::{pod, queue, quota};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] =
    &[("past usage outweighs weights in time", |room| Box::pin(gives_way(room)))];

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

async fn gives_way(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 2).await?;
    room.queue(&queue("heavy").gpu(quota(0.0).weighing(10_000.0))).await?;
    room.queue(&queue("light").gpu(quota(0.0).weighing(1.0))).await?;
    room.start_as(CONFIGURATION, &[]).await?;
    room.group("used", "heavy", json!({"minMember": 1})).await?;
    for name in ["used-0", "used-1"] {
        room.pod(&pod(name, "heavy").of_group("used").gpus(1)).await?;
    }
    room.scheduled(&["used-0", "used-1"]).await?;
    let path = format!("/apis/scheduling.run.ai/v2/queues/{}", room.queue_name("heavy"));
    let counted = async || {
        let queue = room.see(&path).await?.unwrap_or_default();
        Ok(queue["status"]["allocated"]["nvidia.com/gpu"] == "2")
    };
    room.until("the queue counts two GPUs", counted).await?;
    room.pod(&pod("late", "light").gpus(1)).await?;
    room.scheduled(&["late"]).await
}
