//! Reclaim on a full cluster: the queue with all quota takes back what the queue without quota borrowed.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::objects::{GPUS_PER_NODE, OWNER, Request, SchedulerName, pod};
use crate::observer::Observer;

/// Simulated kubelets have to catch up.
const SETTLE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_mins(2);

/// Fills the cluster with pods of the queue without quota, which run.
pub(super) async fn fill(cluster: &Cluster) -> anyhow::Result<()> {
    let pods = super::fill::pods(cluster, "full-", SchedulerName::Kai);
    let count = pods.len();
    cluster.load.create_pods(pods).await?;
    cluster.until_bound("full-", count).await?;
    tokio::time::sleep(SETTLE).await;
    Ok(())
}

/// What the API server takes for the writes of the reclaim, sent by the load client over 32 connections.
struct Alone {
    /// All evictions, while kubelets end no pod.
    evictions: Duration,
    /// The end of all victims by their kubelets.
    ends: Duration,
    /// The evictions, then the ends, then the binds of the gang.
    all: Duration,
}

async fn run_alone(cluster: &Cluster, members: usize) -> anyhow::Result<Alone> {
    let victims = members * GPUS_PER_NODE;
    let mut pods = super::fill::pods(cluster, "alone-", SchedulerName::None);
    pods.truncate(victims);
    let created = cluster.load.create_and_bind(pods, cluster.nodes).await?;
    let names: Vec<String> = created.created.into_keys().collect();
    cluster.until_bound("alone-", victims).await?;
    let gang = (0..members).map(|number| format!("taker-alone-{number:05}"));
    let request = Request::Gpus(GPUS_PER_NODE);
    let gang: Vec<Value> =
        gang.map(|name| pod(&name, SchedulerName::None, OWNER, request)).collect();
    cluster.load.create_pods(gang.clone()).await?;
    tokio::time::sleep(SETTLE).await;
    cluster.kubelets.let_pods_end(false);
    let begin = Instant::now();
    cluster.load.evict(&names).await?;
    let evictions = begin.elapsed();
    let end_begins = Instant::now();
    cluster.kubelets.let_pods_end(true);
    let are_gone = |observer: &Observer| observer.count_bound("alone-") == 0;
    cluster.observer.until("the victims are gone", PATIENCE, are_gone).await?;
    let ends = end_begins.elapsed();
    cluster.load.bind(&gang, cluster.nodes).await?;
    cluster.until_bound("taker-alone-", members).await?;
    let last = cluster.observer.last_bound("taker-alone-").context("no pod is bound")?;
    let all = last.saturating_duration_since(begin);
    cluster.clear().await?;
    Ok(Alone { evictions, ends, all })
}

/// Figures of the gang that reclaims.
pub(super) struct GangReclaim {
    /// Last create to last bind.
    pub(super) seconds: f64,
    /// As many evictions by the API server alone.
    pub(super) evictions_alone_s: f64,
    /// The end of as many victims by the API server alone.
    pub(super) ends_alone_s: f64,
    /// As many evictions, ends and binds by the API server alone.
    pub(super) alone_s: f64,
    /// Log entries of kai per victim and member.
    pub(super) entries_per_pod: f64,
    /// Resident memory of kai once the gang is bound.
    pub(super) rss_mib: f64,
}

/// Seconds from the last create to the last bind of a gang of whole nodes, and log entries per victim and member.
pub(super) async fn run_gang(cluster: &Cluster) -> anyhow::Result<GangReclaim> {
    let members = cluster.nodes * 2 / 5;
    let alone = run_alone(cluster, members).await?;
    let kai = cluster.start_kai().await?;
    fill(cluster).await?;
    let entries = cluster.kai_log_entries();
    let pods = super::gang::gang(cluster, "taker", members, Request::Gpus(GPUS_PER_NODE)).await?;
    let seconds = super::gang::bind(cluster, "taker-", pods).await?;
    let entries = cluster.kai_log_entries() - entries;
    let entries_per_pod = entries as f64 / (members * (GPUS_PER_NODE + 1)) as f64;
    tokio::time::sleep(SETTLE).await;
    let rss_mib = kai.pid().rss_mib();
    Ok(GangReclaim {
        seconds,
        evictions_alone_s: alone.evictions.as_secs_f64(),
        ends_alone_s: alone.ends.as_secs_f64(),
        alone_s: alone.all.as_secs_f64(),
        entries_per_pod,
        rss_mib,
    })
}

/// Seconds from the create to the bind of a pod that reclaims one GPU.
pub(super) async fn run_one(cluster: &Cluster) -> anyhow::Result<f64> {
    let _kai = cluster.start_kai().await?;
    fill(cluster).await?;
    let one = pod("one", SchedulerName::Kai, OWNER, Request::Gpus(1));
    super::gang::bind(cluster, "one", vec![one]).await
}
