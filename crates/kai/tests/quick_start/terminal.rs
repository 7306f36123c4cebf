//! A user with kubectl, in the root of the repository, and their administrator.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kai_e2e::test_space::send;
use kai_testenv::{ControlPlane, Process, free_port};
use kube::Client;
use serde_json::{Value, json};

use crate::installation::KAI;

/// Longest wait for anything; on a busy machine everything takes many times longer than alone.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(200);
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A user and their cluster.
pub(crate) struct Terminal {
    kai: Option<Process>,
    plane: Arc<ControlPlane>,
    client: Client,
}

/// A line of `kubectl get pods`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    name: String,
    ready: String,
    status: String,
}

impl From<(&str, &str, &str)> for Line {
    fn from((name, ready, status): (&str, &str, &str)) -> Self {
        Self { name: name.to_owned(), ready: ready.to_owned(), status: status.to_owned() }
    }
}

impl Terminal {
    pub(crate) fn new(plane: Arc<ControlPlane>, client: Client) -> Self {
        Self { kai: None, plane, client }
    }

    /// What the GPU operator does: a runtime class, and a node with labels.
    pub(crate) async fn add_node(&self, name: &str, gpus: &str) -> anyhow::Result<()> {
        let class = json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"});
        self.post("/apis/node.k8s.io/v1/runtimeclasses", &class).await?;
        let labels = json!({
            "kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-L4-SHARED",
            "nvidia.com/gpu.count": gpus, "nvidia.com/gpu.memory": "23034", "nvidia.com/gpu.present": "true",
        });
        self.post("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}})).await?;
        let amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": gpus});
        let ready = json!({"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastHeartbeatTime": null, "lastTransitionTime": null});
        let status =
            json!({"status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}});
        let path = format!("/api/v1/nodes/{name}/status");
        send(&self.client, "PATCH", &path, "application/merge-patch+json", &status).await?;
        let taints = json!({"spec": {"taints": null}});
        let path = format!("/api/v1/nodes/{name}");
        send(&self.client, "PATCH", &path, "application/merge-patch+json", &taints).await?;
        Ok(())
    }

    async fn post(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        send(&self.client, "POST", path, "application/json", object).await?;
        Ok(())
    }

    /// Installs or upgrades: `kai` in one process, admission with it, and these settings.
    pub(crate) async fn install(&mut self, settings: &[&str]) -> anyhow::Result<()> {
        self.kai = None;
        let port = free_port()?;
        let kubeconfig = self.plane.account_kubeconfig("kai-scheduler", "kai").await?;
        let kubeconfig = kubeconfig.to_string_lossy();
        let (address, url) =
            (format!("--webhook-addr={port}"), format!("--webhook-url=https://127.0.0.1:{port}"));
        let silent =
            ["--listen-address=0", "--health-probe-bind-address=0", "--plugin-server-port=0"];
        let own = ["run", "--kubeconfig", &kubeconfig, &address, &url];
        let all = [&own[..], &silent, settings].concat();
        let quiet = std::env::var_os("KAI_TEST_LOG").is_none();
        let log = quiet.then_some(Path::new("/dev/null"));
        self.kai = Some(Process::start(Path::new(KAI), &all, log, None)?);
        self.until("admission answers", || {
            let probe = self.run("create -f docs/priority/example/train-priority-pod.yaml --dry-run=server --namespace default")?;
            Ok(probe.status.success())
        })
    }

    fn run(&self, line: &str) -> anyhow::Result<Output> {
        let mut command = Command::new(self.plane.program("kubectl"));
        command.current_dir(ROOT).arg("--kubeconfig").arg(self.plane.admin_kubeconfig());
        if !line.contains("--namespace") && !line.contains(" -n ") {
            command.args(["--namespace", "sandbox"]);
        }
        command.args(line.split(' ')).output().with_context(|| format!("kubectl {line}"))
    }

    /// What a command prints; it must succeed.
    pub(crate) fn kubectl(&self, line: &str) -> anyhow::Result<String> {
        let output = self.run(line)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {line}: {complaint}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Why a command fails; it must.
    pub(crate) fn denied(&self, line: &str) -> anyhow::Result<String> {
        let output = self.run(line)?;
        ensure!(!output.status.success(), "kubectl {line}: it was accepted");
        Ok(String::from_utf8(output.stderr)?)
    }

    /// The lines that `kubectl get pods` prints, without the time.
    pub(crate) fn pods(&self, line: &str) -> anyhow::Result<Vec<Line>> {
        let printed = self.kubectl(&format!("{line} --no-headers"))?;
        let line = |line: &str| {
            let mut columns = line.split_whitespace().map(str::to_owned);
            let mut next = || columns.next().unwrap_or_default();
            Line { name: next(), ready: next(), status: next() }
        };
        Ok(printed.lines().map(line).collect())
    }

    /// Looks again and again until something is so.
    pub(crate) fn until(
        &self,
        what: &str,
        is_so: impl Fn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        while !is_so()? {
            let state = || self.kubectl("get pods -o wide").unwrap_or_default();
            ensure!(started.elapsed() < PATIENCE, "still waiting: {what}\n{}", state());
            wait();
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a user looks again after a while")]
fn wait() {
    std::thread::sleep(POLL);
}
