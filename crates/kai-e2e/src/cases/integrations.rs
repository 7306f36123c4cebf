//! Workloads of every kind become pod groups and run.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::admission;
use crate::foreign::owned_by;
use crate::objects::{capped, pod, queue};
use crate::room::{Room, has_condition};

pub(super) const CASES: &[(&str, Run)] = &[
    ("a pod", |room| Box::pin(plain(room))),
    ("a ReplicaSet", |room| Box::pin(built_in(room, "apps/v1", "ReplicaSet", 2, 1))),
    ("a Deployment", |room| Box::pin(built_in(room, "apps/v1", "Deployment", 2, 2))),
    ("a StatefulSet", |room| Box::pin(built_in(room, "apps/v1", "StatefulSet", 2, 1))),
    ("a Job", |room| Box::pin(built_in(room, "batch/v1", "Job", 2, 1))),
    ("a CronJob", |room| Box::pin(cron_job(room))),
    ("config maps of shared GPUs go with their pods", |room| Box::pin(config_maps(room))),
    ("labels that name different queues", |room| Box::pin(disagreeing_queues(room))),
    ("a pod group made by another writer", |room| Box::pin(external_group(room))),
    ("overhead of a runtime class counts", |room| Box::pin(overhead(room))),
];

/// A node without GPUs, a queue without bounds.
pub(super) async fn start(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// A node with 8 GPUs, a queue without bounds.
pub(super) async fn start_with_gpus(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 8).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// Waits until there are this many pods whose names begin so, all of them ready.
pub(super) async fn all_ready(room: &Room, prefix: &str, count: usize) -> anyhow::Result<()> {
    let ready = async || {
        let pods = room.pods_named(prefix).await?;
        Ok(pods.len() == count && pods.iter().all(|pod| has_condition(pod, "Ready", "True")))
    };
    room.until(&format!("{count} of {prefix}* are ready"), ready).await
}

/// To how many groups the pods whose names begin so belong.
pub(super) async fn groups_of_pods(room: &Room, prefix: &str) -> anyhow::Result<usize> {
    let pods = room.pods_named(prefix).await?;
    let groups: std::collections::BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["annotations"]["pod-group-name"].as_str())
        .collect();
    Ok(groups.len())
}

/// The one group of the room.
pub(super) async fn only_group(room: &Room) -> anyhow::Result<Value> {
    let groups = room.groups().await?;
    ensure!(groups.len() == 1, "{} groups", groups.len());
    Ok(groups[0].clone())
}

async fn plain(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    room.pod(&pod("p", "q")).await?;
    room.scheduled(&["p"]).await?;
    room.until("its group exists", async || Ok(room.groups().await?.len() == 1)).await
}

/// A workload of Kubernetes itself: its pods run, and have so many groups.
async fn built_in(
    room: &Room,
    api: &str,
    kind: &str,
    replicas: usize,
    groups: usize,
) -> anyhow::Result<()> {
    start(room).await?;
    let template = room.pod_object(&pod("x", "q").cpu("100m").labelled("app", "w"));
    let labels = &template["metadata"]["labels"];
    let mut inner = template["spec"].clone();
    let mut spec = json!({});
    if kind == "Job" {
        inner["restartPolicy"] = json!("Never");
        spec["parallelism"] = json!(replicas);
        spec["completions"] = json!(replicas);
    } else {
        spec["replicas"] = json!(replicas);
        spec["selector"] = json!({"matchLabels": {"app": "w"}});
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = json!("w");
        spec["podManagementPolicy"] = json!("Parallel");
    }
    spec["template"] = json!({"metadata": {"labels": labels}, "spec": inner});
    let metadata = json!({"name": "w", "labels": labels});
    let object = json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec});
    let plural = format!("{}s", kind.to_lowercase());
    room.create(&format!("/apis/{api}/namespaces/{}/{plural}", room.name), &object).await?;
    room.counts("w", replicas, 0).await?;
    let grouped = async || Ok(groups_of_pods(room, "w").await? == groups);
    room.until(&format!("its pods have {groups} groups"), grouped).await
}

/// A job, as Kubernetes makes it of a pod; its pods are made again where they are evicted.
pub(super) fn job(room: &Room, name: &str, member: &crate::objects::Pod) -> Value {
    let template = room.pod_object(member);
    let mut inner = template["spec"].clone();
    inner["restartPolicy"] = json!("Never");
    let labels = &template["metadata"]["labels"];
    let metadata = json!({"labels": labels, "annotations": template["metadata"]["annotations"]});
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels},
        "spec": {"backoffLimit": 10, "template": {"metadata": metadata, "spec": inner}},
    })
}

