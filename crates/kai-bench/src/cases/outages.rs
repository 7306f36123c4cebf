//! Outages: a node goes, and so does the kai that leads.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::figures::FailOver;
use crate::load::{JSON, pods_path, send};
use crate::objects::{GPUS_PER_NODE, OWNER, Request, SchedulerName, pod};
use crate::process::Scheduler;

/// A process that starts lists everything, and a lease is acquired.
const SETTLE: Duration = Duration::from_secs(5);

/// Seconds from the removal of a full node to the bind of the pods that replace its own. Another node is empty.
pub(super) async fn run_node_loss(cluster: &Cluster) -> anyhow::Result<f64> {
    let _kai = cluster.start_kai().await?;
    let mut pods = super::fill::pods(cluster, "full-", SchedulerName::Kai);
    pods.truncate(pods.len() - GPUS_PER_NODE);
    let first = pods[0]["metadata"]["name"].as_str().context("a name")?.to_owned();
    let count = pods.len();
    cluster.load.create_pods(pods).await?;
    cluster.until_bound("full-", count).await?;
    tokio::time::sleep(SETTLE).await;
    let path = format!("{}/{first}", pods_path());
    let bound = send(&cluster.client, "GET", &path, JSON, &Value::Null).await?;
    let node = bound["spec"]["nodeName"].as_str().context("a node")?.to_owned();
    let again = (0..GPUS_PER_NODE).map(|number| format!("again-{number}"));
    let again = again.map(|name| pod(&name, SchedulerName::Kai, OWNER, Request::Gpus(1)));
    let begin = Instant::now();
    let path = format!("/api/v1/nodes/{node}");
    send(&cluster.client, "DELETE", &path, JSON, &json!({})).await?;
    cluster.load.create_pods(again.collect()).await?;
    cluster.until_bound("again-", GPUS_PER_NODE).await?;
    let last = cluster.observer.last_bound("again-").context("no pod is bound")?;
    cluster.create_node(&node).await?;
    Ok(last.duration_since(begin).as_secs_f64())
}

/// Seconds from the end of the kai that leads to a bind by the one that stands by.
pub(super) async fn run_fail_over(cluster: &Cluster) -> anyhow::Result<FailOver> {
    let leader = cluster.start_elected_kai("first")?;
    tokio::time::sleep(SETTLE).await;
    let standby = cluster.start_elected_kai("second")?;
    super::reclaim::fill(cluster).await?;
    let begin = Instant::now();
    leader.terminate().await?;
    let stopped_s = seconds_to_bind(cluster, begin, "stopped").await?;
    let _third: Scheduler = cluster.start_elected_kai("third")?;
    tokio::time::sleep(SETTLE).await;
    let begin = Instant::now();
    drop(standby); // killed
    let killed_s = seconds_to_bind(cluster, begin, "killed").await?;
    Ok(FailOver { stopped_s, killed_s })
}

/// A pod that reclaims one GPU is created; seconds from `begin` to its bind.
async fn seconds_to_bind(cluster: &Cluster, begin: Instant, name: &str) -> anyhow::Result<f64> {
    let one = pod(name, SchedulerName::Kai, OWNER, Request::Gpus(1));
    cluster.load.create_pods(vec![one]).await?;
    cluster.until_bound(name, 1).await?;
    let bound = cluster.observer.last_bound(name).context("no pod is bound")?;
    Ok(bound.duration_since(begin).as_secs_f64())
}
