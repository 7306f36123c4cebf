//! Within a queue, higher priorities take the place of preemptible lower ones.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::Run;
use super::integrations::{job, only_group};
use crate::objects::{capped, pod, pods, queue};
use crate::room::Room;

/// Preemptible, low.
const LOW: &str = "train";
/// Preemptible, high.
const HIGH: &str = "build-preemptible";
/// Not preemptible, low.
const LOW_FIXED: &str = "build";
/// Not preemptible, high.
const HIGH_FIXED: &str = "inference";

pub(super) const CASES: &[(&str, Run)] = &[
    ("high preemptible over low preemptible", |room| Box::pin(contest(room, LOW, HIGH, true))),
    ("high fixed over low preemptible", |room| Box::pin(contest(room, LOW, HIGH_FIXED, true))),
    ("high fixed not over low fixed", |room| Box::pin(contest(room, LOW_FIXED, HIGH_FIXED, false))),
    ("low preemptible not over high preemptible", |room| Box::pin(contest(room, HIGH, LOW, false))),
    ("low fixed not over high fixed", |room| Box::pin(contest(room, HIGH_FIXED, LOW_FIXED, false))),
    ("low preemptible not over high fixed", |room| Box::pin(contest(room, HIGH_FIXED, LOW, false))),
    ("same priority, preemptible", |room| Box::pin(contest(room, LOW, LOW, false))),
    ("same priority, fixed", |room| Box::pin(contest(room, LOW_FIXED, LOW_FIXED, false))),
    ("separation: high but preemptible is preempted", |room| Box::pin(separated(room, true))),
    ("separation: low but not preemptible is not", |room| Box::pin(separated(room, false))),
    ("distributed: a job of two whole nodes", |room| Box::pin(distributed(room))),
    ("elastic: a part goes", |room| Box::pin(elastic_part(room))),
    ("elastic: all goes", |room| Box::pin(elastic_all(room))),
    ("elastic pod order: higher task priorities stay", |room| Box::pin(pod_order(room))),
    ("preemption delay", |room| Box::pin(delay(room))),
    ("a node with as many pods as it may have", |room| Box::pin(max_pods(room))),
    ("a share needs room for the pod that holds its device", |room| {
        Box::pin(max_pods_but_one(room))
    }),
    ("min sub-groups: enough of them stay", |room| Box::pin(min_sub_group(room))),
];

async fn half_a_core(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q").cpu(capped(500.0))).await?;
    room.start(&[]).await
}

async fn contest(room: &Room, holder: &str, taker: &str, preempts: bool) -> anyhow::Result<()> {
    half_a_core(room).await?;
    room.pod(&pod("holder", "q").cpu("500m").class(holder)).await?;
    room.scheduled(&["holder"]).await?;
    room.pod(&pod("taker", "q").cpu("500m").class(taker)).await?;
    if preempts {
        room.left("holder", 0).await?;
        room.scheduled(&["taker"]).await
    } else {
        room.unschedulable(&["taker"]).await?;
        room.scheduled(&["holder"]).await
    }
}

const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";

async fn separated(room: &Room, preempted: bool) -> anyhow::Result<()> {
    half_a_core(room).await?;
    let (class, word, taker) = if preempted {
        (LOW_FIXED, "preemptible", HIGH_FIXED)
    } else {
        (LOW, "non-preemptible", HIGH)
    };
    let holder = pod("holder", "q").cpu("500m").class(class).labelled(PREEMPTIBILITY, word);
    room.pod(&holder).await?;
    room.scheduled(&["holder"]).await?;
    let group = only_group(room).await?;
    ensure!(group["spec"]["preemptibility"] == word, "{group}");
    room.pod(&pod("taker", "q").cpu("500m").class(taker)).await?;
    if preempted {
        room.left("holder", 0).await?;
        room.scheduled(&["taker"]).await
    } else {
        room.unschedulable(&["taker"]).await
    }
}

/// Jobs fill two nodes, one more waits, and a non-preemptible gang takes both nodes. Pods that are evicted come back.
async fn distributed(room: &Room) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        room.gpu_node(name, 4).await?;
    }
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", room.name);
    let filler = pod("x", "q").gpus(1).class(LOW);
    for at in 0..8 {
        room.create(&jobs, &job(room, &format!("low-{at}"), &filler)).await?;
    }
    room.counts("low-", 8, 0).await?;
    room.create(&jobs, &job(room, "extra", &filler)).await?;
    room.counts("extra-", 0, 1).await?;
    room.delete(&format!("{jobs}/extra")).await?;
    room.group("g", "q", json!({"minMember": 2, "priorityClassName": HIGH_FIXED})).await?;
    let member = |at| pod(format!("high-{at}"), "q").of_group("g").gpus(4).class(HIGH_FIXED);
    room.pods(&pods(2, member)).await?;
    room.scheduled(&["high-0", "high-1"]).await
}

/// An elastic group of one-GPU pods that runs.
async fn elastic_group(room: &Room, name: &str, count: usize) -> anyhow::Result<()> {
    room.group(name, "q", json!({"minMember": 1, "priorityClassName": LOW})).await?;
    let member = |at| pod(format!("{name}-{at}"), "q").of_group(name).gpus(1);
    room.pods(&pods(count, member)).await?;
    room.counts(&format!("{name}-"), count, 0).await
}

