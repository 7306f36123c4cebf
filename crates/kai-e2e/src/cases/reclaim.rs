//! Between queues, those below their share take back from those above theirs.

use std::time::Duration;

use serde_json::json;

use super::Run;
use super::integrations::job;
use crate::objects::{Pod, Queue, capped, pod, pods, queue, quota};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("under quota and over fair share to over quota", |room| {
        Box::pin(contest(room, (4.0, 1.0, 1.0), &["2", "2"], &["2"], true))
    }),
    ("under quota and over fair share to under quota", |room| {
        Box::pin(contest(room, (4.0, 2.0, 2.0), &["1", "2"], &["1", "0.5"], true))
    }),
    ("under quota and over fair share to over fair share", |room| {
        Box::pin(contest(room, (4.0, 1.0, 1.0), &["2", "1", "0.5"], &["0.5", "2"], false))
    }),
    ("over quota and over fair share to over quota", |room| {
        Box::pin(contest(room, (4.0, 0.0, 0.0), &["1", "2"], &["1", "0.5"], true))
    }),
    ("under quota and over quota to the same", |room| {
        Box::pin(contest(room, (4.0, 2.0, 2.0), &["2", "0.9", "0.3", "0.3"], &["1"], true))
    }),
    ("under quota and over quota to over quota", |room| {
        Box::pin(contest(room, (4.0, 0.0, 0.0), &["2", "0.9", "0.3", "0.3"], &["1"], true))
    }),
    ("priority of queues", |room| Box::pin(queue_priority(room, MinRuntime::None))),
    ("priority of queues and minimal runtime", |room| {
        Box::pin(queue_priority(room, MinRuntime::Passes))
    }),
    ("priority of queues with weights", |room| Box::pin(weights(room))),
    ("elastic: tasks", |room| Box::pin(elastic_tasks(room))),
    ("elastic: the whole job", |room| Box::pin(elastic_whole(room))),
    ("elastic: for a distributed job", |room| Box::pin(elastic_for_distributed(room))),
    ("elastic: a part", |room| Box::pin(elastic_part(room))),
    ("elastic: minimal runtime protects only the core", |room| Box::pin(elastic_min_runtime(room))),
    ("distributed: two whole nodes", |room| Box::pin(distributed(room))),
    ("min sub-groups: enough of them stay", |room| Box::pin(min_sub_group(room))),
];

/// A parent with all of `total`, and two children with their quotas and weight 2.
async fn family(room: &Room, (total, gives, takes): (f64, f64, f64)) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("parent").gpu(capped(total))).await?;
    room.queue(&child("gives").gpu(quota(gives).weighing(2.0))).await?;
    room.queue(&child("takes").gpu(quota(takes).weighing(2.0))).await?;
    room.start(&[]).await
}

fn child(name: &str) -> Queue {
    queue(name).below("parent")
}

/// Whole GPUs where the number is whole.
fn wants(pod: Pod, gpus: &str) -> Pod {
    match gpus.parse() {
        Ok(count) => pod.gpus(count),
        Err(_) => pod.fraction(gpus),
    }
}

