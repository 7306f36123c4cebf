//! Pods are bound to nodes: elastic groups, order of pods, kinds of requests.

use anyhow::ensure;
use serde_json::json;

use super::Run;
use crate::objects::{capped, pod, pods, queue, quota};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("a pod without a namespace takes that of the request", |space| Box::pin(no_namespace(space))),
    ("elastic: a part is allocated", |space| Box::pin(elastic(space, "500m", 2, 1))),
    ("elastic: all is allocated", |space| Box::pin(elastic(space, "200m", 2, 2))),
    ("elastic: two jobs are balanced", |space| Box::pin(balance(space))),
    ("elastic: the higher priority comes first", |space| Box::pin(elastic_priority(space))),
    ("elastic pod order: by task priority", |space| Box::pin(pod_order(space))),
    ("elastic pod order: a pod without a label comes last", |space| Box::pin(missing_label(space))),
    ("priority: by label", |space| Box::pin(priority(space, true))),
    ("priority: by the pod's specification", |space| Box::pin(priority(space, false))),
    ("quota: limit 0", |space| Box::pin(limit_zero(space))),
    ("quota: non-preemptible over quota 0", |space| Box::pin(fixed_over_quota(space))),
    ("quota: equal deserved", |space| Box::pin(equal_deserved(space))),
    ("resources: none", |space| Box::pin(asks(space, None))),
    ("resources: a whole GPU", |space| Box::pin(asks(space, Some(("nvidia.com/gpu", "1"))))),
    ("resources: one core", |space| Box::pin(asks(space, Some(("cpu", "1"))))),
    ("resources: 100M of memory", |space| Box::pin(asks(space, Some(("memory", "100M"))))),
    ("resources: 100M of ephemeral storage", |space| {
        Box::pin(asks(space, Some(("ephemeral-storage", "100M"))))
    }),
];

async fn no_namespace(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let mut object = space.pod_object(&pod("p", "q"));
    object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    space.create(&format!("/api/v1/namespaces/{}/pods", space.name), &object).await?;
    space.scheduled(&["p"]).await
}

/// A queue of half a core.
async fn half_a_core(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q").cpu(capped(500.0))).await
}

async fn elastic(space: &TestSpace, cpu: &str, count: usize, placed: usize) -> anyhow::Result<()> {
    half_a_core(space).await?;
    space.start(&[]).await?;
    space.group("g", "q", json!({"minMember": 1})).await?;
    space.pods(&pods(count, |at| pod(format!("p-{at}"), "q").of_group("g").cpu(cpu))).await?;
    space.counts("p-", placed, count - placed).await
}

async fn balance(space: &TestSpace) -> anyhow::Result<()> {
    half_a_core(space).await?;
    space.start(&[]).await?;
    for group in ["g", "h"] {
        let member = |at| pod(format!("p-{group}-{at}"), "q").of_group(group).cpu("100m");
        space.pods(&pods(3, member)).await?;
    }
    for group in ["g", "h"] {
        space.group(group, "q", json!({"minMember": 1})).await?;
    }
    space.counts("p-", 5, 1).await
}

/// Changed: the pod of low priority is the older one, and the scheduler starts when all pods exist.
async fn elastic_priority(space: &TestSpace) -> anyhow::Result<()> {
    half_a_core(space).await?;
    space.pod(&pod("low", "q").cpu("250m").class("train")).await?;
    space
        .group("high", "q", json!({"minMember": 1, "priorityClassName": "build-preemptible"}))
        .await?;
    space.pods(&pods(2, |at| pod(format!("high-{at}"), "q").of_group("high").cpu("250m"))).await?;
    space.start(&[]).await?;
    space.scheduled(&["high-0", "high-1"]).await?;
    space.unschedulable(&["low"]).await
}

const TASK_PRIORITY: &str = "kai.scheduler/task-priority";

async fn pod_order(space: &TestSpace) -> anyhow::Result<()> {
    half_a_core(space).await?;
    space.start(&[]).await?;
    for (name, priority) in [("a", "1"), ("b", "3"), ("c", "2")] {
        let member = pod(name, "q").of_group("g").cpu("200m").labelled(TASK_PRIORITY, priority);
        space.pod(&member).await?;
    }
    space.group("g", "q", json!({"minMember": 1})).await?;
    space.scheduled(&["b", "c"]).await?;
    space.unschedulable(&["a"]).await
}

/// Changed: the label is 1 instead of 3, the least that is more than none.
async fn missing_label(space: &TestSpace) -> anyhow::Result<()> {
    half_a_core(space).await?;
    space.start(&[]).await?;
    space.pod(&pod("plain", "q").of_group("g").cpu("300m")).await?;
    let labelled = pod("labelled", "q").of_group("g").cpu("300m").labelled(TASK_PRIORITY, "1");
    space.pod(&labelled).await?;
    space.group("g", "q", json!({"minMember": 1})).await?;
    space.scheduled(&["labelled"]).await?;
    space.unschedulable(&["plain"]).await
}

async fn priority(space: &TestSpace, by_label: bool) -> anyhow::Result<()> {
    space.gpu_node("n", 8).await?;
    space.queue(&queue("q").gpu(capped(1.0))).await?;
    for (name, class) in [("low", "train"), ("high", "build-preemptible")] {
        let wants = pod(name, "q").gpus(1);
        let wants =
            if by_label { wants.labelled("priorityClassName", class) } else { wants.class(class) };
        space.pod(&wants).await?;
    }
    space.start(&[]).await?;
    space.scheduled(&["high"]).await?;
    space.unschedulable(&["low"]).await
}

async fn limit_zero(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q").gpu(quota(0.0).limited(0.0))).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").gpus(1)).await?;
    space.unschedulable(&["p"]).await
}

async fn fixed_over_quota(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q").gpu(quota(0.0))).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").gpus(1).class("build")).await?;
    space.unschedulable(&["p"]).await
}

/// Changed: all nine pods exist before the scheduler starts; KAI adds a second pod per queue after the first runs.
async fn equal_deserved(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 8).await?;
    space.queue(&queue("parent").gpu(capped(3.0))).await?;
    for name in ["a", "b", "c"] {
        space.queue(&queue(name).below("parent").gpu(quota(1.0).limited(3.0))).await?;
        space.pods(&pods(3, |at| pod(format!("{name}-{at}"), name).gpus(1))).await?;
    }
    space.start(&[]).await?;
    for name in ["a-", "b-", "c-"] {
        space.counts(name, 1, 2).await?;
    }
    Ok(())
}

async fn asks(space: &TestSpace, what: Option<(&str, &str)>) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    let plain = pod("p", "q");
    space.pod(&what.map_or(plain.clone(), |(name, amount)| plain.asks(name, amount))).await?;
    space.ready(&["p"]).await?;
    let pod_object = space.see_pod("p").await?.unwrap_or_default();
    ensure!(
        pod_object["metadata"]["annotations"]["received-resource-type"] == "Regular",
        "{pod_object}"
    );
    Ok(())
}
