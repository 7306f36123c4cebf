//! One-GPU pods until the cluster is full.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::figures::{Figures, Fill, Latency, WatchingClient};
use crate::load::Created;
use crate::objects::{BORROWER, Request, SchedulerName, pod};

/// Pods that fill the cluster.
pub(super) fn pods(cluster: &Cluster, prefix: &str, scheduler: SchedulerName) -> Vec<Value> {
    let names = (0..cluster.gpus()).map(|number| format!("{prefix}{number:06}"));
    names.map(|name| pod(&name, scheduler, BORROWER, Request::Gpus(1))).collect()
}

/// Pods per second from the first create to the last bind.
pub(super) fn rate(created: &Created, bound: &BTreeMap<String, Instant>) -> anyhow::Result<f64> {
    let first = created.created.values().min().context("no pod was created")?;
    let ends = created.created.keys().filter_map(|name| bound.get(name));
    let last = ends.max().context("no pod was bound")?;
    Ok(created.created.len() as f64 / last.duration_since(*first).as_secs_f64())
}

/// Time from the create of every pod to its bind, or to another moment.
pub(super) fn latency(created: &Created, bound: &BTreeMap<String, Instant>) -> Latency {
    let spans = created.created.iter().filter_map(|(name, begin)| {
        let end = bound.get(name)?;
        Some(end.duration_since(*begin).as_secs_f64() * 1000.0)
    });
    Latency::of(spans.collect())
}

/// A client that does nothing but bind pods once its watch shows them: what a scheduler could reach that needs no time to decide.
async fn run_watching_client(cluster: &Cluster) -> anyhow::Result<WatchingClient> {
    let pods = pods(cluster, "shown-", SchedulerName::None);
    let (count, names) = (pods.len(), cluster.observer.follow_names());
    let created =
        cluster.load.create_and_bind_shown(pods, cluster.nodes, cluster.client.clone(), names);
    let created = created.await?;
    cluster.until_bound("shown-", count).await?;
    let bound = cluster.observer.bound();
    let Latency { p50_ms, p99_ms } = latency(&created, &bound);
    let pods_per_s = rate(&created, &bound)?;
    cluster.clear().await?;
    Ok(WatchingClient { pods_per_s, p50_ms, p99_ms })
}

/// Pods that are written while nothing else happens.
const LARGE_PODS: usize = 24;
const LARGE_POD_BYTES: usize = 200_000;