/// The giving queue holds, the taking queue asks one by one; the last one it asks for decides.
async fn contest(
    room: &Room,
    amounts: (f64, f64, f64),
    held: &[&str],
    taken: &[&str],
    succeeds: bool,
) -> anyhow::Result<()> {
    family(room, amounts).await?;
    for (at, gpus) in held.iter().enumerate() {
        let name = format!("held-{at}");
        room.pod(&wants(pod(name.as_str(), "gives"), gpus)).await?;
        room.scheduled(&[&name]).await?;
    }
    for (at, gpus) in taken.iter().enumerate() {
        let name = format!("taken-{at}");
        room.pod(&wants(pod(name.as_str(), "takes"), gpus)).await?;
        if succeeds || at + 1 < taken.len() {
            room.scheduled(&[&name]).await?;
        } else {
            room.unschedulable(&[&name]).await?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MinRuntime {
    None,
    Passes,
}

/// So long that no machine is slow enough to miss what holds meanwhile.
const LONG: &str = "1h";

/// Changed: the minimal runtime is an hour and is shortened here, so that time alone ends it within seconds; KAI's is 60 or 90
/// seconds.
async fn let_it_pass(room: &Room, running: &str) -> anyhow::Result<()> {
    let ran = room.seconds_since_creation(running).await?;
    let span = format!("{}s", ran + 4);
    room.change_queue("gives", json!({"reclaimMinRuntime": span})).await
}

async fn queue_priority(room: &Room, min_runtime: MinRuntime) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("parent").gpu(capped(4.0))).await?;
    let mut gives = child("gives").gpu(quota(1.0).weighing(2.0));
    if min_runtime == MinRuntime::Passes {
        gives = gives.with(json!({"reclaimMinRuntime": LONG}));
    }
    room.queue(&gives).await?;
    let takes = child("takes").gpu(quota(0.0).weighing(2.0)).with(json!({"priority": 101}));
    room.queue(&takes).await?;
    room.start(&[]).await?;
    room.pods(&[pod("held-0", "gives").gpus(1), pod("held-1", "gives").gpus(3)]).await?;
    room.scheduled(&["held-0", "held-1"]).await?;
    room.pod(&pod("taken", "takes").gpus(1)).await?;
    if min_runtime == MinRuntime::Passes {
        room.unschedulable(&["taken"]).await?;
        let_it_pass(room, "held-0").await?;
    }
    room.scheduled(&["taken"]).await
}

/// Jobs, which make pods again that are evicted.
async fn weights(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("parent").gpu(capped(8.0))).await?;
    room.queue(&child("one").gpu(quota(1.0).weighing(1.0))).await?;
    room.queue(&child("two").gpu(quota(1.0).weighing(2.0))).await?;
    let takes = child("takes").gpu(quota(0.0).weighing(1.0)).with(json!({"priority": 101}));
    room.queue(&takes).await?;
    room.start(&[]).await?;
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", room.name);
    for name in ["one", "two"] {
        for at in 0..10 {
            let object = job(room, &format!("{name}-{at}"), &pod("x", name).gpus(1));
            room.create(&jobs, &object).await?;
        }
    }
    room.counts("one-", 3, 7).await?;
    room.counts("two-", 5, 5).await?;
    room.pod(&pod("taken", "takes").gpus(3)).await?;
    room.scheduled(&["taken"]).await?;
    room.counts("one-", 2, 8).await?;
    room.counts("two-", 3, 7).await
}

/// An elastic group of one-GPU pods that runs.
async fn elastic_group(room: &Room, name: &str, count: usize, min: usize) -> anyhow::Result<()> {
    room.group(name, "gives", json!({"minMember": min})).await?;
    let member = |at| pod(format!("{name}-{at}"), "gives").of_group(name).gpus(1);
    room.pods(&pods(count, member)).await?;
    room.counts(&format!("{name}-"), count, 0).await
}

async fn elastic_tasks(room: &Room) -> anyhow::Result<()> {
    family(room, (4.0, 2.0, 2.0)).await?;
    elastic_group(room, "a", 2, 1).await?;
    elastic_group(room, "b", 2, 1).await?;
    room.pod(&pod("taken", "takes").gpus(2)).await?;
    room.scheduled(&["taken"]).await?;
    room.left("a-", 1).await?;
    room.left("b-", 1).await
}

async fn elastic_whole(room: &Room) -> anyhow::Result<()> {
    family(room, (2.0, 0.0, 2.0)).await?;
    room.change_queue("gives", json!({"resources": {"gpu": {"overQuotaWeight": 0}}})).await?;
    elastic_group(room, "a", 2, 1).await?;
    room.pod(&pod("taken", "takes").gpus(2)).await?;
    room.scheduled(&["taken"]).await?;
    room.left("a-", 0).await
}

async fn elastic_for_distributed(room: &Room) -> anyhow::Result<()> {
    family(room, (2.0, 0.0, 2.0)).await?;
    elastic_group(room, "a", 2, 1).await?;
    room.group("g", "takes", json!({"minMember": 2})).await?;
    room.pods(&pods(2, |at| pod(format!("taken-{at}"), "takes").of_group("g").gpus(1))).await?;
    room.scheduled(&["taken-0", "taken-1"]).await?;
    room.left("a-", 0).await
}

