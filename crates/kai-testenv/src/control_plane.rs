//! The running control plane.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::binaries::{Binaries, Build, server_arguments};
use crate::ports::free_port;
use crate::process::Process;
use crate::{certificates, kubeconfig, store};

/// Starting takes seconds; on a busy machine many.
const PATIENCE: Duration = Duration::from_mins(2);
/// Every kubeconfig has a name of its own.
static KUBECONFIGS: AtomicU32 = AtomicU32::new(0);
const POLL: Duration = Duration::from_millis(100);

/// User of a client of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Programs of this machine, on a free port. Nodes are only objects.
    Programs,
    /// Real nodes and pods of a [sandbox](crate::sandbox), too: at the service address 10.0.0.1:443.
    Pods,
}

/// A running control plane. Everything of it ends when this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    /// Ended in this order; the last takes the folder with it.
    _manager: Process,
    server: Mutex<Option<Process>>,
    _store: Process,
    plan: ServerPlan,
    folder: PathBuf,
    url: String,
    admin: PathBuf,
    binaries: Binaries,
}

/// How its API server is started, at first and again.
#[derive(Debug)]
struct ServerPlan {
    /// Client port of etcd.
    store: u16,
    port: u16,
    reach: Reach,
    /// Arguments that only this one has.
    more: Vec<String>,
}

/// Why there can be no control plane here.
#[derive(Clone, Debug)]
pub struct Impossible(pub(crate) String);

impl Impossible {
    /// Says loudly that a test was skipped, past the test harness, which would swallow it.
    pub fn skip(&self, test: &str) {
        let line = format!("SKIPPED {test}: {}\n", self.0);
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

impl ControlPlane {
    /// Starts one; the reason where it cannot be built here.
    pub async fn start() -> anyhow::Result<Result<Self, Impossible>> {
        Self::start_with(&[]).await
    }

    /// Starts one whose API server has these further arguments.
    pub async fn start_with(arguments: &[&str]) -> anyhow::Result<Result<Self, Impossible>> {
        match Binaries::ready()? {
            Build::Ready(binaries) => Self::of(binaries, Reach::Programs, arguments).await.map(Ok),
            Build::Impossible(why) => Ok(Err(Impossible(why))),
        }
    }

    /// Starts one inside a sandbox, where nothing can be built any more.
    pub async fn start_for_nodes() -> anyhow::Result<Self> {
        match Binaries::with_nodes()? {
            Build::Ready(binaries) => Self::of(binaries, Reach::Pods, &[]).await,
            Build::Impossible(why) => bail!("no control plane: {why}"),
        }
    }

    async fn of(binaries: Binaries, reach: Reach, more: &[&str]) -> anyhow::Result<Self> {
        let folder = new_folder()?;
        let path = folder.as_path();
        certificates::write(path)?;
        let (clients, peers, manager) = (free_port()?, free_port()?, free_port()?);
        let api = match reach {
            Reach::Programs => free_port()?,
            Reach::Pods => 443,
        };
        let more = more.iter().map(|&argument| argument.to_owned()).collect();
        let plan = ServerPlan { store: clients, port: api, reach, more };
        let store = start_store(&binaries, path, clients, peers)?;
        let mut server = start_server(&binaries, path, &plan)?;
        let url = format!("https://127.0.0.1:{api}");
        let user = json!({"client-certificate": path.join("admin.crt"), "client-key": path.join("admin.key")});
        let admin = kubeconfig::write(path, path, "admin", &url, &user)?;
        let all = client(&admin).await?;
        wait_until_ready(&all, &mut server, path).await?;
        if reach == Reach::Pods {
            let _: ClusterRoleBinding =
                Api::all(all).create(&PostParams::default(), &rights_of_nodes()?).await?;
        }
        let manager = start_manager(&binaries, path, &admin, manager, reach)?;
        let server = Mutex::new(Some(server));
        Ok(Self { _manager: manager, server, _store: store, plan, folder, url, admin, binaries })
    }

    /// Kills the API server.
    pub fn kill_server(&self) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts the API server again. Its watch cache is empty: earlier watches get 410 and must list again.
    pub async fn start_server_again(&self) -> anyhow::Result<()> {
        let mut server = start_server(&self.binaries, &self.folder, &self.plan)?;
        wait_until_ready(&self.admin().await?, &mut server, &self.folder).await?;
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(())
    }

    /// Makes etcd forget everything that was before now. A watch from an earlier moment is answered that it is gone,
    /// by an API server without a watch cache at once, by others after a restart.
    pub fn compact_store(&self) -> anyhow::Result<()> {
        let now = store::revision(self.plan.store)?;
        store::compact(self.plan.store, now)
    }

    /// A kubeconfig that may do everything.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// A client that may do everything.
    pub async fn admin(&self) -> anyhow::Result<Client> {
        client(&self.admin).await
    }

    /// The path of a program, such as `kubectl`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.binaries.path(name)
    }

    /// Everything of it is here.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Writes a kubeconfig into a folder.
    pub(crate) fn kubeconfig(
        &self,
        folder: &Path,
        name: &str,
        user: &Value,
    ) -> anyhow::Result<PathBuf> {
        kubeconfig::write(&self.folder, folder, name, &self.url, user)
    }

    /// A kubeconfig of a service account, which must exist.
    pub async fn account_kubeconfig(
        &self,
        namespace: &str,
        account: &str,
    ) -> anyhow::Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, namespace);
        let request = TokenRequest::default();
        let made = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        let token = made.status.context("the API server made no token")?.token;
        let name = format!("{account}-{}", KUBECONFIGS.fetch_add(1, Ordering::Relaxed));
        self.kubeconfig(&self.folder, &name, &json!({"token": token}))
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

fn new_folder() -> anyhow::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kai-control-plane-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // Left by a process that had this number before us, and was killed with all that clean up after it.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot create {}", path.display()));
            }
        }
    }
}

