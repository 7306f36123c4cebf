//! The real thing: etcd, API server and controllers, and `kai` as a process with the rights it is shipped with.

use std::path::Path;
use std::sync::Arc;

use kai_e2e::cluster::{Answer, Cluster, Running};
use kai_testenv::{ControlPlane, Process};
use kube::Client;

use crate::installation::KAI;

/// A real API server as the cluster of the cases.
pub(crate) struct Real {
    pub(crate) plane: Arc<ControlPlane>,
    pub(crate) client: Client,
}

impl Real {
    /// Starts `kai` as an account of the installation.
    pub(crate) async fn start(&self, account: &str, arguments: &[&str]) -> anyhow::Result<Process> {
        let kubeconfig = self.plane.account_kubeconfig("kai-scheduler", account).await?;
        let kubeconfig = kubeconfig.to_string_lossy().into_owned();
        let all = [arguments, &["--kubeconfig", &kubeconfig]].concat();
        let quiet = std::env::var_os("KAI_TEST_LOG").is_none();
        let log = quiet.then_some(Path::new("/dev/null"));
        Process::start(Path::new(KAI), &all, log, None)
    }
}

impl Cluster for Real {
    fn client(&self) -> Client {
        self.client.clone()
    }

    fn start_kai<'a>(&'a self, arguments: &'a [String]) -> Answer<'a, anyhow::Result<Running>> {
        Box::pin(async move {
            // Many run on this machine: they listen nowhere.
            let silent = ["listen-address", "health-probe-bind-address", "plugin-server-port"];
            let silent = silent.map(|flag| format!("--{flag}=0"));
            let mut all = vec!["run"];
            all.extend(silent.iter().chain(arguments).map(String::as_str));
            // Admission has a process and an account of its own.
            let account = if all.contains(&"admission") { "admission" } else { "kai" };
            Ok(Box::new(self.start(account, &all).await?) as Running)
        })
    }
}