/// The minimum grows while the group starts.
async fn elastic_part(room: &Room) -> anyhow::Result<()> {
    family(room, (4.0, 2.0, 2.0)).await?;
    room.change_queue("gives", json!({"resources": {"gpu": {"overQuotaWeight": 0}}})).await?;
    elastic_group(room, "a", 3, 1).await?;
    room.change_group("a", json!({"minMember": 2})).await?;
    room.group("g", "takes", json!({"minMember": 2})).await?;
    room.pods(&pods(2, |at| pod(format!("taken-{at}"), "takes").of_group("g").gpus(1))).await?;
    room.scheduled(&["taken-0", "taken-1"]).await?;
    room.left("a-", 2).await
}

/// What an elastic job has beyond its minimum is never protected.
async fn elastic_min_runtime(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("parent").gpu(capped(3.0))).await?;
    let gives = child("gives").gpu(quota(0.0).weighing(0.0));
    room.queue(&gives.with(json!({"reclaimMinRuntime": LONG}))).await?;
    room.queue(&child("takes").gpu(quota(3.0).weighing(2.0))).await?;
    room.start(&[]).await?;
    elastic_group(room, "a", 3, 1).await?;
    room.group("g", "takes", json!({"minMember": 2})).await?;
    room.pods(&pods(2, |at| pod(format!("gang-{at}"), "takes").of_group("g").gpus(1))).await?;
    room.scheduled(&["gang-0", "gang-1"]).await?;
    room.left("a-", 1).await?;
    room.pod(&pod("taken", "takes").gpus(1)).await?;
    room.unschedulable(&["taken"]).await?;
    room.left("a-", 1).await?;
    let last = room.pods_named("a-").await?;
    let last = last[0]["metadata"]["name"].as_str().unwrap_or_default();
    let_it_pass(room, last).await?;
    room.scheduled(&["taken"]).await
}

/// Jobs fill two nodes, one more waits, and a gang takes both nodes. Pods that are evicted come back.
async fn distributed(room: &Room) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        room.gpu_node(name, 4).await?;
    }
    room.queue(&queue("parent").gpu(capped(100.0))).await?;
    room.queue(&child("gives").gpu(quota(0.0).weighing(0.0))).await?;
    room.queue(&child("takes").gpu(quota(8.0).weighing(2.0))).await?;
    room.start(&[]).await?;
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", room.name);
    let filler = pod("x", "gives").gpus(1).class("train");
    for at in 0..8 {
        room.create(&jobs, &job(room, &format!("held-{at}"), &filler)).await?;
    }
    room.counts("held-", 8, 0).await?;
    room.create(&jobs, &job(room, "extra", &filler)).await?;
    room.counts("extra-", 0, 1).await?;
    room.delete(&format!("{jobs}/extra")).await?;
    room.group("g", "takes", json!({"minMember": 2, "priorityClassName": "train"})).await?;
    let member = |at| pod(format!("taken-{at}"), "takes").of_group("g").gpus(4).class("train");
    room.pods(&pods(2, member)).await?;
    room.scheduled(&["taken-0", "taken-1"]).await
}

async fn min_sub_group(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({"cpu": "600m"})).await?;
    for name in ["gives", "takes"] {
        room.queue(&queue(name).cpu(quota(200.0).limited(600.0))).await?;
    }
    room.start(&[]).await?;
    let leaves: Vec<_> =
        (0..4).map(|at| json!({"name": format!("l{at}"), "minMember": 1})).collect();
    room.group("g", "gives", json!({"minSubGroup": 2, "subGroups": leaves})).await?;
    let member = |at| {
        pod(format!("p-{at}"), "gives").of_group("g").of_sub_group(&format!("l{at}")).cpu("100m")
    };
    room.pods(&pods(4, member)).await?;
    room.counts("p-", 4, 0).await?;
    room.pod(&pod("taken", "takes").cpu("200m")).await?;
    room.scheduled(&["taken"]).await?;
    let left = async || Ok(room.pods_named("p-").await?.len() >= 2);
    room.stays("two leaves stay", Duration::from_secs(1), left).await
}