/// Fills the cluster once without measuring it: in its first seconds under load an API server collects garbage often and ends watches.
/// Before that, as in the life of any control plane, large objects pass while it is idle. Without them most new control planes show
/// pods late, seemingly because the flow-control window of the connection between API server and etcd stays as small as it begins.
pub(super) async fn warm_up(cluster: &Cluster) -> anyhow::Result<()> {
    for mut pod in pods(cluster, "large-", SchedulerName::None).into_iter().take(LARGE_PODS) {
        pod["metadata"]["annotations"]["content"] = "x".repeat(LARGE_POD_BYTES).into();
        cluster.load.create_pods(vec![pod]).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.clear().await?;
    let pods = pods(cluster, "warm-up-", SchedulerName::None);
    cluster.load.create_and_bind(pods, cluster.nodes).await?;
    cluster.clear().await
}

/// Times that everything but kube-scheduler fills the cluster: whether the API server collects garbage for more than half of a fill
/// makes a difference of a factor to its latencies.
const ROUNDS: usize = 3;

/// What is measured once per round.
struct Round {
    fill: Fill,
    api_cpu_ms_per_pod: f64,
    writes_per_pod: f64,
}

async fn run_round(cluster: &Cluster) -> anyhow::Result<Round> {
    let count = cluster.gpus();
    let raw =
        cluster.load.create_and_bind(pods(cluster, "raw-", SchedulerName::None), cluster.nodes);
    let raw = raw.await?;
    let raw_pods_per_s = rate(&raw, &raw.bound)?;
    let raw_latency = latency(&raw, &raw.bound);
    cluster.clear().await?;
    let watching_client = run_watching_client(cluster).await?;

    let kai = cluster.start_kai().await?;
    let (cpu, api_cpu) = (kai.pid().cpu_s(), cluster.api_server.cpu_s());
    let written = cluster.writes_but_of_kubelets().await?;
    let created = cluster.load.create_pods(pods(cluster, "kai-", SchedulerName::Kai)).await?;
    cluster.until_bound("kai-", count).await?;
    let bound = cluster.observer.bound();
    let pods_per_s = rate(&created, &bound)?;
    let shown = latency(&created, &cluster.observer.shown());
    let latency = latency(&created, &bound);
    let scheduler_cpu_s = kai.pid().cpu_s() - cpu;
    let api_cpu = cluster.api_server.cpu_s() - api_cpu;
    // Every pod is created by the load client.
    let written = cluster.writes_but_of_kubelets().await? - written;
    drop(kai);
    cluster.clear().await?;
    let per_pod = |total: f64| total / count as f64;
    let fill = Fill {
        pods_per_s,
        raw_pods_per_s,
        kube_scheduler_pods_per_s: None,
        watching_client,
        raw_p50_ms: raw_latency.p50_ms,
        raw_p99_ms: raw_latency.p99_ms,
        ratio_to_raw: pods_per_s / raw_pods_per_s,
        shown_p50_ms: shown.p50_ms,
        p50_ms: latency.p50_ms,
        p99_ms: latency.p99_ms,
        scheduler_cpu_s,
    };
    Ok(Round {
        fill,
        api_cpu_ms_per_pod: per_pod(api_cpu) * 1000.0,
        writes_per_pod: per_pod(written) - 1.0,
    })
}

/// The median of each figure.
fn medians(rounds: &[Round]) -> Round {
    let median = |figure: fn(&Round) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    };
    let fill = Fill {
        pods_per_s: median(|round| round.fill.pods_per_s),
        raw_pods_per_s: median(|round| round.fill.raw_pods_per_s),
        kube_scheduler_pods_per_s: None,
        watching_client: WatchingClient {
            pods_per_s: median(|round| round.fill.watching_client.pods_per_s),
            p50_ms: median(|round| round.fill.watching_client.p50_ms),
            p99_ms: median(|round| round.fill.watching_client.p99_ms),
        },
        raw_p50_ms: median(|round| round.fill.raw_p50_ms),
        raw_p99_ms: median(|round| round.fill.raw_p99_ms),
        ratio_to_raw: median(|round| round.fill.ratio_to_raw),
        shown_p50_ms: median(|round| round.fill.shown_p50_ms),
        p50_ms: median(|round| round.fill.p50_ms),
        p99_ms: median(|round| round.fill.p99_ms),
        scheduler_cpu_s: median(|round| round.fill.scheduler_cpu_s),
    };
    Round {
        fill,
        api_cpu_ms_per_pod: median(|round| round.api_cpu_ms_per_pod),
        writes_per_pod: median(|round| round.writes_per_pod),
    }
}

/// Pods per second of kube-scheduler; none where it cannot be built.
async fn run_kube_scheduler(cluster: &Cluster) -> anyhow::Result<Option<f64>> {
    let Some(_scheduler) = cluster.start_kube_scheduler().await? else { return Ok(None) };
    let created =
        cluster.load.create_pods(pods(cluster, "ks-", SchedulerName::KubeScheduler)).await?;
    cluster.until_bound("ks-", cluster.gpus()).await?;
    let pods_per_s = rate(&created, &cluster.observer.bound())?;
    cluster.clear().await?;
    Ok(Some(pods_per_s))
}

pub(super) async fn run(cluster: &Cluster, figures: &mut Figures) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(run_round(cluster).await?);
    }
    let Round { fill, api_cpu_ms_per_pod, writes_per_pod } = medians(&rounds);
    let kube_scheduler_pods_per_s = run_kube_scheduler(cluster).await?;
    figures.fill = Some(Fill { kube_scheduler_pods_per_s, ..fill });
    figures.api_cpu_ms_per_pod = Some(api_cpu_ms_per_pod);
    figures.writes_per_pod = Some(writes_per_pod);
    Ok(())
}
