//! 50 pods per second.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::figures::Latency;
use crate::load::{Created, Load};
use crate::objects::SchedulerName;

const PODS: usize = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// Creates pods at the rate of the case; `create` takes each of them.
async fn arrive<F>(
    cluster: &Cluster,
    prefix: &str,
    scheduler: SchedulerName,
    create: impl Fn(Load, Vec<Value>) -> F,
) -> anyhow::Result<Latency>
where
    F: Future<Output = anyhow::Result<Created>> + Send + 'static,
{
    let mut pods = super::fill::pods(cluster, prefix, scheduler);
    pods.truncate(PODS);
    let count = pods.len();
    let mut all = Created::default();
    let mut ticks = tokio::time::interval(PAUSE);
    let mut tasks = tokio::task::JoinSet::new();
    for pod in pods {
        ticks.tick().await;
        tasks.spawn(create(cluster.load.clone(), vec![pod]));
    }
    while let Some(ended) = tasks.join_next().await {
        all.created.extend(ended??.created);
    }
    cluster.until_bound(prefix, count).await?;
    Ok(super::fill::latency(&all, &cluster.observer.bound()))
}

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<Latency> {
    let _kai = cluster.start_kai().await?;
    let create = |load: Load, pods| async move { load.create_pods(pods).await };
    arrive(cluster, "arrival-", SchedulerName::Kai, create).await
}

/// The load client binds each pod as soon as its create is answered.
pub(super) async fn run_alone(cluster: &Cluster) -> anyhow::Result<Latency> {
    let nodes = cluster.nodes;
    let create = move |load: Load, pods| async move { load.create_and_bind(pods, nodes).await };
    let latency = arrive(cluster, "arrival-alone-", SchedulerName::None, create).await?;
    cluster.clear().await?;
    Ok(latency)
}
