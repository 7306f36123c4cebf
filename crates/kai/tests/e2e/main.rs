//! KAI's end-to-end cases on a real API server, with the rights that are shipped. `KAI_E2E=TEXT` runs only cases whose
//! `suite: name` contains the text; `KAI_TEST_LOG=1` shows what `kai` logs.

#[path = "../cluster/installation.rs"]
mod installation;

use std::path::Path;
use std::sync::Arc;

use kai_e2e::cluster::{Answer, Cluster, Running};
use kai_e2e::{cases, kubelet, run};
use kai_testenv::{ControlPlane, Process};
use kube::Client;

/// Each case has a `kai` of its own; more at once only wait for each other.
const AT_ONCE: usize = 6;

/// The real thing.
struct Real {
    plane: &'static ControlPlane,
    client: Client,
}

impl Cluster for Real {
    fn client(&self) -> Client {
        self.client.clone()
    }

    fn start_kai<'a>(&'a self, arguments: &'a [String]) -> Answer<'a, anyhow::Result<Running>> {
        Box::pin(async move {
            let kubeconfig = self.plane.account_kubeconfig("kai-scheduler", "kai").await?;
            let kubeconfig = kubeconfig.to_string_lossy().into_owned();
            let mut all = vec!["run".to_owned(), "--kubeconfig".to_owned(), kubeconfig];
            // Many run on this machine: they listen nowhere.
            let silent = ["listen-address", "health-probe-bind-address", "plugin-server-port"];
            all.extend(silent.map(|flag| format!("--{flag}=0")));
            all.extend(arguments.iter().cloned());
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let quiet = std::env::var_os("KAI_TEST_LOG").is_none();
            let log = quiet.then_some(Path::new("/dev/null"));
            let kai = Process::start(Path::new(installation::KAI), &all, log, None)?;
            Ok(Box::new(kai) as Running)
        })
    }
}

#[tokio::test]
async fn kais_end_to_end_cases() {
    let plane = match installation::plane().await {
        Ok(plane) => plane,
        Err(why) => return why.skip("KAI's end-to-end cases"),
    };
    let client = plane.admin().await.expect("a client");
    let kubelets = tokio::spawn(kubelet::play(client.clone()));
    let cluster: Arc<dyn Cluster> = Arc::new(Real { plane, client });
    let wanted = std::env::var("KAI_E2E").unwrap_or_default();
    let mut cases = cases::all();
    cases.retain(|case| format!("{}: {}", case.suite, case.name).contains(&wanted));
    let outcomes = run::run(&cluster, cases, AT_ONCE).await;
    kubelets.abort();
    let table = run::table(&outcomes);
    let told = if wanted.is_empty() { run::whole_table(&outcomes) } else { table.clone() };
    installation::tell(&told);
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()), "{table}");
}