/// Changed: the runs are made by the case, as the controller makes them, instead of by the clock; there are two of them.
async fn cron_job(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let member = pod("x", "q").cpu("100m");
    let template = json!({"spec": job(room, "x", &member)["spec"]});
    let spec = json!({"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": template});
    let batch = format!("/apis/batch/v1/namespaces/{}", room.name);
    let schedule = json!({"metadata": {"name": "w"}, "spec": spec});
    let mut schedule = room.create(&format!("{batch}/cronjobs"), &schedule).await?;
    (schedule["apiVersion"], schedule["kind"]) = (json!("batch/v1"), json!("CronJob"));
    for run in ["w-1", "w-2"] {
        let mut run = job(room, run, &member);
        run["metadata"]["ownerReferences"] = owned_by(&schedule);
        room.create(&format!("{batch}/jobs"), &run).await?;
    }
    room.counts("w-", 2, 0).await?;
    let grouped = async || Ok(groups_of_pods(room, "w-").await? == 2);
    room.until("each run has a group", grouped).await
}

async fn config_maps(room: &Room) -> anyhow::Result<()> {
    room.gpu_node("n", 1).await?;
    room.queue(&queue("q")).await?;
    let sharing = ["--gpu-sharing-enabled", "--gpu-fraction-runtime-class-name="];
    let _admission = admission::start(room, &sharing).await?;
    room.start(&[]).await?;
    let template = room.pod_object(&pod("x", "q").fraction("0.1").labelled("app", "w"));
    let metadata = json!({"labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]});
    let pods = json!({"metadata": metadata, "spec": template["spec"]});
    let spec = json!({"replicas": 10, "selector": {"matchLabels": {"app": "w"}}, "template": pods});
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", room.name);
    room.create(&path, &json!({"metadata": {"name": "w"}, "spec": spec})).await?;
    let maps = async |count: usize| {
        let there = async || {
            let all = room.list("/api/v1", "configmaps").await?;
            let shared = |map: &&Value| {
                let name = map["metadata"]["name"].as_str().unwrap_or_default();
                name.contains("-shared-gpu")
            };
            Ok(all.iter().filter(shared).count() == count)
        };
        room.until(&format!("there are {count} config maps"), there).await
    };
    room.counts("w-", 10, 0).await?;
    maps(20).await?;
    room.patch(&format!("{path}/w"), &json!({"spec": {"replicas": 0}})).await?;
    room.left("w-", 0).await?;
    maps(0).await
}

async fn external_group(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let leaves = json!([{"name": "workers", "minMember": 1}]);
    room.group("mine", "q", json!({"minMember": 1, "subGroups": leaves})).await?;
    let member = pod("x", "q").of_group("mine").of_sub_group("workers");
    let template = room.pod_object(&member);
    let mut inner = template["spec"].clone();
    inner["restartPolicy"] = json!("Never");
    let metadata = json!({"labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]});
    let skip = json!({"name": "w", "annotations": {"kai.scheduler/skip-podgrouper": "true"}, "labels": template["metadata"]["labels"]});
    let job: Value =
        json!({"metadata": skip, "spec": {"template": {"metadata": metadata, "spec": inner}}});
    room.create(&format!("/apis/batch/v1/namespaces/{}/jobs", room.name), &job).await?;
    room.counts("w", 1, 0).await?;
    let groups = room.groups().await?;
    ensure!(groups.len() == 1 && groups[0]["metadata"]["name"] == "mine", "{groups:?}");
    let metadata = &room.pods_named("w").await?[0]["metadata"];
    ensure!(metadata["annotations"]["pod-group-name"] == "mine", "{metadata}");
    ensure!(metadata["labels"]["kai.scheduler/subgroup-name"] == "workers", "{metadata}");
    Ok(())
}

/// The label of today on the pod counts more than that of earlier releases on the job, and an event reports the contradiction.
async fn disagreeing_queues(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    room.queue(&queue("old")).await?;
    let mut job = job(room, "w", &pod("x", "q").cpu("100m"));
    job["metadata"]["labels"] = json!({"runai/queue": room.queue_name("old")});
    room.create(&format!("/apis/batch/v1/namespaces/{}/jobs", room.name), &job).await?;
    room.counts("w-", 1, 0).await?;
    let group = only_group(room).await?;
    ensure!(group["spec"]["queue"] == room.queue_name("q"), "{}", group["spec"]);
    let event = room.event("w-", "PodGrouperWarning").await?;
    let text = event["message"].as_str().unwrap_or_default();
    ensure!(text.contains("runai/queue") && text.contains(&room.queue_name("old")), "{text}");
    Ok(())
}

async fn overhead(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q").cpu(capped(1000.0))).await?;
    let name = format!("{}-heavy", room.name);
    let class = json!({"metadata": {"name": name}, "handler": "heavy", "overhead": {"podFixed": {"cpu": "2"}}});
    room.create("/apis/node.k8s.io/v1/runtimeclasses", &class).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").cpu("100m").with(json!({"runtimeClassName": name}))).await?;
    room.unschedulable(&["p"]).await
}
