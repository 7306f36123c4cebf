//! Workloads of every kind become pod groups and run.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::admission;
use crate::foreign::owned_by;
use crate::objects::{capped, pod, queue};
use crate::test_space::{TestSpace, has_condition};

pub(super) const CASES: &[(&str, Run)] = &[
    ("a pod", |space| Box::pin(plain(space))),
    ("a ReplicaSet", |space| Box::pin(built_in(space, "apps/v1", "ReplicaSet", 2, 1))),
    ("a Deployment", |space| Box::pin(built_in(space, "apps/v1", "Deployment", 2, 2))),
    ("a StatefulSet", |space| Box::pin(built_in(space, "apps/v1", "StatefulSet", 2, 1))),
    ("a Job", |space| Box::pin(built_in(space, "batch/v1", "Job", 2, 1))),
    ("a CronJob", |space| Box::pin(cron_job(space))),
    ("config maps of shared GPUs go with their pods", |space| Box::pin(config_maps(space))),
    ("labels that name different queues", |space| Box::pin(disagreeing_queues(space))),
    ("a pod group made by another writer", |space| Box::pin(external_group(space))),
    ("overhead of a runtime class counts", |space| Box::pin(overhead(space))),
];

/// A node without GPUs, a queue without bounds.
pub(super) async fn start(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await
}

/// A node with 8 GPUs, a queue without bounds.
pub(super) async fn start_with_gpus(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 8).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await
}

/// Waits until there are this many pods whose names begin so, all of them ready.
pub(super) async fn all_ready(space: &TestSpace, prefix: &str, count: usize) -> anyhow::Result<()> {
    let ready = async || {
        let pods = space.pods_named(prefix).await?;
        Ok(pods.len() == count && pods.iter().all(|pod| has_condition(pod, "Ready", "True")))
    };
    space.until(&format!("{count} of {prefix}* are ready"), ready).await
}

/// To how many groups the pods whose names begin so belong.
pub(super) async fn groups_of_pods(space: &TestSpace, prefix: &str) -> anyhow::Result<usize> {
    let pods = space.pods_named(prefix).await?;
    let groups: std::collections::BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["annotations"]["pod-group-name"].as_str())
        .collect();
    Ok(groups.len())
}

/// The one group of the test space.
pub(super) async fn only_group(space: &TestSpace) -> anyhow::Result<Value> {
    let groups = space.groups().await?;
    ensure!(groups.len() == 1, "{} groups", groups.len());
    Ok(groups[0].clone())
}

async fn plain(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    space.pod(&pod("p", "q")).await?;
    space.scheduled(&["p"]).await?;
    space.until("its group exists", async || Ok(space.groups().await?.len() == 1)).await
}

/// A workload of Kubernetes itself: its pods run, and have so many groups.
async fn built_in(
    space: &TestSpace,
    api: &str,
    kind: &str,
    replicas: usize,
    groups: usize,
) -> anyhow::Result<()> {
    start(space).await?;
    let template = space.pod_object(&pod("x", "q").cpu("100m").labelled("app", "w"));
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
    space.create(&format!("/apis/{api}/namespaces/{}/{plural}", space.name), &object).await?;
    space.counts("w", replicas, 0).await?;
    let grouped = async || Ok(groups_of_pods(space, "w").await? == groups);
    space.until(&format!("its pods have {groups} groups"), grouped).await
}

