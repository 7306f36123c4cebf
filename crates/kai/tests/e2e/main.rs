//! KAI's end-to-end cases on a real API server, with the rights that are shipped. `KAI_E2E=TEXT` runs only cases whose
//! `suite: name` contains the text; `KAI_TEST_LOG=1` shows what `kai` logs.

mod agent;
#[path = "../cluster/installation.rs"]
mod installation;
#[path = "../cluster/kubelet_socket.rs"]
mod kubelet_socket;
mod real;

use std::sync::Arc;

use kai_e2e::cluster::Cluster;
use kai_e2e::{cases, kubelet, run};
use real::Real;

/// Each case has a `kai` of its own; more at once only wait for each other.
const AT_ONCE: usize = 6;

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
