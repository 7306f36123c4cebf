//! Clusters and services of other people's operators: Ray, Knative, Spark.
//!
//! Changed throughout: no operator runs, the cases make the pods as the operators make them.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::Run;
use super::integrations::{all_ready, groups_of_pods, only_group, start};
use crate::foreign::{self, Kind, dependent, member, owned_by};
use crate::objects::{Pod, capped, pod, queue};
use crate::test_space::TestSpace;

const RAY_JOB: Kind = Kind::new("ray.io", &["v1"], "RayJob");
const RAY_CLUSTER: Kind = Kind::new("ray.io", &["v1"], "RayCluster");
const KNATIVE: &str = "serving.knative.dev";
const SERVICE: Kind = Kind::new(KNATIVE, &["v1"], "Service");
const CONFIGURATION: Kind = Kind::new(KNATIVE, &["v1"], "Configuration");
const REVISION: Kind = Kind::new(KNATIVE, &["v1"], "Revision");
const PER_POD: &[&str] = &["--knative-gang-schedule=false"];

pub(super) const CASES: &[(&str, Run)] = &[
    ("a RayJob runs", |space| Box::pin(ray_runs(space))),
    ("a RayJob larger than its queue runs with what it needs", |space| Box::pin(ray_part(space))),
    ("an elastic RayJob", |space| Box::pin(ray_elastic(space))),
    ("a RayJob with a group that fits nowhere", |space| Box::pin(ray_impossible(space))),
    ("a Knative service with a minimal scale", |space| Box::pin(knative(space, Some("2"), 2))),
    ("a Knative service without a minimal scale", |space| Box::pin(knative(space, None, 1))),
    ("a Knative service that scales to zero", |space| Box::pin(knative(space, Some("0"), 0))),
    ("a Knative service, a group per pod", |space| Box::pin(knative_per_pod(space))),
    ("a Knative revision stays as it began", |space| Box::pin(knative_stays(space))),
    ("a Spark application", |space| Box::pin(spark(space))),
    ("a Spark executor is replaced", |space| Box::pin(spark_replaced(space))),
];

/// A worker group: name, replicas and how many of them are needed.
type Workers = (&'static str, usize, usize);

fn ray_spec(groups: &[Workers]) -> Value {
    let group = |(name, replicas, needed): &Workers| json!({"groupName": name, "replicas": replicas, "minReplicas": needed, "maxReplicas": 10});
    json!({"headGroupSpec": {}, "workerGroupSpecs": groups.iter().map(group).collect::<Vec<_>>()})
}

fn ray_pod(name: &str, group: &str) -> Pod {
    pod(name, "q").labelled("ray.io/cluster", "w").labelled("ray.io/group", group)
}

/// A job with its cluster, as the operator makes it. Only the pods name a queue.
async fn ray_job(space: &TestSpace, groups: &[Workers]) -> anyhow::Result<Value> {
    foreign::install(space, &RAY_CLUSTER).await?;
    let spec = json!({"rayClusterSpec": ray_spec(groups)});
    let status = json!({"rayClusterName": "w"});
    let object = json!({"metadata": {"name": "job"}, "spec": spec, "status": status});
    let job = foreign::make_unlabelled(space, &RAY_JOB, object).await?;
    let metadata = json!({"name": "w", "ownerReferences": owned_by(&job)});
    let object = json!({"metadata": metadata, "spec": ray_spec(groups)});
    foreign::make_unlabelled(space, &RAY_CLUSTER, object).await
}

async fn ray_workers(
    space: &TestSpace,
    cluster: &Value,
    count: usize,
    cpu: &str,
) -> anyhow::Result<()> {
    for at in 0..count {
        member(space, cluster, &ray_pod(&format!("w-worker-{at}"), "workers").cpu(cpu)).await?;
    }
    Ok(())
}

async fn ray_runs(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let cluster = ray_job(space, &[("workers", 1, 1)]).await?;
    member(space, &cluster, &ray_pod("w-head", "headgroup")).await?;
    member(space, &cluster, &ray_pod("w-worker-0", "workers")).await?;
    space.counts("w-", 2, 0).await?;
    let group = only_group(space).await?;
    ensure!(group["spec"]["minMember"] == 2, "{}", group["spec"]);
    Ok(())
}

/// A queue of two cores and a head that takes none of them.
async fn two_cores(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q").cpu(capped(2000.0))).await?;
    space.start(&[]).await
}

async fn ray_part(space: &TestSpace) -> anyhow::Result<()> {
    two_cores(space).await?;
    let cluster = ray_job(space, &[("workers", 3, 1)]).await?;
    member(space, &cluster, &ray_pod("w-head", "headgroup")).await?;
    ray_workers(space, &cluster, 3, "1").await?;
    space.counts("w-", 3, 1).await
}

/// Changed: the queue has cores for four of the ten workers; KAI's pods ask for nothing.
async fn ray_elastic(space: &TestSpace) -> anyhow::Result<()> {
    two_cores(space).await?;
    let cluster = ray_job(space, &[("workers", 10, 1)]).await?;
    member(space, &cluster, &ray_pod("w-head", "headgroup")).await?;
    ray_workers(space, &cluster, 10, "500m").await?;
    space.counts("w-", 5, 6).await?;
    let group = only_group(space).await?;
    ensure!(group["spec"]["minMember"] == 2, "{}", group["spec"]);
    Ok(())
}

async fn ray_impossible(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let cluster = ray_job(space, &[("workers", 5, 1), ("large", 5, 1)]).await?;
    member(space, &cluster, &ray_pod("w-head", "headgroup")).await?;
    for at in 0..5 {
        member(space, &cluster, &ray_pod(&format!("w-worker-{at}"), "workers")).await?;
        member(space, &cluster, &ray_pod(&format!("w-large-{at}"), "large").gpus(99)).await?;
    }
    space.counts("w-", 0, 11).await?;
    let group = only_group(space).await?;
    let parts = group["spec"]["subGroups"].as_array().map_or(0, Vec::len);
    ensure!(parts == 3, "{}", group["spec"]);
    Ok(())
}

/// A service with its revision; the deployment below is left to Kubernetes. The revision and its pods name a queue.
async fn knative_service(space: &TestSpace, scale: Option<&str>) -> anyhow::Result<()> {
    let named = |name: &str| json!({"metadata": {"name": name}});
    let service = foreign::make_unlabelled(space, &SERVICE, named("w")).await?;
    let mut below = named("w");
    below["metadata"]["ownerReferences"] = owned_by(&service);
    let configuration = foreign::make_unlabelled(space, &CONFIGURATION, below).await?;
    let mut below = named("w-1");
    below["metadata"]["ownerReferences"] = owned_by(&configuration);
    if let Some(scale) = scale {
        below["metadata"]["annotations"] = json!({"autoscaling.knative.dev/min-scale": scale});
    }
    let revision = foreign::make(space, &REVISION, below).await?;
    let template = pod("x", "q").cpu("100m").labelled("serving.knative.dev/revision", "w-1");
    let template = space.pod_object(&template);
    let labels = &template["metadata"]["labels"];
    let metadata = json!({"name": "w-1-deployment", "ownerReferences": owned_by(&revision)});
    let selector = json!({"matchLabels": {"serving.knative.dev/revision": "w-1"}});
    let template = json!({"metadata": {"labels": labels}, "spec": template["spec"]});
    let spec = json!({"replicas": 2, "selector": selector, "template": template});
    let object = json!({"metadata": metadata, "spec": spec});
    space.create(&deployments(space), &object).await.map(|_| ())
}

fn deployments(space: &TestSpace) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", space.name)
}

