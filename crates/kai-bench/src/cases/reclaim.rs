//! Reclaim on a full cluster: the queue with all quota takes back what the queue without quota borrowed.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::objects::{GPUS_PER_NODE, OWNER, Request, SchedulerName, pod};

/// Fills the cluster with pods of the queue without quota, which run.
pub(super) async fn fill(cluster: &Cluster) -> anyhow::Result<()> {
    let pods = super::fill::pods(cluster, "full-", SchedulerName::Kai);
    let count = pods.len();
    cluster.load.create_pods(pods).await?;
    cluster.until_bound("full-", count).await?;
    // Simulated kubelets have to catch up.
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok(())
}

/// Seconds from the last create to the last bind of a gang of whole nodes, and log entries per victim and member.
pub(super) async fn run_gang(cluster: &Cluster) -> anyhow::Result<(f64, f64)> {
    let _kai = cluster.start_kai().await?;
    fill(cluster).await?;
    let members = cluster.nodes * 2 / 5;
    let entries = cluster.kai_log_entries();
    let pods = super::gang::gang(cluster, "taker", members, Request::Gpus(GPUS_PER_NODE)).await?;
    let seconds = super::gang::bind(cluster, "taker-", pods).await?;
    let entries = cluster.kai_log_entries() - entries;
    Ok((seconds, entries as f64 / (members * (GPUS_PER_NODE + 1)) as f64))
}

/// Seconds from the create to the bind of a pod that reclaims one GPU.
pub(super) async fn run_one(cluster: &Cluster) -> anyhow::Result<f64> {
    let _kai = cluster.start_kai().await?;
    fill(cluster).await?;
    let one = pod("one", SchedulerName::Kai, OWNER, Request::Gpus(1));
    super::gang::bind(cluster, "one", vec![one]).await
}
