//! Panics that tests cause: in a change, in a cycle, in an attempt to group a pod and in the handler of a request. Each is caught,
//! counted in its metric, and everything else goes on.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use http_body_util::Full;
use kai_client::env::{Clock, TokioSpawner, Work, duration};
use kai_core::time::Span;
use kai_serve::http::{Asked, Limits, Plain, serve, text};
use kai_serve::request_metrics::RequestMetrics;
use kai_settings::planner::Settings;
use kube::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

use super::*;
use crate::serve::Question;

/// Where a pod makes the process panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Change,
    Cycle,
    /// A cycle while the binder of this process is about a bind.
    CycleDuringBind,
    Grouping,
}

thread_local! {
    static FAULT: Cell<Option<(Stage, &'static str)>> = const { Cell::new(None) };
}

/// The pod that makes this stage panic.
fn faulty(stage: Stage) -> Option<&'static str> {
    FAULT.get().filter(|(at, _)| *at == stage).map(|(_, pod)| pod)
}

pub(super) fn trip_change(change: &Change) {
    let name = address(change).map(|(_, name)| name.name);
    let trips = faulty(Stage::Change).is_some_and(|pod| name.as_deref() == Some(pod));
    assert!(!trips, "as the test wants");
}

pub(super) fn trip_grouping(pod: &Pod) {
    assert_ne!(faulty(Stage::Grouping), Some(pod.metadata.name.as_str()), "as the test wants");
}

/// Makes a cycle panic after its first action, while it plans with a pod.
pub(super) struct CycleFault {
    trips: bool,
    milestones: Cell<u32>,
}

impl CycleFault {
    pub(super) fn of(planner: &Planner) -> Self {
        let knows = |pod: &str| planner.knows_pod(&ObjectName::new("a", pod));
        let trips = faulty(Stage::Cycle).is_some_and(knows)
            || faulty(Stage::CycleDuringBind).is_some_and(knows) && planner.has_local_binds();
        Self { trips, milestones: Cell::new(0) }
    }

    pub(super) fn trip(&self) {
        self.milestones.set(self.milestones.get() + 1);
        // The first call is the begin of the cycle, the second that of the first action.
        assert!(!(self.trips && self.milestones.get() == 3), "as the test wants");
    }
}

struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_nanos()).expect("a short test");
        Timestamp { nanos: 1_767_225_600_000_000_000 + passed }
    }

    fn sleep(&self, span: Span) -> Work {
        Box::pin(tokio::time::sleep(duration(span)))
    }

    fn uptime(&self) -> Span {
        Span { nanos: i64::try_from(self.0.elapsed().as_nanos()).expect("a short test") }
    }
}

const JOB: &str = "/apis/batch/v1/namespaces/a/jobs/j";

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "a", "uid": name, "labels": {"kai.scheduler/queue": "q"}, "resourceVersion": "1"},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Pending"},
    })
}

/// A pod whose group is found by its owner.
fn owned_pod(name: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": true}]);
    pod
}

/// A pod that shares a GPU, as admission leaves it.
fn half_gpu_pod(name: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["annotations"] =
        json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "shared"});
    pod
}

/// A pod that fits nowhere.
fn large_pod(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100");
    pod
}

/// The objects of a list.
fn listed(path: &str) -> Vec<Value> {
    let all = json!({"quota": 0, "limit": -1, "overQuotaWeight": 1});
    match path {
        "/api/v1/pods" if faulty(Stage::CycleDuringBind).is_some() => {
            vec![half_gpu_pod("half"), large_pod("worse")]
        }
        "/api/v1/pods" => vec![pod("good"), owned_pod("owned"), pod("worse")],
        "/api/v1/nodes" => vec![json!({
            "metadata": {"name": "n", "resourceVersion": "1"},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
        })],
        "/apis/scheduling.run.ai/v2/queues" => vec![
            json!({"metadata": {"name": "q", "resourceVersion": "1"}, "spec": {"resources": {"cpu": all, "gpu": all, "memory": all}}}),
        ],
        _ => Vec::new(),
    }
}

/// A single object, or what is served of a group; else a list.
fn served(path: &str) -> Value {
    match path {
        "/apis/batch/v1" => {
            let job = json!({"name": "jobs", "singularName": "job", "namespaced": true, "kind": "Job", "verbs": ["get"]});
            json!({"kind": "APIResourceList", "groupVersion": "batch/v1", "resources": [job]})
        }
        JOB => {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "a", "uid": "uid-j"}, "spec": {}})
        }
        "/api/v1/namespaces/a/pods/owned" => owned_pod("owned"),
        _ => json!({"metadata": {"resourceVersion": "1"}, "items": listed(path)}),
    }
}

const RESERVATIONS: &str = "/api/v1/namespaces/kai-resource-reservation/pods";

