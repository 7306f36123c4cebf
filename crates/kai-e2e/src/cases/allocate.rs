//! Pods get nodes: elastic groups, order of pods, what can be asked for.

use anyhow::ensure;
use serde_json::json;

use super::Run;
use crate::objects::{capped, pod, pods, queue, quota};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("a pod without a namespace takes that of the request", |room| Box::pin(no_namespace(room))),
    ("elastic: a part is allocated", |room| Box::pin(elastic(room, "500m", 2, 1))),
    ("elastic: all is allocated", |room| Box::pin(elastic(room, "200m", 2, 2))),
    ("elastic: two jobs are balanced", |room| Box::pin(balance(room))),
    ("elastic: the higher priority comes first", |room| Box::pin(elastic_priority(room))),
    ("elastic pod order: by task priority", |room| Box::pin(pod_order(room))),
    ("elastic pod order: a pod without a label comes last", |room| Box::pin(missing_label(room))),
    ("priority: by label", |room| Box::pin(priority(room, true))),
    ("priority: by the pod's specification", |room| Box::pin(priority(room, false))),
    ("quota: limit 0", |room| Box::pin(limit_zero(room))),
    ("quota: non-preemptible over quota 0", |room| Box::pin(fixed_over_quota(room))),
    ("quota: equal deserved", |room| Box::pin(equal_deserved(room))),
    ("resources: none", |room| Box::pin(asks(room, None))),
    ("resources: a whole GPU", |room| Box::pin(asks(room, Some(("nvidia.com/gpu", "1"))))),
    ("resources: one core", |room| Box::pin(asks(room, Some(("cpu", "1"))))),
    ("resources: 100M of memory", |room| Box::pin(asks(room, Some(("memory", "100M"))))),
    ("resources: 100M of ephemeral storage", |room| {
        Box::pin(asks(room, Some(("ephemeral-storage", "100M"))))
    }),
];

async fn no_namespace(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let mut object = room.pod_object(&pod("p", "q"));
    object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    room.create(&format!("/api/v1/namespaces/{}/pods", room.name), &object).await?;
    room.scheduled(&["p"]).await
}

/// A queue of half a core.
async fn half_a_core(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q").cpu(capped(500.0))).await
}

async fn elastic(room: &Room, cpu: &str, count: usize, placed: usize) -> anyhow::Result<()> {
    half_a_core(room).await?;
    room.start(&[]).await?;
    room.group("g", "q", json!({"minMember": 1})).await?;
    room.pods(&pods(count, |at| pod(format!("p-{at}"), "q").of_group("g").cpu(cpu))).await?;
    room.counts("p-", placed, count - placed).await
}

async fn balance(room: &Room) -> anyhow::Result<()> {
    half_a_core(room).await?;
    room.start(&[]).await?;
    for group in ["g", "h"] {
        let member = |at| pod(format!("p-{group}-{at}"), "q").of_group(group).cpu("100m");
        room.pods(&pods(3, member)).await?;
    }
    for group in ["g", "h"] {
        room.group(group, "q", json!({"minMember": 1})).await?;
    }
    room.counts("p-", 5, 1).await
}

/// Changed: the pod of low priority is the older one, and the scheduler starts when all pods exist.
async fn elastic_priority(room: &Room) -> anyhow::Result<()> {
    half_a_core(room).await?;
    room.pod(&pod("low", "q").cpu("250m").class("train")).await?;
    room.group("high", "q", json!({"minMember": 1, "priorityClassName": "build-preemptible"}))
        .await?;
    room.pods(&pods(2, |at| pod(format!("high-{at}"), "q").of_group("high").cpu("250m"))).await?;
    room.start(&[]).await?;
    room.scheduled(&["high-0", "high-1"]).await?;
    room.unschedulable(&["low"]).await
}

const TASK_PRIORITY: &str = "kai.scheduler/task-priority";

async fn pod_order(room: &Room) -> anyhow::Result<()> {
    half_a_core(room).await?;
    room.start(&[]).await?;
    for (name, priority) in [("a", "1"), ("b", "3"), ("c", "2")] {
        let member = pod(name, "q").of_group("g").cpu("200m").labelled(TASK_PRIORITY, priority);
        room.pod(&member).await?;
    }
    room.group("g", "q", json!({"minMember": 1})).await?;
    room.scheduled(&["b", "c"]).await?;
    room.unschedulable(&["a"]).await
}

/// Changed: the label is 1 instead of 3, the least that is more than none.
async fn missing_label(room: &Room) -> anyhow::Result<()> {
    half_a_core(room).await?;
    room.start(&[]).await?;
    room.pod(&pod("plain", "q").of_group("g").cpu("300m")).await?;
    let labelled = pod("labelled", "q").of_group("g").cpu("300m").labelled(TASK_PRIORITY, "1");
    room.pod(&labelled).await?;
    room.group("g", "q", json!({"minMember": 1})).await?;
    room.scheduled(&["labelled"]).await?;
    room.unschedulable(&["plain"]).await
}

async fn priority(room: &Room, by_label: bool) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("q").gpu(capped(1.0))).await?;
    for (name, class) in [("low", "train"), ("high", "build-preemptible")] {
        let wants = pod(name, "q").gpus(1);
        let wants =
            if by_label { wants.labelled("priorityClassName", class) } else { wants.class(class) };
        room.pod(&wants).await?;
    }
    room.start(&[]).await?;
    room.scheduled(&["high"]).await?;
    room.unschedulable(&["low"]).await
}

async fn limit_zero(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q").gpu(quota(0.0).limited(0.0))).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").gpus(1)).await?;
    room.unschedulable(&["p"]).await
}

async fn fixed_over_quota(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q").gpu(quota(0.0))).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").gpus(1).class("build")).await?;
    room.unschedulable(&["p"]).await
}

/// Changed: all nine pods exist before the scheduler starts; KAI adds a second pod per queue after the first runs.
async fn equal_deserved(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("parent").gpu(capped(3.0))).await?;
    for name in ["a", "b", "c"] {
        room.queue(&queue(name).below("parent").gpu(quota(1.0).limited(3.0))).await?;
        room.pods(&pods(3, |at| pod(format!("{name}-{at}"), name).gpus(1))).await?;
    }
    room.start(&[]).await?;
    for name in ["a-", "b-", "c-"] {
        room.counts(name, 1, 2).await?;
    }
    Ok(())
}

async fn asks(room: &Room, what: Option<(&str, &str)>) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    let plain = pod("p", "q");
    room.pod(&what.map_or(plain.clone(), |(name, amount)| plain.asks(name, amount))).await?;
    room.ready(&["p"]).await?;
    let seen = room.see_pod("p").await?.unwrap_or_default();
    ensure!(seen["metadata"]["annotations"]["received-resource-type"] == "Regular", "{seen}");
    Ok(())
}
