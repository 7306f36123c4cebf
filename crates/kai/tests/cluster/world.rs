//! A cluster for one test: a namespace, a scheduler name and a node pool of its own on the shared API server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use kai_e2e::test_space::send;
use kai_testenv::{ControlPlane, Process, free_port, objects};
use kube::Client;
use serde_json::{Value, json};

use crate::installation::{KAI, new_plane, plane};

/// Longest wait for anything; on a busy machine everything takes many times longer than alone.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// A cluster for one test.
pub(crate) struct World {
    // Ended in this order.
    kai: Vec<Process>,
    plane: Arc<ControlPlane>,
    pub(crate) client: Client,
    /// Namespace and scheduler name.
    pub(crate) name: &'static str,
    /// Our node pool; none: the cluster is ours.
    pub(crate) pool: Option<&'static str>,
    /// Where `kai` logs to; none: nowhere.
    log: Option<PathBuf>,
}

impl World {
    /// A new one, with a queue of this name; none where there is no control plane.
    pub(crate) async fn new(name: &'static str) -> Option<Self> {
        let plane = plane().await.map_err(|why| why.skip(name)).ok()?;
        Some(Self::on(Arc::clone(plane), name, Some(name)).await)
    }

    /// One on this control plane, with this node pool; none: the cluster is ours.
    pub(crate) async fn on(
        plane: Arc<ControlPlane>,
        name: &'static str,
        pool: Option<&'static str>,
    ) -> Self {
        let client = plane.admin().await.expect("a client");
        let world = Self { kai: Vec::new(), plane, client, name, pool, log: None };
        world.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        world.wait("the default account", async || world.get(&account).await.is_some()).await;
        world
    }

    /// One with a control plane of its own, for what concerns a whole cluster.
    pub(crate) async fn alone(name: &'static str) -> Option<Self> {
        let plane = new_plane().await.map_err(|why| why.skip(name)).ok()?;
        Some(Self::on(plane, name, None).await)
    }

    /// Starts `kai run` as a service account of the installation.
    pub(crate) async fn start_kai(&mut self, account: &str, arguments: &[&str]) {
        let kubeconfig = self.kubeconfig(account).await;
        let kubeconfig = kubeconfig.to_str().expect("a path");
        let pool = self.pool.map(|pool| ["--partition-label-value", pool]);
        let pool = pool.as_ref().map_or(&[][..], <[&str; 2]>::as_slice);
        let named = ["--scheduler-name", self.name, "--resource-reservation-app-label", self.name];
        let own = [&named, pool].concat();
        // Many run on this machine: processes that serve no requests of the test open no port.
        let listens = |flag: &&str| !arguments.iter().any(|given| given.starts_with(*flag));
        let silent = ["--listen-address", "--health-probe-bind-address", "--plugin-server-port"];
        let silent: Vec<String> =
            silent.iter().filter(|flag| listens(flag)).map(|flag| format!("{flag}=0")).collect();
        let silent: Vec<&str> = silent.iter().map(String::as_str).collect();
        let all =
            [&["run", "--kubeconfig", kubeconfig], own.as_slice(), silent.as_slice(), arguments]
                .concat();
        let quiet = std::env::var_os("KAI_TEST_LOG").is_none();
        let nowhere = quiet.then_some(Path::new("/dev/null"));
        let log = self.log.as_deref().or(nowhere);
        self.kai.push(Process::start(Path::new(KAI), &all, log, None).expect("kai starts"));
    }

    /// Starts it with webhooks that the API server asks, and waits until it is registered.
    pub(crate) async fn start_admitting(&mut self, account: &str, arguments: &[&str]) {
        let port = free_port().expect("a port");
        let (addr, url) =
            (format!("--webhook-addr={port}"), format!("--webhook-url=https://127.0.0.1:{port}"));
        let all = [&[addr.as_str(), url.as_str()], arguments].concat();
        self.start_kai(account, &all).await;
        let registration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kai-podgroup-validation-v2alpha2";
        self.wait("admission is registered", async || self.get(registration).await.is_some()).await;
    }

    /// From now on `kai` logs to a file.
    pub(crate) fn log_to(&mut self, file: &Path) {
        self.log = Some(file.to_owned());
    }

    /// What `kai explain` says as a service account.
    pub(crate) async fn explain(&self, account: &str, arguments: &[&str]) -> String {
        let kubeconfig = self.kubeconfig(account).await;
        let mut command = Command::new(KAI);
        command.arg("explain").args(arguments).args(["-n", self.name]);
        command.arg("--kubeconfig").arg(kubeconfig).args(["--scheduler-name", self.name]);
        if let Some(pool) = self.pool {
            command.args(["--partition-label-value", pool]);
        }
        let output = command.output().expect("it runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    }

    /// The kubeconfig of a service account of the installation.
    pub(crate) async fn kubeconfig(&self, account: &str) -> PathBuf {
        self.plane.account_kubeconfig("kai-scheduler", account).await.expect("a token")
    }

    /// A call of `kubectl` that may do everything.
    pub(crate) fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.plane.program("kubectl"));
        command.arg("--kubeconfig").arg(self.plane.admin_kubeconfig()).args(arguments);
        command
    }

    /// Kills the API server, which must be ours alone, and starts it again.
    pub(crate) async fn restart_server(&self) {
        self.plane.kill_server();
        self.plane.start_server_again().await.expect("it starts again");
    }

    /// Makes the store of the API server, which must be ours alone, forget everything that was before now.
    pub(crate) fn compact_store(&self) {
        self.plane.compact_store().expect("etcd compacts");
    }