/// The reservation pod as it is once it has named its device.
fn named_device(pod: &[u8]) -> String {
    let mut pod: Value = serde_json::from_slice(pod).expect("a pod");
    pod["metadata"]["uid"] = json!("reservation");
    pod["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"] = json!("GPU-0");
    pod.to_string()
}

/// An API server of fixed objects, whose watches say nothing; what is written is noted. The second reservation pod that is made
/// names its device at once.
fn client(written: Arc<Mutex<Vec<String>>>) -> Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let written = Arc::clone(&written);
        async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path();
            if parts.method != http::Method::GET {
                let body = body.collect_bytes().await.unwrap_or_default();
                let text = String::from_utf8_lossy(&body).into_owned();
                let line = format!("{} {path} {text}", parts.method);
                let mut written = written.lock().expect("the log");
                let is_second = path == RESERVATIONS && written.iter().any(|it| it.contains(path));
                written.push(line);
                if is_second {
                    let pod = named_device(&body);
                    return Ok::<_, tower::BoxError>(http::Response::new(Full::from(pod)));
                }
                return Ok::<_, tower::BoxError>(http::Response::new(Full::new(body)));
            }
            if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
                std::future::pending::<()>().await;
            }
            if path.contains("/podgroups/") {
                let mut missing = http::Response::new(Full::from(
                    r#"{"kind": "Status", "status": "Failure", "code": 404}"#,
                ));
                *missing.status_mut() = StatusCode::NOT_FOUND;
                return Ok(missing);
            }
            Ok(http::Response::new(Full::from(served(path).to_string())))
        }
    });
    Client::new(service, "default")
}

/// What a minute brought: writes, and metrics at its end.
struct Minute {
    written: Vec<String>,
    metrics: String,
}

impl Minute {
    fn count(&self, text: &str) -> usize {
        self.written.iter().filter(|line| line.contains(text)).count()
    }

    fn is_bound(&self, pod: &str) -> bool {
        self.count(&format!("POST /api/v1/namespaces/a/pods/{pod}/binding")) == 1
    }

    fn assert_counted(&self, metric: &str, times: u32) {
        let line = format!("kai_{metric} {times}\n");
        assert!(self.metrics.contains(&line), "{line} {}", self.metrics);
    }
}

