//! Resident memory of kai on a full cluster.

use crate::cluster::Cluster;

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<f64> {
    let kai = cluster.start_kai().await?;
    super::reclaim::fill(cluster).await?;
    Ok(kai.pid().rss_mib())
}
