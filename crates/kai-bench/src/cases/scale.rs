//! Two sizes of a cluster on a fake API server, each with a new kai: how its figures grow.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fake_api::{Binds, FakeApi};
use crate::figures::{Scale, ScaleFigures};
use crate::objects::{BORROWER, OWNER, Request, SchedulerName, node, pod, queue};
use crate::process::Scheduler;

/// 10,000 nodes hold 100,000 pods.
const GPUS_PER_NODE: usize = 10;
/// Most pods that are not bound yet.
const MOST_UNBOUND: usize = 2000;
/// Number of pods that are deleted and replaced, one after the other.
const REPLACEMENTS: usize = 200;
/// Between the steps of a replacement, so that each is planned alone.
const PAUSE: Duration = Duration::from_millis(50);
/// After the last bind of the fill.
const SETTLE: Duration = Duration::from_secs(5);
/// Longest time until one bind.
const BIND_PATIENCE: Duration = Duration::from_mins(5);
/// Longest time of the whole fill.
const FILL_PATIENCE: Duration = Duration::from_mins(20);
const POLL: Duration = Duration::from_secs(1);

/// Measures both sizes; calls `report` before each.
pub(super) async fn run(kai: &Path, nodes: usize, report: &impl Fn(&str)) -> anyhow::Result<Scale> {
    ensure!(nodes * GPUS_PER_NODE > REPLACEMENTS, "scale needs more than {REPLACEMENTS} GPUs");
    report(&format!("scale: {nodes} nodes"));
    let small = measure(kai, nodes).await?;
    report(&format!("scale: {} nodes", 2 * nodes));
    let large = measure(kai, 2 * nodes).await?;
    Ok(Scale::of(small, large))
}

async fn measure(kai: &Path, nodes: usize) -> anyhow::Result<ScaleFigures> {
    let bench = Bench::start(kai, nodes).await?;
    let figures = bench.measure().await;
    let folder = bench.folder.clone();
    match figures {
        Ok(figures) => {
            let _ = fs::remove_dir_all(folder);
            Ok(figures)
        }
        Err(error) => {
            let what = format!("{nodes} nodes; the log of kai is in {}", folder.display());
            Err(error.context(what))
        }
    }
}

/// Nodes and queues on a fake API server, and no pods.
struct Bench {
    api: FakeApi,
    kai: PathBuf,
    /// Holds the kubeconfig and the logs.
    folder: PathBuf,
    nodes: usize,
}

