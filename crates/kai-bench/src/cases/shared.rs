//! Half-GPU pods until the cluster is full.

use crate::cluster::Cluster;
use crate::figures::SharedFill;
use crate::objects::{BORROWER, Request, SchedulerName, pod};

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<SharedFill> {
    let kai = cluster.start_kai().await?;
    // As many pods as in the fill, on half of the GPUs.
    let count = cluster.gpus();
    let names = (0..count).map(|number| format!("half-{number:06}"));
    let pods = names.map(|name| pod(&name, SchedulerName::Kai, BORROWER, Request::HalfGpu));
    let api_cpu = cluster.api_server.cpu_s();
    let written = cluster.writes_but_of_kubelets().await?;
    let created = cluster.load.create_pods(pods.collect()).await?;
    cluster.until_bound("half-", count).await?;
    let bound = cluster.observer.bound();
    let per_pod = |total: f64| total / count as f64;
    let written = cluster.writes_but_of_kubelets().await? - written;
    Ok(SharedFill {
        pods_per_s: super::fill::rate(&created, &bound)?,
        // Every pod is created by the load client.
        requests_per_pod: per_pod(written) - 1.0,
        p50_ms: super::fill::latency(&created, &bound).p50_ms,
        api_cpu_ms_per_pod: per_pod(cluster.api_server.cpu_s() - api_cpu) * 1000.0,
        rss_mib: kai.pid().rss_mib(),
    })
}