async fn knative(space: &TestSpace, scale: Option<&str>, needed: usize) -> anyhow::Result<()> {
    start(space).await?;
    knative_service(space, scale).await?;
    space.counts("w-1-", 2, 0).await?;
    let group = only_group(space).await?;
    ensure!(group["spec"]["minMember"] == needed, "{}", group["spec"]);
    ensure!(group["metadata"]["ownerReferences"][0]["kind"] == "Revision", "{group}");
    Ok(())
}

async fn knative_per_pod(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(PER_POD).await?;
    knative_service(space, Some("2")).await?;
    grouped(space, 2).await
}

/// So many pods of the revision run, each in a group of its own that needs one pod; there are no other groups.
async fn grouped(space: &TestSpace, pods: usize) -> anyhow::Result<()> {
    space.counts("w-1-", pods, 0).await?;
    let grouped = async || {
        let groups = space.groups().await?;
        let each = groups.len() == pods && groups.iter().all(|one| one["spec"]["minMember"] == 1);
        Ok(each && groups_of_pods(space, "w-1-").await? == pods)
    };
    space.until(&format!("{pods} pods have {pods} groups"), grouped).await
}

/// A pod is replaced after the setting changed. That the service grows is ours.
async fn knative_stays(space: &TestSpace) -> anyhow::Result<()> {
    knative_per_pod(space).await?;
    space.stop().await;
    space.start(&[]).await?;
    let first = space.pods_named("w-1-").await?[0]["metadata"]["name"].clone();
    let first = first.as_str().unwrap_or_default();
    space.delete_pod(first).await?;
    let gone = async || Ok(space.see_pod(first).await?.is_none());
    space.until(&format!("{first} is gone"), gone).await?;
    grouped(space, 2).await?;
    let path = format!("{}/w-1-deployment", deployments(space));
    space.patch(&path, &json!({"spec": {"replicas": 3}})).await?;
    grouped(space, 3).await
}

const SELECTOR: &str = "spark-5e1ec70e";

fn spark_pod(name: &str, role: &str) -> Pod {
    let named = pod(name, "q").labelled("spark-app-name", "w").labelled("spark-role", role);
    named.labelled("spark-app-selector", SELECTOR)
}

/// A driver that runs, then four executors, which it owns.
async fn spark_application(space: &TestSpace) -> anyhow::Result<Value> {
    start(space).await?;
    space.pod(&spark_pod("w-driver", "driver")).await?;
    space.ready(&["w-driver"]).await?;
    let mut driver = space.see_pod("w-driver").await?.context("the driver")?;
    (driver["apiVersion"], driver["kind"]) = (json!("v1"), json!("Pod"));
    for at in 1..5 {
        dependent(space, &driver, &spark_pod(&format!("w-exec-{at}"), "executor")).await?;
    }
    all_ready(space, "w-", 5).await?;
    Ok(driver)
}

async fn spark(space: &TestSpace) -> anyhow::Result<()> {
    spark_application(space).await?;
    all_in_one(space, 5).await
}

async fn all_in_one(space: &TestSpace, pods: usize) -> anyhow::Result<()> {
    let group = only_group(space).await?;
    ensure!(group["metadata"]["name"] == SELECTOR, "{}", group["metadata"]["name"]);
    let named = space.pods_named("w-").await?;
    let joined = |pod: &&Value| pod["metadata"]["annotations"]["pod-group-name"] == SELECTOR;
    ensure!(named.iter().filter(joined).count() == pods, "{named:?}");
    Ok(())
}

async fn spark_replaced(space: &TestSpace) -> anyhow::Result<()> {
    let driver = spark_application(space).await?;
    space.delete_pod("w-exec-1").await?;
    space.left("w-exec-", 3).await?;
    dependent(space, &driver, &spark_pod("w-exec-5", "executor")).await?;
    all_ready(space, "w-", 5).await?;
    all_in_one(space, 5).await
}
