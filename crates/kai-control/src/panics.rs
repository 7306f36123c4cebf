//! Panics of a planner: caught where a change is applied or a cycle planned, so that one object does not end the process.
//!
//! The state after a panic is not trusted. The planner is discarded and lists everything anew, without the object that was
//! being read; the same panic again ends the process.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use kai_client::kinds::Kind;
use kai_client::path::Resource;
use kai_client::watch::Change;
use kai_client::write::{Create, Write, Writer};
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;
use kai_translate::time;
use serde_json::{Value, json};

thread_local! {
    /// A panic of this thread is caught by [`guarded`].
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the latest such panic came from.
    static SITE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Does something; where it panics, the place in the source and the message.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Site> {
    observe_panics();
    let before = IS_GUARDED.replace(true);
    let ended = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(before);
    ended.map_err(|payload| Site { place: SITE.take(), message: message(&*payload) })
}

/// Where a panic came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// File, line and column.
    pub(crate) place: String,
    pub(crate) message: String,
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Notes where guarded panics come from; others are reported as before.
fn observe_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IS_GUARDED.get() {
                let place = panic.location().map(ToString::to_string).unwrap_or_default();
                SITE.set(place);
            } else {
                before(panic);
            }
        }));
    });
}

/// An object by kind and name.
pub(crate) type Address = (Kind, ObjectName);

/// The object that a change is about.
pub(crate) fn address(change: &Change) -> Option<Address> {
    match change {
        Change::Pod(pod) => Some((Kind::Pod, kai_translate::pod::name(pod))),
        Change::Node(node) => Some((Kind::Node, ObjectName::new("", node.metadata.name.as_str()))),
        Change::Object(kind, object) => {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
            Some((*kind, ObjectName::new(text("namespace"), text("name"))))
        }
        Change::Gone(..) | Change::Listed(_) | Change::Absent(_) => None,
    }
}

/// What was learnt from panics.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    skipped: BTreeSet<Address>,
    places: BTreeSet<String>,
    /// How many panics there were.
    pub(crate) panics: u64,
}

impl Quarantine {
    /// Remembers a panic; false where the same was there before.
    pub(crate) fn record(&mut self, site: &Site, object: Option<&Address>) -> bool {
        self.panics += 1;
        self.skipped.extend(object.cloned());
        self.places.insert(site.place.clone())
    }

    /// Is the change about an object that made a planner panic? One that is gone is forgotten.
    pub(crate) fn skips(&mut self, change: &Change) -> bool {
        if self.skipped.is_empty() {
            return false;
        }
        if let Change::Gone(kind, name) = change {
            self.skipped.remove(&(*kind, name.clone()));
            return false;
        }
        address(change).is_some_and(|address| self.skipped.contains(&address))
    }
}

/// Panics where a test wants it.
pub(crate) fn trip(change: &Change) {
    #[cfg(test)]
    tests::trip(change);
    let _ = change;
}

/// Tells on the object that it is skipped, and why.
pub(crate) async fn report(writer: Writer, address: Address, site: Site, now: Timestamp) {
    let (kind, name) = address;
    let namespace = if name.namespace.is_empty() { "default" } else { &*name.namespace };
    let event = Box::new(event(kind, &name, namespace, &site, now));
    let write = Write::Create(Create::new(Resource::EVENTS, &namespace.into(), event));
    if let Err(failure) = writer.write(&write).await {
        tracing::warn!(kind = kind.name(), object = %name, %failure, "failed to write the event of a skipped object");
    }
}