    /// The kubeconfig of any service account.
    pub(crate) async fn account_kubeconfig(&self, namespace: &str, account: &str) -> PathBuf {
        self.plane.account_kubeconfig(namespace, account).await.expect("a token")
    }

    /// What a verb of `kai` prints as a service account of the installation.
    pub(crate) async fn kai(&self, verb: &str, account: &str, arguments: &[&str]) -> String {
        let kubeconfig = self.kubeconfig(account).await;
        let mut command = Command::new(KAI);
        command.arg(verb).arg("--kubeconfig").arg(kubeconfig).args(arguments);
        let output = command.output().expect("it runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    }

    /// What `kubectl` prints as an administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.kubectl_command(arguments).output().expect("it runs").stdout)
            .expect("text")
    }

    /// Kills `kai` as a crash would.
    pub(crate) fn kill_kai(&mut self) {
        self.kai.clear();
    }

    /// Kills the one that was started first.
    pub(crate) fn kill_first_kai(&mut self) {
        self.kai.remove(0);
    }

    fn pool(&self) -> Value {
        match self.pool {
            Some(pool) => json!({"kai.scheduler/node-pool": pool}),
            None => json!({}),
        }
    }

    /// A ready node of our pool.
    pub(crate) async fn node(&self, name: &str, allocatable: Value) {
        let name = format!("{}-{name}", self.name);
        let object = json!({"metadata": {"name": name, "labels": self.pool()}});
        self.create("/api/v1/nodes", &object).await;
        let path = format!("/api/v1/nodes/{name}");
        let status = json!({"status": objects::ready_node_status(&allocatable)});
        self.patch(&format!("{path}/status"), &status).await;
        self.patch(&path, &json!({"spec": {"taints": null}})).await;
    }

    /// A leaf queue of our pool. Amounts of memory are not limited.
    pub(crate) async fn queue(&self, name: &str, cpu: Value, gpu: Value) {
        let mut object = objects::queue(&self.queue_name(name), &gpu);
        object["metadata"]["labels"] = self.pool();
        object["spec"]["resources"]["cpu"] = cpu;
        self.create("/apis/scheduling.run.ai/v2/queues", &object).await;
    }

    /// Queues are not in namespaces: their names must differ between tests.
    pub(crate) fn queue_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// A pod with these labels that asks for `requests`.
    pub(crate) fn pod(&self, name: &str, labels: &[(&str, &str)], requests: &Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": self.name, "labels": self.pool()},
            "spec": {
                "schedulerName": self.name,
                "containers": [{"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}],
            },
        });
        for (key, value) in labels {
            pod["metadata"]["labels"][key] = json!(value);
        }
        pod
    }

    pub(crate) async fn create_pod(&self, pod: &Value) {
        self.create(&format!("/api/v1/namespaces/{}/pods", self.name), pod).await;
    }

    /// A pod as it is now.
    pub(crate) async fn see_pod(&self, name: &str) -> Option<Value> {
        self.get(&format!("/api/v1/namespaces/{}/pods/{name}", self.name)).await
    }

    /// The node of a pod.
    pub(crate) async fn node_of(&self, name: &str) -> Option<String> {
        self.see_pod(name).await?["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    /// Waits until the pod has a node.
    pub(crate) async fn wait_bound(&self, name: &str) -> String {
        self.wait(&format!("{name} is bound"), async || self.node_of(name).await.is_some()).await;
        self.node_of(name).await.expect("a node")
    }

    /// Items of a list in our namespace.
    pub(crate) async fn list(&self, api: &str, plural: &str) -> Vec<Value> {
        let list =
            self.get(&format!("{api}/namespaces/{}/{plural}", self.name)).await.expect("a list");
        list["items"].as_array().cloned().expect("items")
    }

    /// Pod groups of our namespace.
    pub(crate) async fn pod_groups(&self) -> Vec<Value> {
        self.list("/apis/scheduling.run.ai/v2alpha2", "podgroups").await
    }

    /// Pod group of a workload. Others may have one too: pods that wait for a few seconds get groups of their own, and on a busy
    /// machine every pod may wait that long.
    pub(crate) async fn group_of(&self, workload: &str) -> Option<Value> {
        let prefix = format!("pg-{workload}-");
        let is_its = |group: &Value| {
            group["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&prefix))
        };
        self.pod_groups().await.into_iter().find(is_its)
    }

    /// Waits until something is so.
    pub(crate) async fn wait(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let started = Instant::now();
        while !is_so().await {
            assert!(started.elapsed() < PATIENCE, "{}: still waiting: {what}", self.name);
            tokio::time::sleep(POLL).await;
        }
    }

    /// Watches for a while that something stays so.
    pub(crate) async fn stays(
        &self,
        what: &str,
        span: Duration,
        mut is_so: impl AsyncFnMut() -> bool,
    ) {
        let started = Instant::now();
        while started.elapsed() < span {
            assert!(is_so().await, "{}: no longer: {what}", self.name);
            tokio::time::sleep(POLL).await;
        }
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        self.send("POST", path, "application/json", object).await.expect(path)
    }

    pub(crate) async fn try_create(
        &self,
        path: &str,
        object: &Value,
    ) -> Result<Value, kube::Error> {
        self.send("POST", path, "application/json", object).await
    }

    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Value {
        self.send("PATCH", path, "application/merge-patch+json", patch).await.expect(path)
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) {
        self.send("DELETE", path, "application/json", options).await.expect(path);
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let ended = self.send("GET", path, "application/json", &Value::Null).await;
        match ended {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        send(&self.client, method, path, kind, body).await
    }
}
