//! Within a queue, higher priorities take the place of preemptible lower ones.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::Run;
use super::integrations::{job, only_group};
use crate::objects::{capped, pod, pods, queue};
use crate::test_space::TestSpace;

/// Preemptible, low.
const LOW: &str = "train";
const HIGH: &str = "build-preemptible";
/// Not preemptible, low.
const LOW_FIXED: &str = "build";
/// Not preemptible, high.
const HIGH_FIXED: &str = "inference";

pub(super) const CASES: &[(&str, Run)] = &[
    ("high preemptible over low preemptible", |space| Box::pin(contest(space, LOW, HIGH, true))),
    ("high fixed over low preemptible", |space| Box::pin(contest(space, LOW, HIGH_FIXED, true))),
    ("high fixed not over low fixed", |space| {
        Box::pin(contest(space, LOW_FIXED, HIGH_FIXED, false))
    }),
    ("low preemptible not over high preemptible", |space| {
        Box::pin(contest(space, HIGH, LOW, false))
    }),
    ("low fixed not over high fixed", |space| {
        Box::pin(contest(space, HIGH_FIXED, LOW_FIXED, false))
    }),
    ("low preemptible not over high fixed", |space| {
        Box::pin(contest(space, HIGH_FIXED, LOW, false))
    }),
    ("same priority, preemptible", |space| Box::pin(contest(space, LOW, LOW, false))),
    ("same priority, fixed", |space| Box::pin(contest(space, LOW_FIXED, LOW_FIXED, false))),
    ("separation: high but preemptible is preempted", |space| Box::pin(separated(space, true))),
    ("separation: low but not preemptible is not", |space| Box::pin(separated(space, false))),
    ("distributed: a job of two whole nodes", |space| Box::pin(distributed(space))),
    ("elastic: a part is evicted", |space| Box::pin(elastic_part(space))),
    ("elastic: all is evicted", |space| Box::pin(elastic_all(space))),
    ("elastic pod order: higher task priorities stay", |space| Box::pin(pod_order(space))),
    ("preemption delay", |space| Box::pin(delay(space))),
    ("a node with as many pods as it may have", |space| Box::pin(max_pods(space))),
    ("a GPU share needs capacity for its reservation pod", |space| {
        Box::pin(max_pods_but_one(space))
    }),
    ("min sub-groups: enough of them stay", |space| Box::pin(min_sub_group(space))),
];

async fn half_a_core(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q").cpu(capped(500.0))).await?;
    space.start(&[]).await
}

async fn contest(
    space: &TestSpace,
    holder: &str,
    taker: &str,
    preempts: bool,
) -> anyhow::Result<()> {
    half_a_core(space).await?;
    space.pod(&pod("holder", "q").cpu("500m").class(holder)).await?;
    space.scheduled(&["holder"]).await?;
    space.pod(&pod("taker", "q").cpu("500m").class(taker)).await?;
    if preempts {
        space.left("holder", 0).await?;
        space.scheduled(&["taker"]).await
    } else {
        space.unschedulable(&["taker"]).await?;
        space.scheduled(&["holder"]).await
    }
}

const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";

async fn separated(space: &TestSpace, preempted: bool) -> anyhow::Result<()> {
    half_a_core(space).await?;
    let (class, word, taker) = if preempted {
        (LOW_FIXED, "preemptible", HIGH_FIXED)
    } else {
        (LOW, "non-preemptible", HIGH)
    };
    let holder = pod("holder", "q").cpu("500m").class(class).labelled(PREEMPTIBILITY, word);
    space.pod(&holder).await?;
    space.scheduled(&["holder"]).await?;
    let group = only_group(space).await?;
    ensure!(group["spec"]["preemptibility"] == word, "{group}");
    space.pod(&pod("taker", "q").cpu("500m").class(taker)).await?;
    if preempted {
        space.left("holder", 0).await?;
        space.scheduled(&["taker"]).await
    } else {
        space.unschedulable(&["taker"]).await
    }
}

/// Jobs fill two nodes, one more waits, and a non-preemptible gang takes both nodes. Pods that are evicted come back.
async fn distributed(space: &TestSpace) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        space.gpu_node(name, 4).await?;
    }
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", space.name);
    let filler = pod("x", "q").gpus(1).class(LOW);
    for at in 0..8 {
        space.create(&jobs, &job(space, &format!("low-{at}"), &filler)).await?;
    }
    space.counts("low-", 8, 0).await?;
    space.create(&jobs, &job(space, "extra", &filler)).await?;
    space.counts("extra-", 0, 1).await?;
    space.delete(&format!("{jobs}/extra")).await?;
    space.group("g", "q", json!({"minMember": 2, "priorityClassName": HIGH_FIXED})).await?;
    let member = |at| pod(format!("high-{at}"), "q").of_group("g").gpus(4).class(HIGH_FIXED);
    space.pods(&pods(2, member)).await?;
    space.scheduled(&["high-0", "high-1"]).await
}

/// An elastic group of one-GPU pods that runs.
async fn elastic_group(space: &TestSpace, name: &str, count: usize) -> anyhow::Result<()> {
    space.group(name, "q", json!({"minMember": 1, "priorityClassName": LOW})).await?;
    let member = |at| pod(format!("{name}-{at}"), "q").of_group(name).gpus(1);
    space.pods(&pods(count, member)).await?;
    space.counts(&format!("{name}-"), count, 0).await
}