fn event(kind: Kind, name: &ObjectName, namespace: &str, site: &Site, now: Timestamp) -> Value {
    let moment = time::format(now);
    let list = kind.path().trim_start_matches("/apis/").trim_start_matches("/api/");
    let api_version = list.rsplit_once('/').map_or(list, |(api_version, _)| api_version);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{:x}", name.name, now.nanos), "namespace": namespace},
        "involvedObject": {"apiVersion": api_version, "kind": kind.name(), "namespace": &*name.namespace, "name": &*name.name},
        "type": "Warning",
        "reason": "SchedulerPanicked",
        "message": format!(
            "the scheduler panicked at {} while it handled this object, which is skipped until it is deleted: {}",
            site.place, site.message
        ),
        "source": {"component": "kai"},
        "reportingComponent": "kai",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::Full;
    use kai_client::env::{Clock, Env, TokioSpawner, Work, duration};
    use kai_core::time::Span;
    use kai_settings::planner::Settings;
    use kube::Client;
    use tokio::time::{Duration, Instant};

    use super::*;

    thread_local! {
        /// The pod that makes the planner panic.
        static TRIP: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    pub(super) fn trip(change: &Change) {
        let name = address(change).map(|(_, name)| name.name);
        let trips = TRIP.get().is_some_and(|trip| name.as_deref() == Some(trip));
        assert!(!trips, "as the test wants");
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

    fn pod(name: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "labels": {"kai.scheduler/queue": "q"}, "resourceVersion": "1"},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"},
        })
    }

    /// The objects of a list.
    fn listed(path: &str) -> Vec<Value> {
        let all = json!({"quota": 0, "limit": -1, "overQuotaWeight": 1});
        match path {
            "/api/v1/pods" => vec![pod("bad"), pod("good")],
            "/api/v1/nodes" => vec![json!({
                "metadata": {"name": "n", "resourceVersion": "1"},
                "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
            })],
            "/apis/scheduling.run.ai/v2/queues" => vec![
                json!({"metadata": {"name": "q", "resourceVersion": "1"}, "spec": {"resources": {"cpu": all, "gpu": all, "memory": all}}}),
            ],
            _ => Vec::new(),
        }
    }

    /// An API server of fixed lists, whose watches say nothing; what is written is noted.
    fn client(written: Arc<Mutex<Vec<String>>>) -> Client {
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let written = Arc::clone(&written);
            async move {
                let (parts, body) = request.into_parts();
                let path = parts.uri.path();
                if parts.method != http::Method::GET {
                    let body = body.collect_bytes().await.unwrap_or_default();
                    let text = String::from_utf8_lossy(&body).into_owned();
                    written
                        .lock()
                        .expect("the log")
                        .push(format!("{} {path} {text}", parts.method));
                    let answer = Full::new(body);
                    return Ok::<_, tower::BoxError>(http::Response::new(answer));
                }
                if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
                    std::future::pending::<()>().await;
                }
                let list = json!({"metadata": {"resourceVersion": "1"}, "items": listed(path)});
                Ok(http::Response::new(Full::from(list.to_string())))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_makes_the_planner_panic_is_skipped() {
        TRIP.set(Some("bad"));
        let written = Arc::new(Mutex::new(Vec::new()));
        let env = Env::new(Arc::new(TestClock(Instant::now())), Arc::new(TokioSpawner));
        let settings = Settings { lists: kai_client::watch::Lists::Paged, ..Settings::default() };
        let (_questions, questions) = tokio::sync::mpsc::channel(1);
        let end = tokio::time::sleep(Duration::from_mins(1));
        crate::run::run(client(Arc::clone(&written)), env, settings, questions, end).await;
        TRIP.set(None);
        let written = written.lock().expect("the log").clone();
        let count = |text: &str| written.iter().filter(|line| line.contains(text)).count();
        assert_eq!(count("POST /api/v1/namespaces/a/pods/good/binding"), 1, "{written:#?}");
        assert_eq!(count("POST /api/v1/namespaces/a/pods/bad/binding"), 0, "{written:#?}");
        assert_eq!(count("SchedulerPanicked"), 1, "{written:#?}");
    }

    #[test]
    fn a_panic_is_caught_with_its_place_and_message() {
        let site = guarded(|| panic!("as the test wants")).expect_err("it panics");
        assert!(site.place.contains("panics.rs:"), "{site:?}");
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
        let object = |kind: Kind, name: &str| {
            Change::Object(kind, Box::new(json!({"metadata": {"name": name}})))
        };
        assert!(quarantine.skips(&object(Kind::Node, "n")));
        assert!(!quarantine.skips(&object(Kind::Queue, "n")));
        assert!(!quarantine.skips(&Change::Gone(Kind::Node, ObjectName::new("", "n"))));
        assert!(!quarantine.skips(&object(Kind::Node, "n")), "another of the name");
    }

    #[test]
    fn the_event_names_the_object() {
        let site = Site { place: "a.rs:1:1".to_owned(), message: "why".to_owned() };
        let name = ObjectName::new("a", "g");
        let event = event(Kind::PodGroup, &name, "a", &site, Timestamp { nanos: 1 });
        assert_eq!(event["involvedObject"]["apiVersion"], "scheduling.run.ai/v2alpha2");
        assert_eq!(event["involvedObject"]["kind"], "PodGroup");
        let pod = super::event(Kind::Pod, &name, "a", &site, Timestamp { nanos: 1 });
        assert_eq!(pod["involvedObject"]["apiVersion"], "v1");
    }
}
