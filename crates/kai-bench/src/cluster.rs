//! The control plane under test.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use kai_testenv::{Binaries, Build, ControlPlane};
use kube::Client;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::kubelets::{self, Kubelets};
use crate::load::{JSON, Load, MERGE_PATCH, send};
use crate::objects::{self, BORROWER, GPUS_PER_NODE, NAMESPACE, OWNER, RESERVATIONS};
use crate::observer::Observer;
use crate::process::{Pid, Scheduler};
use crate::requests::writes;

/// Connections of the load client.
const CONNECTIONS: usize = 32;
const PATIENCE: Duration = Duration::from_mins(10);

/// A control plane with nodes, queues and simulated kubelets, and no pods.
pub(crate) struct Cluster {
    plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) load: Load,
    pub(crate) observer: Observer,
    pub(crate) kubelets: Kubelets,
    pub(crate) api_server: Pid,
    pub(crate) nodes: usize,
    kai: PathBuf,
    folder: PathBuf,
}

impl Cluster {
    /// Starts one. `kai` is the program under test.
    pub(crate) async fn start(kai: &Path, nodes: usize) -> anyhow::Result<Self> {
        let plane = match ControlPlane::start_with(&[
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
        ])
        .await?
        {
            Ok(plane) => plane,
            Err(why) => bail!("no control plane: {why:?}"),
        };
        install(kai, &plane)?;
        let client = plane.admin().await?;
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(plane.admin().await?);
        }
        let folder = plane.admin_kubeconfig().parent().context("a folder")?.to_path_buf();
        let marker = folder.display().to_string();
        let api_server =
            Pid::find(&["kube-apiserver", &marker]).context("the API server is not found")?;
        let (pods, observed) = unbounded_channel();
        let kubelets = kubelets::start(plane.admin().await?, observed);
        let observer = Observer::start(plane.admin().await?, pods);
        let load = Load::new(clients);
        let cluster = Self {
            plane,
            client,
            load,
            observer,
            kubelets,
            api_server,
            nodes,
            kai: kai.to_path_buf(),
            folder,
        };
        cluster.populate().await?;
        Ok(cluster)
    }

    async fn populate(&self) -> anyhow::Result<()> {
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        send(&self.client, "POST", "/api/v1/namespaces", JSON, &namespace).await?;
        let account = json!({"metadata": {"name": "default"}});
        for namespace in [NAMESPACE, RESERVATIONS] {
            let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            // The controller manager makes the same.
            let _ = send(&self.client, "POST", &accounts, JSON, &account).await;
        }
        let nodes = (0..self.nodes).map(|number| objects::node(number, GPUS_PER_NODE)).collect();
        self.load.create("/api/v1/nodes", nodes).await?;
        for number in 0..self.nodes {
            self.make_ready(&objects::node_name(number)).await?;
        }
        let gpus = i64::try_from(self.nodes * GPUS_PER_NODE)?;
        let queues = vec![objects::queue(BORROWER, 0), objects::queue(OWNER, gpus)];
        self.load.create("/apis/scheduling.run.ai/v2/queues", queues).await
    }

    /// Nodes that are created get a taint that says that they are not ready.
    async fn make_ready(&self, node: &str) -> anyhow::Result<()> {
        let patch = json!({"spec": {"taints": null}});
        let path = format!("/api/v1/nodes/{node}");
        send(&self.client, "PATCH", &path, MERGE_PATCH, &patch).await.map(|_| ())
    }

    /// Creates a node again.
    pub(crate) async fn create_node(&self, name: &str) -> anyhow::Result<()> {
        let number = (0..self.nodes).find(|number| objects::node_name(*number) == name);
        let node = objects::node(number.context("a node of the cluster")?, GPUS_PER_NODE);
        self.load.create("/api/v1/nodes", vec![node]).await?;
        self.make_ready(name).await
    }

    /// Starts `kai run`, which knows nothing yet.
    pub(crate) fn start_kai_cold(&self) -> anyhow::Result<Scheduler> {
        self.start_kai_with(&[], &self.kai_log())
    }

    /// Starts `kai run` that acts only while it has the lease.
    pub(crate) fn start_elected_kai(&self, name: &str) -> anyhow::Result<Scheduler> {
        self.start_kai_with(&["--leader-elect"], &self.folder.join(format!("kai-{name}.log")))
    }

    fn start_kai_with(&self, more: &[&str], log: &Path) -> anyhow::Result<Scheduler> {
        let kubeconfig = self.plane.admin_kubeconfig().display().to_string();
        Scheduler::start_kai(&self.kai, &kubeconfig, more, log)
    }

    /// Starts `kai run` and gives it time to list everything that exists.
    pub(crate) async fn start_kai(&self) -> anyhow::Result<Scheduler> {
        let kai = self.start_kai_cold()?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(kai)
    }

    /// Where kai logs to.
    pub(crate) fn kai_log(&self) -> PathBuf {
        self.folder.join("kai.log")
    }

    /// Number of entries that kai has logged; some have several lines, of which the first begins with the time.
    pub(crate) fn kai_log_entries(&self) -> usize {
        let log = fs::read_to_string(self.kai_log()).unwrap_or_default();
        log.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count()
    }

    /// Starts kube-scheduler without a limit of requests; none where it cannot be built.
    pub(crate) async fn start_kube_scheduler(&self) -> anyhow::Result<Option<Scheduler>> {
        let Build::Ready(binaries) = Binaries::with_scheduler()? else { return Ok(None) };
        let program = binaries.path("kube-scheduler");
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {"kubeconfig": self.plane.admin_kubeconfig(), "qps": 5000, "burst": 5000},
        });
        let path = self.folder.join("kube-scheduler.json");
        fs::write(&path, serde_json::to_vec(&config)?)?;
        let arguments = [
            format!("--config={}", path.display()),
            format!("--secure-port={}", kai_testenv::free_port()?),
        ];
        let log = self.folder.join("kube-scheduler.log");
        let scheduler = Scheduler::start(&program, &arguments, &log)?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(Some(scheduler))
    }

    /// Writes that the API server served, without writes of kubelets.
    pub(crate) async fn writes_but_of_kubelets(&self) -> anyhow::Result<f64> {
        // Wrong by at most the writes of kubelets in flight, which are few.
        let all = writes(&self.client).await?;
        Ok(all - self.kubelets.count_writes())
    }

    /// Removes all pods and waits until they are gone.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        for _ in 0..5 {
            // On a busy machine the API server may end the request before all pods are removed.
            let _ = self.load.remove_pods().await;
            let gone =
                self.observer.until("all pods are gone", Duration::from_mins(1), |observer| {
                    observer.bound().is_empty()
                });
            if gone.await.is_ok() {
                return Ok(());
            }
        }
        bail!("pods stay")
    }

    /// Waits until so many pods with this prefix are bound.
    pub(crate) async fn until_bound(&self, prefix: &str, count: usize) -> anyhow::Result<()> {
        let what = format!("{count} pods {prefix}* are bound");
        self.observer.until(&what, PATIENCE, |observer| observer.count_bound(prefix) >= count).await
    }

    /// GPUs of all nodes.
    pub(crate) fn gpus(&self) -> usize {
        self.nodes * GPUS_PER_NODE
    }
}

/// `kai manifests | kubectl apply`.
fn install(kai: &Path, plane: &ControlPlane) -> anyhow::Result<()> {
    let manifests = Command::new(kai).args(["manifests", "--deploy", "nothing"]).output()?;
    ensure!(manifests.status.success(), "kai manifests ended with {}", manifests.status);
    let documents = String::from_utf8(manifests.stdout)?;
    let first =
        documents.find("\n---\napiVersion: v1\n").context("the manifests begin with CRDs")?;
    let (crds, rest) = documents.split_at(first);
    let apply = ["apply", "--server-side", "-f", "-"];
    kubectl(plane, &apply, crds)?;
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    // Until a definition has a status at all, `kubectl wait` gives up at once.
    let established = (0..20).any(|_| kubectl(plane, &wait, "").is_ok());
    ensure!(established, "the definitions are not established");
    kubectl(plane, &apply, rest)
}

fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) -> anyhow::Result<()> {
    let mut child = Command::new(plane.program("kubectl"))
        .arg("--kubeconfig")
        .arg(plane.admin_kubeconfig())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("kubectl does not start")?;
    child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
    let status = child.wait()?;
    ensure!(status.success(), "kubectl {arguments:?} ended with {status}");
    Ok(())
}