async fn gpu_queue(room: &Room, gpus: f64) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("q").gpu(capped(gpus))).await?;
    room.start(&[]).await
}

async fn elastic_part(room: &Room) -> anyhow::Result<()> {
    gpu_queue(room, 4.0).await?;
    elastic_group(room, "a", 2).await?;
    elastic_group(room, "b", 2).await?;
    room.pod(&pod("taker", "q").gpus(2).class(HIGH)).await?;
    room.scheduled(&["taker"]).await?;
    room.left("a-", 1).await?;
    room.left("b-", 1).await
}

async fn elastic_all(room: &Room) -> anyhow::Result<()> {
    gpu_queue(room, 2.0).await?;
    elastic_group(room, "a", 2).await?;
    room.pod(&pod("taker", "q").gpus(2).class(HIGH)).await?;
    room.scheduled(&["taker"]).await?;
    room.left("a-", 0).await
}

async fn pod_order(room: &Room) -> anyhow::Result<()> {
    gpu_queue(room, 4.0).await?;
    for (at, priority) in ["0", "1", "0", "1"].into_iter().enumerate() {
        let member = pod(format!("p{priority}-{at}"), "q").of_group("g").gpus(1);
        room.pod(&member.labelled("kai.scheduler/task-priority", priority)).await?;
    }
    room.group("g", "q", json!({"minMember": 1, "priorityClassName": LOW})).await?;
    room.counts("p", 4, 0).await?;
    room.pod(&pod("taker", "q").gpus(2).class(HIGH)).await?;
    room.scheduled(&["taker"]).await?;
    room.left("p0-", 0).await?;
    room.left("p1-", 2).await
}

/// Changed: the delay is an hour and is shortened when it has held for two seconds, so that the case passes on slow machines and
/// time alone ends it; KAI waits for 90 seconds.
async fn delay(room: &Room) -> anyhow::Result<()> {
    half_a_core(room).await?;
    room.pod(&pod("holder", "q").cpu("500m").class(LOW)).await?;
    room.scheduled(&["holder"]).await?;
    let taker = pod("taker", "q").cpu("500m").class(HIGH);
    room.pod(&taker.annotated("kai.scheduler/preemption-delay", "1h")).await?;
    room.unschedulable(&["taker"]).await?;
    let stays = async || Ok(room.pods_named("holder").await?.len() == 1);
    room.stays("nobody is evicted", Duration::from_secs(2), stays).await?;
    let groups = room.groups().await?;
    let group = groups.iter().find(|group| group["spec"]["preemptionDelay"].is_string());
    let group = group.and_then(|group| group["metadata"]["name"].as_str()).unwrap_or_default();
    let waited = room.seconds_since_creation("taker").await?;
    room.change_group(group, json!({"preemptionDelay": format!("{}s", waited + 4)})).await?;
    room.left("holder", 0).await?;
    room.scheduled(&["taker"]).await
}

async fn max_pods(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({"pods": "3"})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pods(&pods(3, |at| pod(format!("low-{at}"), "q").cpu("10m").class(LOW))).await?;
    room.counts("low-", 3, 0).await?;
    room.pod(&pod("high", "q").cpu("10m").class(HIGH)).await?;
    room.scheduled(&["high"]).await?;
    room.left("low-", 2).await
}

/// One slot is free: the share would fit, the pod that holds its device would not. The second half is ours: a pod of a higher
/// priority gets both slots.
async fn max_pods_but_one(room: &Room) -> anyhow::Result<()> {
    let labels = json!({"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "11441"});
    room.node("n", labels, json!({"pods": "4", "nvidia.com/gpu": "1"})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pods(&pods(3, |at| pod(format!("low-{at}"), "q").cpu("10m").class(LOW))).await?;
    room.counts("low-", 3, 0).await?;
    room.pod(&pod("share", "q").fraction("0.5").class(LOW)).await?;
    room.unschedulable(&["share"]).await?;
    let event = room.event("share", "Unschedulable").await?;
    let text = event["message"].as_str().unwrap_or_default();
    ensure!(text.contains("pod number exceeded") || text.contains("max pods"), "{text}");
    room.delete_pod("share").await?;
    room.pod(&pod("high", "q").fraction("0.5").class(HIGH)).await?;
    room.scheduled(&["high"]).await?;
    room.left("low-", 2).await
}

async fn min_sub_group(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    for name in ["low", "high"] {
        room.queue(&queue(name).cpu(crate::objects::quota(300.0).limited(600.0))).await?;
    }
    room.start(&[]).await?;
    let leaves: Vec<_> =
        (0..4).map(|at| json!({"name": format!("l{at}"), "minMember": 1})).collect();
    room.group("g", "low", json!({"minSubGroup": 2, "subGroups": leaves})).await?;
    let member = |at| {
        pod(format!("p-{at}"), "low").of_group("g").of_sub_group(&format!("l{at}")).cpu("100m")
    };
    room.pods(&pods(4, member)).await?;
    room.counts("p-", 4, 0).await?;
    room.pod(&pod("taker", "high").cpu("300m")).await?;
    room.scheduled(&["taker"]).await?;
    let left = room.pods_named("p-").await?.len();
    anyhow::ensure!(left >= 2, "{left} left");
    Ok(())
}
