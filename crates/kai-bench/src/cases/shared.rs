//! Half-GPU pods until the cluster is full.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::figures::SharedFill;
use crate::objects::{BORROWER, Request, SchedulerName, pod};

/// As many pods as in the fill, on half of the GPUs.
fn pods(cluster: &Cluster, prefix: &str, scheduler: SchedulerName) -> Vec<Value> {
    let names = (0..cluster.gpus()).map(|number| format!("{prefix}{number:06}"));
    names.map(|name| pod(&name, scheduler, BORROWER, Request::HalfGpu)).collect()
}

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<SharedFill> {
    let raw = pods(cluster, "raw-half-", SchedulerName::None);
    let raw = cluster.load.create_and_bind_halves(raw, cluster.nodes).await?;
    let raw_pods_per_s = super::fill::rate(&raw, &raw.bound)?;
    cluster.clear().await?;

    let kai = cluster.start_kai().await?;
    let pods = pods(cluster, "half-", SchedulerName::Kai);
    let count = pods.len();
    let api_cpu = cluster.api_server.cpu_s();
    let written = cluster.writes_but_of_kubelets().await?;
    let created = cluster.load.create_pods(pods).await?;
    cluster.until_bound("half-", count).await?;
    let bound = cluster.observer.bound();
    let per_pod = |total: f64| total / count as f64;
    let written = cluster.writes_but_of_kubelets().await? - written;
    let pods_per_s = super::fill::rate(&created, &bound)?;
    Ok(SharedFill {
        pods_per_s,
        raw_pods_per_s,
        ratio_to_raw: pods_per_s / raw_pods_per_s,
        // Every pod is created by the load client.
        requests_per_pod: per_pod(written) - 1.0,
        p50_ms: super::fill::latency(&created, &bound).p50_ms,
        api_cpu_ms_per_pod: per_pod(cluster.api_server.cpu_s() - api_cpu) * 1000.0,
        rss_mib: kai.pid().rss_mib(),
    })
}
