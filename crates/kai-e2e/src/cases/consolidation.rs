//! Running pods move together so that a larger one fits.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Run;
use super::integrations::job;
use crate::admission;
use crate::objects::{Pod, pod, queue};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("nodes: two single GPUs make a pair", |space| Box::pin(nodes(space))),
    ("devices: two halves make a GPU", |space| Box::pin(devices(space))),
];

/// Four jobs of one pod each; they make their pods again where they are evicted.
async fn four_jobs(space: &TestSpace, member: &Pod) -> anyhow::Result<()> {
    for at in 0..4 {
        let object = job(space, &format!("one-{at}"), member);
        space.create(&jobs(space), &object).await?;
    }
    space.counts("one-", 4, 0).await
}

fn jobs(space: &TestSpace) -> String {
    format!("/apis/batch/v1/namespaces/{}/jobs", space.name)
}

/// Ends the job of the first pod that is at this place.
async fn end_one(space: &TestSpace, is_there: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let pods = space.pods_named("one-").await?;
    let first = pods.iter().find(|pod| is_there(pod)).context("a pod at this place")?;
    let owner = first["metadata"]["labels"]["job-name"].as_str().context("the name of its job")?;
    space.delete(&format!("{}/{owner}", jobs(space))).await
}

async fn nodes(space: &TestSpace) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        space.gpu_node(name, 2).await?;
    }
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    four_jobs(space, &pod("x", "q").gpus(1)).await?;
    for node in ["n0", "n1"] {
        let full = space.node_name(node);
        end_one(space, |pod| pod["spec"]["nodeName"] == full.as_str()).await?;
    }
    space.left("one-", 2).await?;
    space.pod(&pod("pair", "q").gpus(2)).await?;
    space.scheduled(&["pair"]).await?;
    space.counts("one-", 2, 0).await
}

async fn devices(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 2).await?;
    space.queue(&queue("q")).await?;
    let sharing = ["--gpu-sharing-enabled", "--gpu-fraction-runtime-class-name="];
    let _admission = admission::start(space, &sharing).await?;
    space.start(&[]).await?;
    four_jobs(space, &pod("x", "q").fraction("0.5")).await?;
    let group = |pod: &Value| pod["metadata"]["labels"]["runai-gpu-group"].clone();
    let mut groups: Vec<Value> = space.pods_named("one-").await?.iter().map(group).collect();
    groups.sort_by_key(Value::to_string);
    groups.dedup();
    ensure!(groups.len() == 2, "{groups:?}");
    for wanted in groups {
        end_one(space, |pod| group(pod) == wanted).await?;
    }
    space.left("one-", 2).await?;
    space.pod(&pod("whole", "q").gpus(1)).await?;
    space.scheduled(&["whole"]).await?;
    space.counts("one-", 2, 0).await
}
