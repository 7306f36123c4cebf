//! kai ends on a full cluster, and another kai starts.

use std::time::Instant;

use anyhow::Context;

use crate::cluster::Cluster;
use crate::objects::{OWNER, Request, SchedulerName, pod};

/// Seconds from SIGTERM to the end, and from the start to the first bind.
pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<(f64, f64)> {
    let kai = cluster.start_kai().await?;
    super::reclaim::fill(cluster).await?;
    let stopped = kai.terminate().await?;
    // It reclaims one GPU, so that a node is free for it.
    let one = pod("first", SchedulerName::Kai, OWNER, Request::Gpus(1));
    cluster.load.create_pods(vec![one]).await?;
    let begin = Instant::now();
    let _kai = cluster.start_kai_cold()?;
    cluster.until_bound("first", 1).await?;
    let bound = cluster.observer.last_bound("first").context("no pod is bound")?;
    Ok((stopped.as_secs_f64(), bound.duration_since(begin).as_secs_f64()))
}
