//! An embedded cluster with `kai run`'s own code on it, in virtual time: one thread, a clock that jumps to the next timer.

mod admission;
#[cfg(test)]
mod end_to_end;
mod nodes;
pub(crate) mod scheduler;

use std::hash::{Hash, Hasher};
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kai_client::env::{Clock, Env, TokioSpawner, Work, duration};

use anyhow::Context;
use kai_api::json;
use kai_core::time::{Span, Timestamp};
use kai_embed::Cluster;
use kai_embed::controllers::workload_definitions;
use kai_embed::nodes::NodeProfile;
use kai_embed::object::{at, is_terminating, namespace, text};
use kai_embed::service::Embedded;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::Instant;

pub(crate) use nodes::ClusterArguments;

/// When virtual time begins: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600_000_000_000;
/// Ids follow from this seed, so that every run looks the same.
const SEED: u64 = 2026;
/// Nothing that waits waits longer than this between two tries.
const QUIET: Duration = Duration::from_secs(75);
const STEP: Duration = Duration::from_millis(250);
/// Workloads that never come to rest are shown as they are after this time.
const LONGEST: Duration = Duration::from_hours(366 * 24);
/// Where reservation pods are: they come and go with every try.
pub(crate) const RESERVATIONS: &str = "kai-resource-reservation";
/// What is only tried again and again, and comes to nothing, is at rest.
const PATIENCE: Duration = Duration::from_mins(20);

/// Clock of virtual time.
#[derive(Clone, Copy)]
struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_nanos()).unwrap_or(i64::MAX);
        Timestamp { nanos: BEGINNING.saturating_add(passed) }
    }

    fn sleep(&self, span: Span) -> Work {
        Box::pin(tokio::time::sleep(duration(span)))
    }

    fn uptime(&self) -> Span {
        Span { nanos: i64::try_from(self.0.elapsed().as_nanos()).unwrap_or(i64::MAX) }
    }
}

/// A moment in the words of the embedded cluster.
pub(crate) fn moment(time: Timestamp) -> kai_embed::Timestamp {
    kai_embed::Timestamp::from_nanosecond(i128::from(time.nanos)).unwrap_or_default()
}

/// A duration in the words of the scheduler.
pub(crate) fn span(duration: Duration) -> Span {
    Span { nanos: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX) }
}

/// A cluster in virtual time, as after an install, with `kai` running on it.
pub(crate) struct VirtualCluster {
    embedded: Embedded,
}

/// Plays a story on a new cluster.
pub(crate) fn play<T>(
    story: impl AsyncFnOnce(VirtualCluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    virtual_time()?.block_on(played(story))
}

/// The same, in a process that ends afterwards: the memory of the cluster is not freed. Freeing a large cluster object by object
/// takes a tenth of the time of its simulation.
pub(crate) fn play_before_exit<T>(
    story: impl AsyncFnOnce(VirtualCluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let runtime = ManuallyDrop::new(virtual_time()?);
    runtime.block_on(played(story))
}

async fn played<T>(
    story: impl AsyncFnOnce(VirtualCluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let clock = VirtualClock(Instant::now());
    let env = Env::new(Arc::new(clock), Arc::new(TokioSpawner));
    let embedded = new_cluster(clock, &env)?;
    // Once shows where the pods of a cron job go; for ever would never come to rest.
    embedded.with(|cluster, _| {
        cluster.limit_cron_jobs(1);
        cluster.skip_managers_of_pods();
    });
    scheduler::start(&embedded, &env, &[])?;
    story(VirtualCluster { embedded }).await
}

/// A runtime on one thread whose clock jumps to the next timer.
fn virtual_time() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("cannot start the runtime")
}

/// A cluster as after an install, on which nothing runs yet.
fn new_cluster(clock: VirtualClock, env: &Env) -> anyhow::Result<Embedded> {
    let mut cluster = Cluster::new(SEED, moment(clock.now()));
    install(&mut cluster)?;
    let embedded = Embedded::new(cluster, Arc::new(move || moment(clock.now())));
    let driver = embedded.clone().drive(|span| Box::pin(tokio::time::sleep(span)));
    env.spawn("embedded cluster", driver);
    Ok(embedded)
}

/// Does what an install does.
pub(crate) fn install(cluster: &mut Cluster) -> anyhow::Result<()> {
    installed()?.iter().try_for_each(|object| make(cluster, object))?;
    admission::start(cluster, &admission::usual())
}

/// The same, with default queues that guarantee everything. The queues of an installation guarantee nothing, so that a Deployment,
/// which is not preemptible, never runs in them.
pub(crate) fn install_with_open_queues(cluster: &mut Cluster) -> anyhow::Result<()> {
    for object in installed()? {
        if object["kind"] == "Queue" {
            make(cluster, &without_quotas(object))?;
        } else {
            make(cluster, object)?;
        }
    }
    admission::start(cluster, &admission::usual())
}

fn without_quotas(queue: &Value) -> Value {
    let mut queue = queue.clone();
    for resource in ["cpu", "gpu", "memory"] {
        json::set(&mut queue, &["spec", "resources", resource, "quota"], json!(-1));
    }
    queue
}

fn make(cluster: &mut Cluster, object: &Value) -> anyhow::Result<()> {
    cluster.make(object).map(drop).with_context(|| {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        format!("cannot create {kind} {name}")
    })
}

/// What an install brings, and the kinds that operators of workloads define.
fn installed() -> anyhow::Result<&'static [Value]> {
    // Many clusters may be started in one process; reading all that takes longer than a walk-through.
    static READ: OnceLock<Vec<Value>> = OnceLock::new();
    if let Some(read) = READ.get() {
        return Ok(read);
    }
    let read = read_installed()?;
    Ok(READ.get_or_init(|| read))
}

fn read_installed() -> anyhow::Result<Vec<Value>> {
    let mut objects: Vec<Value> = workload_definitions().collect();
    // Where there are GPUs, there is a runtime for them.
    objects.push(json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }));
    for document in kai_install::manifests::documents() {
        let read: Vec<Value> =
            serde_saphyr::from_multiple(document).context("an installed document is no YAML")?;
        objects.extend(read);
    }
    Ok(objects)
}

