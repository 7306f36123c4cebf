//! Running pods move together so that a larger one fits.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Run;
use super::integrations::job;
use crate::admission;
use crate::objects::{Pod, pod, queue};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("nodes: two single GPUs make a pair", |room| Box::pin(nodes(room))),
    ("devices: two halves make a GPU", |room| Box::pin(devices(room))),
];

/// Four jobs of one pod each; they make their pods again where they are evicted.
async fn four_jobs(room: &Room, member: &Pod) -> anyhow::Result<()> {
    for at in 0..4 {
        let object = job(room, &format!("one-{at}"), member);
        room.create(&jobs(room), &object).await?;
    }
    room.counts("one-", 4, 0).await
}

fn jobs(room: &Room) -> String {
    format!("/apis/batch/v1/namespaces/{}/jobs", room.name)
}

/// Ends the job of the first pod that is at this place.
async fn end_one(room: &Room, is_there: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let pods = room.pods_named("one-").await?;
    let first = pods.iter().find(|pod| is_there(pod)).context("a pod at this place")?;
    let owner = first["metadata"]["labels"]["job-name"].as_str().context("the name of its job")?;
    room.delete(&format!("{}/{owner}", jobs(room))).await
}

async fn nodes(room: &Room) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        room.gpu_node(name, 2).await?;
    }
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    four_jobs(room, &pod("x", "q").gpus(1)).await?;
    for node in ["n0", "n1"] {
        let full = room.node_name(node);
        end_one(room, |pod| pod["spec"]["nodeName"] == full.as_str()).await?;
    }
    room.left("one-", 2).await?;
    room.pod(&pod("pair", "q").gpus(2)).await?;
    room.scheduled(&["pair"]).await?;
    room.counts("one-", 2, 0).await
}

async fn devices(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 2).await?;
    room.queue(&queue("q")).await?;
    let sharing = ["--gpu-sharing-enabled", "--gpu-fraction-runtime-class-name="];
    let _admission = admission::start(room, &sharing).await?;
    room.start(&[]).await?;
    four_jobs(room, &pod("x", "q").fraction("0.5")).await?;
    let group = |pod: &Value| pod["metadata"]["labels"]["runai-gpu-group"].clone();
    let mut groups: Vec<Value> = room.pods_named("one-").await?.iter().map(group).collect();
    groups.sort_by_key(Value::to_string);
    groups.dedup();
    ensure!(groups.len() == 2, "{groups:?}");
    for wanted in groups {
        end_one(room, |pod| group(pod) == wanted).await?;
    }
    room.left("one-", 2).await?;
    room.pod(&pod("whole", "q").gpus(1)).await?;
    room.scheduled(&["whole"]).await?;
    room.counts("one-", 2, 0).await
}