impl Bench {
    async fn start(kai: &Path, nodes: usize) -> anyhow::Result<Self> {
        let api = FakeApi::start().await?;
        for number in 0..nodes {
            api.create("/api/v1/nodes", node(number, GPUS_PER_NODE))?;
        }
        let gpus = i64::try_from(nodes * GPUS_PER_NODE)?;
        for queue in [queue(BORROWER, 0), queue(OWNER, gpus)] {
            api.create("/apis/scheduling.run.ai/v2/queues", queue)?;
        }
        // The default of pods without an owner.
        let class = json!({"metadata": {"name": "train"}, "value": 50});
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", class)?;
        let name = format!("kai-bench-scale-{}-{nodes}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        fs::write(folder.join("kubeconfig"), api.kubeconfig()).context("cannot write a file")?;
        Ok(Self { api, kai: kai.to_path_buf(), folder, nodes })
    }

    async fn measure(&self) -> anyhow::Result<ScaleFigures> {
        let pods = self.nodes * GPUS_PER_NODE;
        let mut figures =
            ScaleFigures { nodes: self.nodes as f64, pods: pods as f64, ..ScaleFigures::default() };
        let mut run = self.start_kai("fill")?;
        self.fill(&mut run, pods, &mut figures).await?;
        tokio::time::sleep(SETTLE).await;
        figures.rss_mib = run.kai.pid().rss_mib();
        self.replace(&mut run, pods, &mut figures).await?;
        run.kai.terminate().await?;
        self.start_cold(pods, &mut figures).await?;
        Ok(figures)
    }

    fn start_kai(&self, name: &str) -> anyhow::Result<Run> {
        let kubeconfig = self.folder.join("kubeconfig").display().to_string();
        let log = self.folder.join(format!("{name}.log"));
        let binds = self.api.binds();
        Ok(Run { kai: Scheduler::start_kai(&self.kai, &kubeconfig, &[], &log)?, binds })
    }

    /// Creates pods as fast as kai binds them. The clock starts once the first of them is bound: kai has listed everything.
    async fn fill(
        &self,
        run: &mut Run,
        pods: usize,
        figures: &mut ScaleFigures,
    ) -> anyhow::Result<()> {
        self.api.create_pod(new_pod(&pod_name(0)))?;
        run.until_bound(1, BIND_PATIENCE).await?;
        let (begin, cpu) = (Instant::now(), run.kai.pid().cpu_s());
        let mut created = 1;
        while created < pods {
            // Bursts of half of it.
            let enough = (created + MOST_UNBOUND / 2).saturating_sub(MOST_UNBOUND);
            run.until_bound(enough, BIND_PATIENCE).await?;
            ensure!(begin.elapsed() < FILL_PATIENCE, "{created} pods took too long");
            let burst = (run.bound() + MOST_UNBOUND).min(pods);
            for number in created..burst {
                self.api.create_pod(new_pod(&pod_name(number)))?;
            }
            created = created.max(burst);
        }
        let latest = run.until_bound(pods, FILL_PATIENCE).await?;
        figures.fill_s = latest.duration_since(begin).as_secs_f64();
        figures.fill_pods_per_s = (pods - 1) as f64 / figures.fill_s;
        figures.fill_cpu_s = run.kai.pid().cpu_s() - cpu;
        Ok(())
    }

    /// Deletes pods and creates others in their place, one after the other.
    async fn replace(
        &self,
        run: &mut Run,
        pods: usize,
        figures: &mut ScaleFigures,
    ) -> anyhow::Result<()> {
        let cpu = run.kai.pid().cpu_s();
        let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
        for number in 0..REPLACEMENTS {
            self.api.delete_pod(&pod_name(number * (pods / REPLACEMENTS)))?;
            tokio::time::sleep(PAUSE).await;
            let created = Instant::now();
            self.api.create_pod(new_pod(&format!("next-{number:06}")))?;
            let bound = run.until_bound(pods + number + 1, BIND_PATIENCE).await?;
            let elapsed = bound.duration_since(created);
            (total, longest) = (total + elapsed, longest.max(elapsed));
            tokio::time::sleep(PAUSE).await;
        }
        let per_replacement = |millis: f64| millis / REPLACEMENTS as f64;
        figures.replace_ms = per_replacement(total.as_secs_f64() * 1000.0);
        figures.replace_longest_ms = longest.as_secs_f64() * 1000.0;
        figures.replace_cpu_ms = per_replacement((run.kai.pid().cpu_s() - cpu) * 1000.0);
        Ok(())
    }

    /// Starts kai on the full cluster, in which one pod waits and one GPU is free.
    async fn start_cold(&self, pods: usize, figures: &mut ScaleFigures) -> anyhow::Result<()> {
        self.api.delete_pod(&pod_name(pods - 1))?;
        self.api.create_pod(new_pod("cold"))?;
        let begin = Instant::now();
        let mut run = self.start_kai("cold")?;
        let bound = run.until_bound(pods + REPLACEMENTS + 1, BIND_PATIENCE).await?;
        figures.cold_start_s = bound.duration_since(begin).as_secs_f64();
        figures.cold_start_cpu_s = run.kai.pid().cpu_s();
        Ok(())
    }
}

/// A kai and the binds that it writes.
struct Run {
    kai: Scheduler,
    binds: watch::Receiver<Binds>,
}

impl Run {
    fn bound(&self) -> usize {
        self.binds.borrow().count
    }

    /// Waits until so many binds were written to the API; when the latest one was.
    async fn until_bound(&mut self, count: usize, patience: Duration) -> anyhow::Result<Instant> {
        let begin = Instant::now();
        loop {
            let reached = self.binds.wait_for(|binds| binds.count >= count);
            match tokio::time::timeout(POLL, reached).await {
                Ok(Ok(binds)) => return binds.latest.context("no pod was bound"),
                Ok(Err(_)) => bail!("the fake API server ended"),
                Err(_) => {}
            }
            let bound = self.bound();
            ensure!(!self.kai.has_ended()?, "kai ended after {bound} of {count} binds");
            let seconds = patience.as_secs();
            ensure!(begin.elapsed() < patience, "{bound} of {count} binds within {seconds} s");
        }
    }
}

fn pod_name(number: usize) -> String {
    format!("pod-{number:06}")
}

/// A one-GPU pod without an owner, with what an API server adds to it.
fn new_pod(name: &str) -> Value {
    let mut pod = pod(name, SchedulerName::Kai, BORROWER, Request::Gpus(1));
    let toleration = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let added = json!({
        "spec": {
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "enableServiceLinks": true,
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    });
    json_patch::merge(&mut pod, &added);
    pod
}
