//! Gangs on an empty cluster.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::objects::{NAMESPACE, OWNER, Request, SchedulerName, member, pod, pod_group};

const MEMBERS: usize = 512;
const PATIENCE: Duration = Duration::from_mins(2);

/// Creates the pod group and returns its pods.
pub(super) async fn gang(
    cluster: &Cluster,
    name: &str,
    members: usize,
    request: Request,
) -> anyhow::Result<Vec<Value>> {
    let groups = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups");
    cluster.load.create(&groups, vec![pod_group(name, OWNER, members)]).await?;
    let pods = (0..members).map(|number| {
        let pod = pod(&format!("{name}-{number:05}"), SchedulerName::Kai, OWNER, request);
        member(pod, name)
    });
    Ok(pods.collect())
}

/// Seconds from the last create to the last bind.
pub(super) async fn bind(cluster: &Cluster, name: &str, pods: Vec<Value>) -> anyhow::Result<f64> {
    let count = pods.len();
    cluster.load.create_pods(pods).await?;
    let created = Instant::now();
    cluster.until_bound(name, count).await?;
    let last = cluster.observer.last_bound(name).context("no pod is bound")?;
    Ok(last.saturating_duration_since(created).as_secs_f64())
}

/// Seconds from the last create to the last bind of a gang of this name, whose pods request this each. Pod groups outlive their case.
pub(super) async fn run(cluster: &Cluster, name: &str, request: Request) -> anyhow::Result<f64> {
    let _kai = cluster.start_kai().await?;
    let pods = gang(cluster, name, MEMBERS, request).await?;
    bind(cluster, &format!("{name}-"), pods).await
}

/// The same where the load client binds the pods of the gang itself: what the API server can do.
pub(super) async fn run_alone(cluster: &Cluster) -> anyhow::Result<f64> {
    let names = (0..MEMBERS).map(|number| format!("gang-alone-{number:05}"));
    let pods: Vec<Value> =
        names.map(|name| pod(&name, SchedulerName::None, OWNER, Request::Gpus(1))).collect();
    cluster.load.create_pods(pods.clone()).await?;
    let created = Instant::now();
    cluster.load.bind(&pods, cluster.nodes).await?;
    cluster.until_bound("gang-alone-", MEMBERS).await?;
    let last = cluster.observer.last_bound("gang-alone-").context("no pod is bound")?;
    let seconds = last.saturating_duration_since(created).as_secs_f64();
    cluster.clear().await?;
    Ok(seconds)
}

/// Seconds from the last create of a gang that is larger than the cluster to its reason.
pub(super) async fn run_unschedulable(cluster: &Cluster) -> anyhow::Result<f64> {
    let _kai = cluster.start_kai().await?;
    let pods = gang(cluster, "no", cluster.nodes + 1, Request::Gpus(8)).await?;
    cluster.load.create_pods(pods).await?;
    let created = Instant::now();
    let waits = |observer: &crate::observer::Observer| observer.count_unschedulable("no-") > 0;
    cluster.observer.until("the gang has a reason", PATIENCE, waits).await?;
    let shown = cluster.observer.first_unschedulable("no-").context("no reason")?;
    Ok(shown.saturating_duration_since(created).as_secs_f64())
}
