//! KAI's end-to-end cases on a real API server, with the rights that are shipped, and once more on one that can less.
//! `KAI_E2E=TEXT` runs only cases whose `suite: name` contains the text; `KAI_TEST_LOG=1` shows what `kai` logs.

mod agent;
#[path = "../cluster/installation.rs"]
mod installation;
mod installed;
#[path = "../cluster/kubelet_socket.rs"]
mod kubelet_socket;
mod real;
mod rights;
#[allow(dead_code, reason = "shared with the tests of single functions")]
#[path = "../cluster/sharing.rs"]
mod sharing;
#[allow(dead_code, reason = "shared with the tests of single functions")]
#[path = "../cluster/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use kai_e2e::cases::{self, Case};
use kai_e2e::cluster::Cluster;
use kai_e2e::run::Outcome;
use kai_e2e::{kubelet, run, suites};
use kai_testenv::{Audit, ControlPlane, Impossible};
use kube::Client;
use real::Real;
use rights::Act;
use tokio::sync::{Mutex, OnceCell};

/// Each case has a `kai` of its own; more at once only wait for each other.
const AT_ONCE: usize = 6;
/// The list is played on one server at a time, for the same reason.
static TURN: Mutex<()> = Mutex::const_new(());

/// A server as Kubernetes before 1.34 has it: it streams no lists and knows no device claims.
const CAN_LESS: [&str; 2] =
    ["--feature-gates=WatchList=false", "--runtime-config=resource.k8s.io/v1=false"];

/// Cases that an older version of Kubernetes cannot play, with the reason.
const TOO_OLD: [(&str, &str, &[&str]); 2] = [
    (
        "1.34",
        "counters in a slice of their own, which this server rejects",
        &[
            "DRA: a GPU and its partitions are not given at once",
            "DRA: devices of an incomplete pool wait for the rest",
        ],
    ),
    (
        "1.30",
        "this server removes claims from pods, which run without: DynamicResourceAllocation is off before 1.34",
        &[
            "no DRA: a pod with a claim waits",
            "no DRA: a pod with a claim from a template waits",
            "no DRA: a gang of which one has a claim waits",
        ],
    ),
];

/// Groups of our accounts, whose requests are recorded.
const OWN_GROUPS: [&str; 3] = [
    "system:serviceaccounts:kai-scheduler",
    "system:serviceaccounts:kai-resource-reservation",
    "system:serviceaccounts:kai-scale-adjust",
];

/// A server with everything installed, and what our accounts ask of it.
pub(crate) struct Site {
    pub(crate) plane: Arc<ControlPlane>,
    audit: Audit,
}

impl Site {
    async fn new(arguments: &[&str]) -> Result<Self, Impossible> {
        let audit = Audit::new(&OWN_GROUPS).expect("an audit log");
        let recorded = audit.arguments();
        let all = [&recorded.each_ref().map(String::as_str)[..], arguments].concat();
        Ok(Self { plane: installation::plane_with(&all).await?, audit })
    }

    fn acts(&self) -> BTreeSet<Act> {
        let requests = self.audit.requests().expect("the audit log");
        requests.iter().filter_map(Act::of).collect()
    }
}

/// How a list went, and what our accounts did meanwhile.
struct Played {
    outcomes: Vec<Outcome>,
    acts: BTreeSet<Act>,
}

static SITE: OnceCell<Result<Site, Impossible>> = OnceCell::const_new();
static LIST: OnceCell<Option<Played>> = OnceCell::const_new();
static LIST_ON_LESS: OnceCell<Option<Played>> = OnceCell::const_new();

/// The server that the list and the agent of a node share.
pub(crate) async fn site() -> Result<&'static Site, &'static Impossible> {
    SITE.get_or_init(|| Site::new(&[])).await.as_ref()
}

#[tokio::test]
async fn kais_end_to_end_cases() {
    assert_passed(list().await);
}

#[tokio::test]
async fn kais_end_to_end_cases_on_a_server_that_can_less() {
    assert_passed(list_on_less().await);
}