/// `kai run` for a minute of virtual time, in which a pod makes a stage panic.
async fn minute(stage: Stage, pod: &'static str) -> Minute {
    FAULT.set(Some((stage, pod)));
    let written = Arc::new(Mutex::new(Vec::new()));
    let env = Env::new(Arc::new(TestClock(Instant::now())), Arc::new(TokioSpawner));
    let settings = Settings { lists: kai_client::watch::Lists::Paged, ..Settings::default() };
    let (asks, questions) = tokio::sync::mpsc::channel(1);
    let mut metrics = String::new();
    let end = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let (sink, answer) = oneshot::channel();
        asks.send(Question::Metrics(sink)).await.expect("the loop turns");
        metrics = answer.await.expect("the loop answers");
    };
    let connections = crate::run::Connections::new(client(Arc::clone(&written)), env, questions);
    crate::run::run(connections, settings, end).await;
    FAULT.set(None);
    let written = written.lock().expect("the log").clone();
    Minute { written, metrics }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_makes_the_planner_panic_is_skipped() {
    let minute = minute(Stage::Change, "worse").await;
    assert!(minute.is_bound("good") && !minute.is_bound("worse"), "{:#?}", minute.written);
    assert_eq!(minute.count("SchedulerPanicked"), 1, "{:#?}", minute.written);
    minute.assert_counted("planner_panics_total", 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_which_a_cycle_panics_is_skipped() {
    let minute = minute(Stage::Cycle, "worse").await;
    assert!(minute.is_bound("good") && !minute.is_bound("worse"), "{:#?}", minute.written);
    assert_eq!(minute.count("SchedulerPanicked"), 1, "{:#?}", minute.written);
    let event = minute.written.iter().find(|line| line.contains("SchedulerPanicked"));
    let event = event.expect("an event");
    assert!(event.contains(r#""kind":"Pod","name":"worse","namespace":"a""#), "{event}");
    minute.assert_counted("planner_panics_total", 1);
}

/// The binder of the next round knows nothing of the bind: the pod is planned anew and bound once.
#[tokio::test(start_paused = true)]
async fn a_bind_under_way_during_a_panic_is_planned_anew() {
    let minute = minute(Stage::CycleDuringBind, "worse").await;
    let made = format!("POST {RESERVATIONS}");
    assert_eq!(minute.count(&made), 2, "one per round: {:#?}", minute.written);
    assert!(minute.is_bound("half") && !minute.is_bound("worse"), "{:#?}", minute.written);
    assert_eq!(minute.count("/bindrequests"), 0, "{:#?}", minute.written);
    assert_eq!(minute.count("DELETE"), 0, "its reservation stays: {:#?}", minute.written);
    minute.assert_counted("planner_panics_total", 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_which_grouping_panics_stays_pending() {
    let minute = minute(Stage::Grouping, "owned").await;
    assert!(minute.is_bound("good") && minute.is_bound("worse"), "{:#?}", minute.written);
    assert!(!minute.is_bound("owned"), "{:#?}", minute.written);
    assert_eq!(minute.count("/podgroups/"), 0, "{:#?}", minute.written);
    assert!(minute.count("PodGrouperWarning") >= 1, "{:#?}", minute.written);
    minute.assert_counted("planner_panics_total", 0);
    let counted = minute
        .metrics
        .lines()
        .find_map(|line| line.strip_prefix("kai_grouping_panics_total ")?.parse::<u32>().ok());
    assert!(counted.is_some_and(|panics| panics >= 2), "every attempt: {counted:?}");
}

#[tokio::test(start_paused = true)]
async fn without_panics_everything_is_bound_or_grouped() {
    let minute = minute(Stage::Change, "none").await;
    assert!(minute.is_bound("good") && minute.is_bound("worse"), "{:#?}", minute.written);
    assert!(minute.count("/podgroups/") >= 1, "{:#?}", minute.written);
    minute.assert_counted("planner_panics_total", 0);
    minute.assert_counted("grouping_panics_total", 0);
}

/// The body of the answer to `GET path`.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: kai\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn a_request_whose_handler_panics_is_answered_and_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let metrics = Arc::new(RequestMetrics::default());
    let answer = |asked: Asked| async move {
        assert_ne!(asked.request.uri().path(), "/validate--v1-pod", "as the test wants");
        text(StatusCode::OK, "ok")
    };
    let counted = metrics.server("admission", &["/validate--v1-pod"]);
    let (env, limits) = (Env::real(), Limits::REVIEWS);
    tokio::spawn(serve(env, listener, Arc::new(Plain), limits, counted, answer));
    assert!(get(address, "/validate--v1-pod").await.starts_with("HTTP/1.1 500 "));
    assert!(get(address, "/mutate--v1-pod").await.starts_with("HTTP/1.1 200 "));
    let page = metrics.page();
    assert!(page.contains("kai_http_request_panics_total{server=\"admission\"} 1\n"), "{page}");
}

/// Set for the process that panics twice at the same place.
const PANICS_TWICE: &str = "KAI_TEST_PANICS_TWICE";

#[test]
fn the_same_panic_again_ends_the_process() {
    if std::env::var_os(PANICS_TWICE).is_some() {
        let mut quarantine = Quarantine::default();
        for _ in 0..2 {
            let site = guarded(|| panic!("as the test wants"))
                .map_or_else(|site| site, |()| unreachable!());
            quarantine.record_or_abort(&site, None);
        }
        return;
    }
    let itself = std::env::current_exe().expect("this program");
    let name = "panics::tests::the_same_panic_again_ends_the_process";
    let ended = Command::new(itself).args([name, "--exact"]).env(PANICS_TWICE, "1").output();
    let ended = ended.expect("it runs").status;
    assert_eq!(ended.signal(), Some(6), "aborted: {ended}");
}

#[test]
fn a_panic_is_caught_with_its_place_and_message() {
    let site = guarded(|| panic!("as the test wants")).expect_err("it panics");
    assert!(site.place.contains("panics/tests.rs:"), "{site:?}");
    assert_eq!(site.message, "as the test wants");
    assert_eq!(guarded(|| 7), Ok(7));
}

#[test]
fn the_same_panic_again_is_not_forgiven() {
    let mut quarantine = Quarantine::default();
    let site = |place: &str| Site { place: place.to_owned(), message: String::new() };
    let node = (Kind::Node, ObjectName::new("", "n"));
    assert!(quarantine.record(&site("a.rs:1:1"), Some(&node)));
    assert!(quarantine.record(&site("a.rs:2:1"), None));
    assert!(!quarantine.record(&site("a.rs:1:1"), None));
    assert_eq!(quarantine.panics, 3);
    let object = |kind: Kind, name: &str| Change::decode(kind, json!({"metadata": {"name": name}}));
    assert!(quarantine.skips(&object(Kind::Node, "n")));
    assert!(!quarantine.skips(&object(Kind::Queue, "n")));
    assert!(!quarantine.skips(&Change::Gone(Kind::Node, ObjectName::new("", "n"))));
    assert!(!quarantine.skips(&object(Kind::Node, "n")), "another of the name");
}

#[test]
fn the_event_names_the_object() {
    let site = Site { place: "a.rs:1:1".to_owned(), message: "why".to_owned() };
    let name = ObjectName::new("a", "g");
    let version = |kind: Kind| {
        let subject = Subject::Object(kind, name.clone(), "".into());
        event(&subject, &site, Timestamp { nanos: 1 }).involved_object.api_version
    };
    assert_eq!(version(Kind::PodGroup).as_deref(), Some("scheduling.run.ai/v2alpha2"));
    assert_eq!(version(Kind::Pod).as_deref(), Some("v1"));
}
