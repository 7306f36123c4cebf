//! KAI's end-to-end cases on a real API server, with the rights that are shipped, and once more on one that can less.
//! `KAI_E2E=TEXT` runs only cases whose `suite: name` contains the text; `KAI_TEST_LOG=1` shows what `kai` logs.

mod agent;
#[path = "../cluster/installation.rs"]
mod installation;
#[path = "../cluster/kubelet_socket.rs"]
mod kubelet_socket;
mod real;

use std::sync::Arc;

use kai_e2e::cases::{self, Case};
use kai_e2e::cluster::Cluster;
use kai_e2e::{kubelet, run, suites};
use kai_testenv::{ControlPlane, Impossible};
use kube::Client;
use real::Real;
use tokio::sync::Mutex;

/// Each case has a `kai` of its own; more at once only wait for each other.
const AT_ONCE: usize = 6;
/// The list is played on one server at a time, for the same reason.
static TURN: Mutex<()> = Mutex::const_new(());

/// A server as Kubernetes before 1.34 has it: it streams no lists and knows no device claims.
const CAN_LESS: [&str; 2] =
    ["--feature-gates=WatchList=false", "--runtime-config=resource.k8s.io/v1=false"];

#[tokio::test]
async fn kais_end_to_end_cases() {
    let _turn = TURN.lock().await;
    let plane = installation::plane().await;
    let Some(plane) = there(plane.cloned(), "KAI's end-to-end cases") else { return };
    let not_here = suites::missing_table();
    play(plane, cases::all(), &not_here).await;
}

#[tokio::test]
async fn kais_end_to_end_cases_on_a_server_that_can_less() {
    let _turn = TURN.lock().await;
    let plane = installation::plane_with(&CAN_LESS).await;
    let Some(plane) = there(plane, "KAI's end-to-end cases on a server that can less") else {
        return;
    };
    can_less(&plane.admin().await.expect("a client")).await;
    let left_out = run::left_out(cases::WITHOUT_CLAIMS, &cases::with_claims());
    play(plane, cases::without_claims(), &left_out).await;
}

/// The control plane; where there can be none here, that is told.
fn there<E: std::borrow::Borrow<Impossible>>(
    plane: Result<Arc<ControlPlane>, E>,
    test: &str,
) -> Option<Arc<ControlPlane>> {
    plane.map_err(|why| why.borrow().skip(test)).ok()
}

/// Otherwise the second run would only repeat the first.
async fn can_less(client: &Client) {
    let code = async |path: &str| {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        match client.request_text(request).await {
            Err(kube::Error::Api(status)) => status.code,
            other => panic!("{path}: {other:?}"),
        }
    };
    assert_eq!(code("/apis/resource.k8s.io/v1").await, 404);
    let streamed =
        "/api/v1/nodes?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(code(&format!("{streamed}&allowWatchBookmarks=true")).await, 422);
}

/// Plays cases and tells how they went, after what is not here.
async fn play(plane: Arc<ControlPlane>, mut cases: Vec<Case>, not_here: &str) {
    let client = plane.admin().await.expect("a client");
    let kubelets = tokio::spawn(kubelet::play(client.clone()));
    let cluster: Arc<dyn Cluster> = Arc::new(Real { plane, client });
    let wanted = std::env::var("KAI_E2E").unwrap_or_default();
    cases.retain(|case| format!("{}: {}", case.suite, case.name).contains(&wanted));
    let outcomes = run::run(&cluster, cases, AT_ONCE).await;
    kubelets.abort();
    let table = run::table(&outcomes);
    let not_here = if wanted.is_empty() { not_here } else { "" };
    installation::tell(&format!("{not_here}{table}"));
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()), "{table}");
}