/// Every account of the usual installation, beside what it did over both lists, as the agent of a node, and in an installation as
/// it is shipped.
#[tokio::test]
async fn no_account_has_a_right_that_nothing_used() {
    if !wanted().is_empty() {
        return installation::print_past_harness(
            "SKIPPED the test of unused rights: KAI_E2E names some cases\n",
        );
    }
    let (Some(list), Some(less)) = (list().await, list_on_less().await) else { return };
    let Some(installed) = installed::played().await else { return };
    let agent = agent::played().await;
    let acts = [&list.acts, &less.acts, agent, installed].into_iter().flatten().cloned().collect();
    rights::compare(&acts);
}

fn assert_passed(played: Option<&Played>) {
    let Some(Played { outcomes, .. }) = played else { return };
    let failed = outcomes.iter().any(|outcome| outcome.failure.is_some());
    assert!(!failed, "{}", run::table(outcomes));
}

/// Plays the list once, whichever test asks first.
async fn list() -> Option<&'static Played> {
    let play_it = async || {
        let _turn = TURN.lock().await;
        let site = there(site().await, "KAI's end-to-end cases")?;
        let missing = suites::missing_table();
        let serves_claims = serves_claims(&site.plane.admin().await.expect("a client")).await;
        let (all, without_claims) = if serves_claims {
            (cases::all(), String::new())
        } else {
            let left_out = run::left_out(cases::WITHOUT_CLAIMS, &cases::with_claims());
            (cases::without_claims(), left_out)
        };
        let (playable, too_old) = playable(all);
        Some(play(site, playable, &format!("{missing}{without_claims}{too_old}")).await)
    };
    LIST.get_or_init(play_it).await.as_ref()
}

/// The cases that the chosen version of Kubernetes can play, and a text about the others.
fn playable(mut cases: Vec<Case>) -> (Vec<Case>, String) {
    let chosen = kai_testenv::chosen_minor().expect("a version that is pinned");
    let mut text = String::new();
    for (minor, why, names) in TOO_OLD {
        if chosen.as_deref() == Some(minor) {
            let others: Vec<Case> =
                cases.extract_if(.., |case| names.contains(&case.name)).collect();
            text.push_str(&run::left_out(why, &others));
        }
    }
    (cases, text)
}

/// The same on a server that can less.
async fn list_on_less() -> Option<&'static Played> {
    let play_it = async || {
        let _turn = TURN.lock().await;
        let site = Site::new(&CAN_LESS).await;
        let site = there(site, "KAI's end-to-end cases on a server that can less")?;
        can_less(&site.plane.admin().await.expect("a client")).await;
        let left_out = run::left_out(cases::WITHOUT_CLAIMS, &cases::with_claims());
        Some(play(&site, cases::without_claims(), &left_out).await)
    };
    LIST_ON_LESS.get_or_init(play_it).await.as_ref()
}

/// Text that names of cases must contain.
fn wanted() -> String {
    std::env::var("KAI_E2E").unwrap_or_default()
}

/// The server; where there can be none here, a message says so.
fn there<T, E: std::borrow::Borrow<Impossible>>(site: Result<T, E>, test: &str) -> Option<T> {
    site.map_err(|why| why.borrow().skip(test)).ok()
}

/// Servers before 1.34 serve no devices unless a flag enables them.
async fn serves_claims(client: &Client) -> bool {
    let request = http::Request::get("/apis/resource.k8s.io/v1").body(Vec::new());
    client.request_text(request.expect("a request")).await.is_ok()
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

/// Runs cases and prints their outcomes, after the list of cases that are not run here.
async fn play(site: &Site, mut cases: Vec<Case>, not_here: &str) -> Played {
    let plane = Arc::clone(&site.plane);
    let client = plane.admin().await.expect("a client");
    let kubelets = tokio::spawn(kubelet::play(client.clone()));
    let cluster: Arc<dyn Cluster> = Arc::new(Real { plane, client });
    let wanted = wanted();
    cases.retain(|case| format!("{}: {}", case.suite, case.name).contains(&wanted));
    let outcomes = run::run(&cluster, cases, AT_ONCE).await;
    kubelets.abort();
    let not_here = if wanted.is_empty() { not_here } else { "" };
    installation::print_past_harness(&format!("{not_here}{}", run::table(&outcomes)));
    Played { outcomes, acts: site.acts() }
}
