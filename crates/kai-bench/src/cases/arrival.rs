//! 50 pods per second.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::figures::Latency;
use crate::load::Created;
use crate::objects::SchedulerName;

const PODS: usize = 500;
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<Latency> {
    let _kai = cluster.start_kai().await?;
    let mut pods = super::fill::pods(cluster, "arrival-", SchedulerName::Kai);
    pods.truncate(PODS);
    let count = pods.len();
    let mut all = Created::default();
    let mut ticks = tokio::time::interval(PAUSE);
    let mut tasks = tokio::task::JoinSet::new();
    for pod in pods {
        ticks.tick().await;
        let load = cluster.load.clone();
        tasks.spawn(async move { load.create_pods(vec![pod]).await });
    }
    while let Some(ended) = tasks.join_next().await {
        all.created.extend(ended??.created);
    }
    cluster.until_bound("arrival-", count).await?;
    Ok(super::fill::latency(&all, &cluster.observer.bound()))
}
