//! A cluster in virtual time: one thread, a clock that jumps to the next timer.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kai_client::env::{Clock, Env, TokioSpawner, Work, duration};
use kai_control::run::{self, Connections};
use kai_core::time::Span;
use kai_embed::api::{Answer, Request};
use kai_embed::nodes::NodeProfile;
use kai_embed::service::Embedded;
use kai_embed::{Cluster, Key};
use kai_settings::planner::Settings;
use kai_testenv::objects;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

const BEGINNING: &str = "2026-01-01T00:00:00Z";

#[derive(Clone, Copy)]
struct VirtualClock(Instant);

impl VirtualClock {
    fn moment(self) -> Timestamp {
        let beginning: Timestamp = BEGINNING.parse().expect("a time");
        beginning + SignedDuration::try_from(self.0.elapsed()).expect("a short story")
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> kai_core::time::Timestamp {
        let nanos = i64::try_from(self.moment().as_nanosecond()).expect("a time of this century");
        kai_core::time::Timestamp { nanos }
    }

    fn sleep(&self, span: Span) -> Work {
        Box::pin(tokio::time::sleep(duration(span)))
    }

    fn uptime(&self) -> Span {
        Span { nanos: i64::try_from(self.0.elapsed().as_nanos()).unwrap_or(i64::MAX) }
    }
}

/// A cluster with everything installed and `kai` running on it.
pub(crate) struct World {
    pub(crate) cluster: Embedded,
}

/// Plays a story in virtual time.
pub(crate) fn play(story: impl AsyncFnOnce(World)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let clock = VirtualClock(Instant::now());
        let cluster =
            Embedded::new(Cluster::new(7, clock.moment()), Arc::new(move || clock.moment()));
        tokio::spawn(cluster.clone().drive(|span: Duration| Box::pin(tokio::time::sleep(span))));
        let world = World { cluster };
        world.install();
        let client = Client::new(world.cluster.clone(), "default");
        let env = Env::new(Arc::new(clock), Arc::new(TokioSpawner));
        let (_no_questions, questions) = kai_control::serve::questions();
        let endless = std::future::pending();
        let connections = Connections::new(client, env, questions);
        let kai = run::run(connections, Settings::default(), endless);
        tokio::spawn(kai);
        story(world).await;
    });
}

impl World {
    fn install(&self) {
        let documents = kai_install::manifests::documents();
        for document in documents
            .flat_map(|text| -> Vec<Value> { serde_saphyr::from_multiple(text).expect("YAML") })
        {
            self.make(&document);
        }
    }

    pub(crate) fn make(&self, object: &Value) -> Value {
        let made = self.cluster.with(|cluster, _| cluster.make(object));
        Value::clone(&made.unwrap_or_else(|failure| panic!("{failure}: {object}")))
    }

    pub(crate) fn node(&self, name: &str, gpus: u32) {
        let profile = NodeProfile::with_gpus(name, gpus);
        self.cluster.with(|cluster, _| cluster.add_node(&profile)).expect("a node");
    }

    /// A queue with this quota and limit of devices.
    pub(crate) fn queue(&self, name: &str, quota: i64, limit: i64) {
        let gpu = json!({"quota": quota, "limit": limit, "overQuotaWeight": 1});
        self.make(&objects::queue(name, &gpu));
    }

    /// A pod that asks for devices.
    pub(crate) fn pod(&self, name: &str, queue: &str, class: &str, gpus: u32) -> Value {
        self.make(&pod(name, queue, class, gpus))
    }

    pub(crate) fn see(&self, name: &str) -> Value {
        let key = Key::new("default", name);
        let found = self.cluster.with(|cluster, _| cluster.get(("", "pods"), &key).cloned());
        found.map_or(Value::Null, |pod| Value::clone(&pod))
    }

    pub(crate) fn phase(&self, name: &str) -> String {
        self.see(name)["status"]["phase"].as_str().unwrap_or("gone").to_owned()
    }

    pub(crate) async fn seconds(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn send(&self, request: &Request) -> (u16, Value) {
        match self.cluster.request(request) {
            Answer::Object { code, object, .. } => (code, Arc::unwrap_or_clone(object)),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn pod(name: &str, queue: &str, class: &str, gpus: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": queue, "priorityClassName": class}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        },
    })
}