/// A job, as Kubernetes makes it of a pod; its pods are made again where they are evicted.
pub(super) fn job(space: &TestSpace, name: &str, member: &crate::objects::Pod) -> Value {
    let template = space.pod_object(member);
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
async fn cron_job(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let member = pod("x", "q").cpu("100m");
    let template = json!({"spec": job(space, "x", &member)["spec"]});
    let spec = json!({"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": template});
    let batch = format!("/apis/batch/v1/namespaces/{}", space.name);
    let schedule = json!({"metadata": {"name": "w"}, "spec": spec});
    let mut schedule = space.create(&format!("{batch}/cronjobs"), &schedule).await?;
    (schedule["apiVersion"], schedule["kind"]) = (json!("batch/v1"), json!("CronJob"));
    for run in ["w-1", "w-2"] {
        let mut run = job(space, run, &member);
        run["metadata"]["ownerReferences"] = owned_by(&schedule);
        space.create(&format!("{batch}/jobs"), &run).await?;
    }
    space.counts("w-", 2, 0).await?;
    let grouped = async || Ok(groups_of_pods(space, "w-").await? == 2);
    space.until("each run has a group", grouped).await
}

async fn config_maps(space: &TestSpace) -> anyhow::Result<()> {
    space.gpu_node("n", 1).await?;
    space.queue(&queue("q")).await?;
    let sharing = ["--gpu-sharing-enabled", "--gpu-fraction-runtime-class-name="];
    let _admission = admission::start(space, &sharing).await?;
    space.start(&[]).await?;
    let template = space.pod_object(&pod("x", "q").fraction("0.1").labelled("app", "w"));
    let metadata = json!({"labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]});
    let pods = json!({"metadata": metadata, "spec": template["spec"]});
    let spec = json!({"replicas": 10, "selector": {"matchLabels": {"app": "w"}}, "template": pods});
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", space.name);
    space.create(&path, &json!({"metadata": {"name": "w"}, "spec": spec})).await?;
    let maps = async |count: usize| {
        let there = async || {
            let all = space.list("/api/v1", "configmaps").await?;
            let shared = |map: &&Value| {
                let name = map["metadata"]["name"].as_str().unwrap_or_default();
                name.contains("-shared-gpu")
            };
            Ok(all.iter().filter(shared).count() == count)
        };
        space.until(&format!("there are {count} config maps"), there).await
    };
    space.counts("w-", 10, 0).await?;
    // The second map of KAI, for variables, stays empty: it is optional here and never written.
    maps(10).await?;
    space.patch(&format!("{path}/w"), &json!({"spec": {"replicas": 0}})).await?;
    space.left("w-", 0).await?;
    maps(0).await
}

async fn external_group(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let leaves = json!([{"name": "workers", "minMember": 1}]);
    space.group("mine", "q", json!({"minMember": 1, "subGroups": leaves})).await?;
    let member = pod("x", "q").of_group("mine").of_sub_group("workers");
    let template = space.pod_object(&member);
    let mut inner = template["spec"].clone();
    inner["restartPolicy"] = json!("Never");
    let metadata = json!({"labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]});
    let skip = json!({"name": "w", "annotations": {"kai.scheduler/skip-podgrouper": "true"}, "labels": template["metadata"]["labels"]});
    let job: Value =
        json!({"metadata": skip, "spec": {"template": {"metadata": metadata, "spec": inner}}});
    space.create(&format!("/apis/batch/v1/namespaces/{}/jobs", space.name), &job).await?;
    space.counts("w", 1, 0).await?;
    let groups = space.groups().await?;
    ensure!(groups.len() == 1 && groups[0]["metadata"]["name"] == "mine", "{groups:?}");
    let metadata = &space.pods_named("w").await?[0]["metadata"];
    ensure!(metadata["annotations"]["pod-group-name"] == "mine", "{metadata}");
    ensure!(metadata["labels"]["kai.scheduler/subgroup-name"] == "workers", "{metadata}");
    Ok(())
}

/// The label of today on the pod counts more than that of earlier releases on the job, and an event reports the contradiction.
async fn disagreeing_queues(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    space.queue(&queue("old")).await?;
    let mut job = job(space, "w", &pod("x", "q").cpu("100m"));
    job["metadata"]["labels"] = json!({"runai/queue": space.queue_name("old")});
    space.create(&format!("/apis/batch/v1/namespaces/{}/jobs", space.name), &job).await?;
    space.counts("w-", 1, 0).await?;
    let group = only_group(space).await?;
    ensure!(group["spec"]["queue"] == space.queue_name("q"), "{}", group["spec"]);
    let event = space.event("w-", "PodGrouperWarning").await?;
    let text = event["message"].as_str().unwrap_or_default();
    ensure!(text.contains("runai/queue") && text.contains(&space.queue_name("old")), "{text}");
    Ok(())
}

async fn overhead(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q").cpu(capped(1000.0))).await?;
    let name = format!("{}-heavy", space.name);
    let class = json!({"metadata": {"name": name}, "handler": "heavy", "overhead": {"podFixed": {"cpu": "2"}}});
    space.create("/apis/node.k8s.io/v1/runtimeclasses", &class).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").cpu("100m").with(json!({"runtimeClassName": name}))).await?;
    space.unschedulable(&["p"]).await
}