fn start_store(
    binaries: &Binaries,
    folder: &Path,
    clients: u16,
    peers: u16,
) -> anyhow::Result<Process> {
    let clients = format!("http://127.0.0.1:{clients}");
    let peers = format!("http://127.0.0.1:{peers}");
    let arguments = [
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--unsafe-no-fsync".to_owned(),
    ];
    Process::start(&binaries.path("etcd"), &arguments, Some(&folder.join("etcd.log")), Some(folder))
}

fn start_server(binaries: &Binaries, folder: &Path, plan: &ServerPlan) -> anyhow::Result<Process> {
    let ServerPlan { store, port, reach, more } = plan;
    let file = |name: &str| folder.join(name).display().to_string();
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{store}"),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("accounts.pub")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    match reach {
        Reach::Programs => arguments.push("--bind-address=127.0.0.1".to_owned()),
        Reach::Pods => arguments.extend([
            "--bind-address=0.0.0.0".to_owned(),
            "--advertise-address=10.0.0.2".to_owned(), // required, and not used
            format!("--kubelet-client-certificate={}", file("admin.crt")),
            format!("--kubelet-client-key={}", file("admin.key")),
            format!("--kubelet-certificate-authority={}", file("ca.crt")),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            // Webhooks are reached at the addresses of their pods: no route leads to addresses of Services.
            "--enable-aggregator-routing=true".to_owned(),
        ]),
    }
    arguments.extend(more.iter().cloned());
    arguments.extend(server_arguments()?.iter().map(|&one| one.to_owned()));
    // Such as --feature-gates=WatchList=false or --runtime-config=resource.k8s.io/v1=false.
    let given = std::env::var("KAI_TEST_APISERVER").unwrap_or_default();
    arguments.extend(given.split_whitespace().map(str::to_owned));
    Process::start(
        &binaries.path("kube-apiserver"),
        &arguments,
        Some(&folder.join("server.log")),
        None,
    )
}

fn start_manager(
    binaries: &Binaries,
    folder: &Path,
    admin: &Path,
    port: u16,
    reach: Reach,
) -> anyhow::Result<Process> {
    let file = |name: &str| folder.join(name).display().to_string();
    // Nodes that are only objects send no leases.
    let controllers = match reach {
        Reach::Programs => "*,-nodelifecycle",
        Reach::Pods => "*",
    };
    let arguments = [
        format!("--kubeconfig={}", admin.display()),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", file("manager")),
        "--use-service-account-credentials".to_owned(),
        format!("--service-account-private-key-file={}", file("accounts.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        "--leader-elect=false".to_owned(),
        format!("--controllers={controllers}"),
    ];
    let program = binaries.path("kube-controller-manager");
    Process::start(&program, &arguments, Some(&folder.join("manager.log")), None)
}

/// Nodes may do everything. The authorizer for nodes lags behind a pod's binding by a moment; a kubelet that is denied then
/// comes back only seconds later.
fn rights_of_nodes() -> anyhow::Result<ClusterRoleBinding> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }))?)
}

async fn wait_until_ready(
    client: &Client,
    server: &mut Process,
    folder: &Path,
) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let request = http_get("/readyz")?;
        if client.request_text(request).await.is_ok_and(|answer| answer == "ok") {
            return Ok(());
        }
        if server.has_ended() || started.elapsed() > PATIENCE {
            let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            bail!("the API server does not become ready:\n{}", tail.join("\n"));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn http_get(path: &str) -> anyhow::Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}