impl VirtualCluster {
    /// Creates an object in the cluster.
    pub(crate) fn make(&self, object: &Value) -> anyhow::Result<()> {
        self.embedded.with(|cluster, _| make(cluster, object))
    }

    /// Adds a simulated node with its kubelet.
    pub(crate) fn add_node(&self, profile: &NodeProfile) -> anyhow::Result<()> {
        let added = self.embedded.with(|cluster, _| cluster.add_node(profile));
        added.with_context(|| format!("cannot add the node {}", profile.name))
    }

    /// Sets labels of a node.
    pub(crate) fn label_node(&self, name: &str, labels: &[(&str, &str)]) -> anyhow::Result<()> {
        self.embedded.with(|cluster, _| {
            let key = kai_embed::Key::new("", name);
            let node = cluster.get(kai_embed::kinds::NODES, &key);
            let mut node = Value::clone(node.with_context(|| format!("there is no node {name}"))?);
            for (key, value) in labels {
                json::set(&mut node, &["metadata", "labels", *key], json!(value));
            }
            cluster.replace(&node).with_context(|| format!("cannot label {name}"))?;
            Ok(())
        })
    }

    /// The cluster behind it, for readers on other threads.
    pub(crate) fn embedded(&self) -> &Embedded {
        &self.embedded
    }

    /// Looks at the cluster as it is.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Cluster) -> T) -> T {
        self.embedded.with(|cluster, _| look(cluster))
    }

    /// Lets a span of virtual time pass.
    pub(crate) async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    /// Lets everything settle: nothing changes any more, and no pod starts or ends by itself. What did not settle, one
    /// line each.
    pub(crate) async fn settle(&self) -> Vec<String> {
        self.settle_watched(|_, _| ()).await
    }

    /// The same; `watch` is called with every state, and how long after the beginning.
    pub(crate) async fn settle_watched(
        &self,
        mut watch: impl FnMut(&Cluster, Duration),
    ) -> Vec<String> {
        let begin = Instant::now();
        self.look(|cluster| watch(cluster, Duration::ZERO));
        let mut quiet_since = Instant::now();
        let mut version = self.look(|cluster| cluster.version());
        let mut places = self.look(|cluster| places_of(cluster));
        let mut still_since = Instant::now();
        while begin.elapsed() < LONGEST
            && quiet_since.elapsed() < QUIET
            && still_since.elapsed() < PATIENCE
        {
            let next = self.look(|cluster| {
                cluster.next_pod_alarm().map(|at| at.duration_since(cluster.now()))
            });
            let wait = next.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or(STEP);
            self.pass(wait.max(STEP)).await;
            let (now, is_busy) = self.look(|cluster| {
                watch(cluster, begin.elapsed());
                (cluster.version(), cluster.next_pod_alarm().is_some())
            });
            if now != version {
                let current = self.look(|cluster| places_of(cluster));
                if current != places {
                    places = current;
                    still_since = Instant::now();
                }
            }
            if is_busy {
                still_since = Instant::now();
            }
            if now != version || is_busy {
                version = now;
                quiet_since = Instant::now();
            }
        }
        let is_over = begin.elapsed() >= LONGEST;
        self.look(|cluster| unsettled(cluster, is_over))
    }
}

/// What is still on its way, one line each.
fn unsettled(cluster: &Cluster, is_over: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if is_over {
        lines.push(format!("pods still change after {} days", LONGEST.as_secs() / (24 * 60 * 60)));
    }
    let pods = || cluster.list(kai_embed::kinds::PODS);
    let bound = pods().filter(|pod| {
        !text(&pod["spec"]["nodeName"]).is_empty() && text(&pod["status"]["phase"]) == "Pending"
    });
    lines.extend(count_line(bound, "bound to a node and not started"));
    lines.extend(count_line(pods().filter(|pod| is_terminating(pod)), "deleted and not gone"));
    lines
}

/// `7 pods are …, a/x for example`; none for no pods.
fn count_line<'a>(mut pods: impl Iterator<Item = &'a Arc<Value>>, state: &str) -> Option<String> {
    let first = kai_embed::Key::of(pods.next()?);
    Some(match pods.count() {
        0 => format!("pod {first} is {state}"),
        others => format!("{} pods are {state}, {first} for example", others + 1),
    })
}

/// A hash of where every pod is and of its phase.
fn places_of(cluster: &Cluster) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    let ours = |pod: &&Arc<Value>| namespace(pod) != RESERVATIONS;
    for pod in cluster.list(kai_embed::kinds::PODS).filter(ours) {
        let place = [&["metadata", "uid"], &["spec", "nodeName"], &["status", "phase"]];
        place.map(|path| text(at(pod, path))).hash(&mut hasher);
    }
    hasher.finish()
}