async fn gpu_queue(space: &TestSpace, gpus: f64) -> anyhow::Result<()> {
    space.gpu_node("n", 8).await?;
    space.queue(&queue("q").gpu(capped(gpus))).await?;
    space.start(&[]).await
}

async fn elastic_part(space: &TestSpace) -> anyhow::Result<()> {
    gpu_queue(space, 4.0).await?;
    elastic_group(space, "a", 2).await?;
    elastic_group(space, "b", 2).await?;
    space.pod(&pod("taker", "q").gpus(2).class(HIGH)).await?;
    space.scheduled(&["taker"]).await?;
    space.left("a-", 1).await?;
    space.left("b-", 1).await
}

async fn elastic_all(space: &TestSpace) -> anyhow::Result<()> {
    gpu_queue(space, 2.0).await?;
    elastic_group(space, "a", 2).await?;
    space.pod(&pod("taker", "q").gpus(2).class(HIGH)).await?;
    space.scheduled(&["taker"]).await?;
    space.left("a-", 0).await
}

async fn pod_order(space: &TestSpace) -> anyhow::Result<()> {
    gpu_queue(space, 4.0).await?;
    for (at, priority) in ["0", "1", "0", "1"].into_iter().enumerate() {
        let member = pod(format!("p{priority}-{at}"), "q").of_group("g").gpus(1);
        space.pod(&member.labelled("kai.scheduler/task-priority", priority)).await?;
    }
    space.group("g", "q", json!({"minMember": 1, "priorityClassName": LOW})).await?;
    space.counts("p", 4, 0).await?;
    space.pod(&pod("taker", "q").gpus(2).class(HIGH)).await?;
    space.scheduled(&["taker"]).await?;
    space.left("p0-", 0).await?;
    space.left("p1-", 2).await
}

/// Changed: the delay is an hour and is shortened when it has held for two seconds, so that the case passes on slow machines and
/// time alone ends it; KAI waits for 90 seconds.
async fn delay(space: &TestSpace) -> anyhow::Result<()> {
    half_a_core(space).await?;
    space.pod(&pod("holder", "q").cpu("500m").class(LOW)).await?;
    space.scheduled(&["holder"]).await?;
    let taker = pod("taker", "q").cpu("500m").class(HIGH);
    space.pod(&taker.annotated("kai.scheduler/preemption-delay", "1h")).await?;
    space.unschedulable(&["taker"]).await?;
    let stays = async || Ok(space.pods_named("holder").await?.len() == 1);
    space.stays("no pod is evicted", Duration::from_secs(2), stays).await?;
    let groups = space.groups().await?;
    let group = groups.iter().find(|group| group["spec"]["preemptionDelay"].is_string());
    let group = group.and_then(|group| group["metadata"]["name"].as_str()).unwrap_or_default();
    let waited = space.seconds_since_creation("taker").await?;
    space.change_group(group, json!({"preemptionDelay": format!("{}s", waited + 4)})).await?;
    space.left("holder", 0).await?;
    space.scheduled(&["taker"]).await
}

async fn max_pods(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({"pods": "3"})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pods(&pods(3, |at| pod(format!("low-{at}"), "q").cpu("10m").class(LOW))).await?;
    space.counts("low-", 3, 0).await?;
    space.pod(&pod("high", "q").cpu("10m").class(HIGH)).await?;
    space.scheduled(&["high"]).await?;
    space.left("low-", 2).await
}

/// One slot is free: the share would fit, the pod that holds its device would not. The second half is ours: a pod of a higher
/// priority gets both slots.
async fn max_pods_but_one(space: &TestSpace) -> anyhow::Result<()> {
    let labels = json!({"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "11441"});
    space.node("n", labels, json!({"pods": "4", "nvidia.com/gpu": "1"})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pods(&pods(3, |at| pod(format!("low-{at}"), "q").cpu("10m").class(LOW))).await?;
    space.counts("low-", 3, 0).await?;
    space.pod(&pod("share", "q").fraction("0.5").class(LOW)).await?;
    space.unschedulable(&["share"]).await?;
    let event = space.event("share", "Unschedulable").await?;
    let text = event["message"].as_str().unwrap_or_default();
    ensure!(text.contains("pod number exceeded") || text.contains("max pods"), "{text}");
    space.delete_pod("share").await?;
    space.pod(&pod("high", "q").fraction("0.5").class(HIGH)).await?;
    space.scheduled(&["high"]).await?;
    space.left("low-", 2).await
}

async fn min_sub_group(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    for name in ["low", "high"] {
        space.queue(&queue(name).cpu(crate::objects::quota(300.0).limited(600.0))).await?;
    }
    space.start(&[]).await?;
    let leaves: Vec<_> =
        (0..4).map(|at| json!({"name": format!("l{at}"), "minMember": 1})).collect();
    space.group("g", "low", json!({"minSubGroup": 2, "subGroups": leaves})).await?;
    let member = |at| {
        pod(format!("p-{at}"), "low").of_group("g").of_sub_group(&format!("l{at}")).cpu("100m")
    };
    space.pods(&pods(4, member)).await?;
    space.counts("p-", 4, 0).await?;
    space.pod(&pod("taker", "high").cpu("300m")).await?;
    space.scheduled(&["taker"]).await?;
    let left = space.pods_named("p-").await?.len();
    anyhow::ensure!(left >= 2, "{left} left");
    Ok(())
}
