//! A scripted API: lists, watches that never end by themselves, binds, and a log of every request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Seconds since the story began.
pub(crate) type Clock = Arc<dyn Fn() -> f64 + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
    clock: Clock,
    /// Who asks.
    caller: &'static str,
}

#[derive(Default)]
struct State {
    log: Vec<String>,
    version: u64,
    objects: BTreeMap<String, Vec<Value>>,
    watches: BTreeMap<String, Vec<UnboundedSender<Bytes>>>,
    failing_binds: u32,
    failed: BTreeMap<String, u32>,
    refused_evictions: u32,
    leases: BTreeMap<String, Value>,
    /// Whose requests for leases fail.
    cut_off: Option<&'static str>,
}

impl State {
    /// Adds or replaces an object and tells those who watch.
    fn set(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let list = self.objects.entry(path.to_owned()).or_default();
        let same = |one: &Value| one["metadata"]["name"] == object["metadata"]["name"];
        let known = list.iter_mut().find(|one| same(one));
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        if let Some(known) = known {
            *known = object.clone();
        } else {
            list.push(object.clone());
        }
        let line = Bytes::from(format!("{}\n", json!({"type": kind, "object": object})));
        for watch in self.watches.entry(path.to_owned()).or_default() {
            let _ = watch.unbounded_send(line.clone());
        }
    }

    fn list(&self, path: &str) -> Answer {
        let items = self.objects.get(path).cloned().unwrap_or_default();
        json_answer(
            200,
            &json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
        )
    }

    fn watch(&mut self, path: &str) -> Answer {
        let (sink, lines) = unbounded();
        self.watches.entry(path.to_owned()).or_default().push(sink);
        let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    /// Changes a list while nobody looks, then tells those who watch that the past is forgotten.
    fn rewrite(&mut self, path: &str, objects: Vec<Value>) {
        self.version += 100;
        self.objects.insert(path.to_owned(), objects);
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}});
        for watch in self.watches.remove(path).unwrap_or_default() {
            let _ = watch.unbounded_send(Bytes::from(format!("{gone}\n")));
        }
    }

    /// Reads or writes a lease; whoever writes must have seen the latest.
    fn lease(&mut self, method: &str, name: &str, mut body: Value) -> Answer {
        let known = self.leases.get(name);
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        match (method, known) {
            ("GET", Some(lease)) => return json_answer(200, lease),
            ("GET" | "PUT", None) => return status(404, "no such lease"),
            ("POST", Some(_)) => return status(409, "there is one"),
            ("PUT", Some(lease)) if version(lease) != version(&body) => {
                return status(409, "somebody was faster");
            }
            _ => {}
        }
        self.version += 1;
        body["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.leases.insert(name.to_owned(), body.clone());
        json_answer(200, &body)
    }

    fn evict(&mut self, pod: &str) -> Answer {
        if self.refused_evictions > 0 {
            self.refused_evictions -= 1;
            return status(
                429,
                "Cannot evict pod as it would violate the pod's disruption budget.",
            );
        }
        let pods = self.objects.get("/api/v1/pods").cloned().unwrap_or_default();
        let Some(mut told) = pods.into_iter().find(|one| one["metadata"]["name"] == pod) else {
            return status(404, "no such pod");
        };
        told["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
        self.set("/api/v1/pods", told);
        json_answer(201, &json!({"kind": "Status", "status": "Success"}))
    }

    fn bind(&mut self, pod: &str, node: &Value) -> Answer {
        let failed = self.failed.entry(pod.to_owned()).or_default();
        if *failed < self.failing_binds {
            *failed += 1;
            return status(500, "not today");
        }
        let pods = self.objects.get("/api/v1/pods").cloned().unwrap_or_default();
        let Some(mut bound) = pods.into_iter().find(|one| one["metadata"]["name"] == pod) else {
            return status(404, "no such pod");
        };
        bound["spec"]["nodeName"] = node.clone();
        self.set("/api/v1/pods", bound);
        json_answer(201, &json!({"kind": "Status", "status": "Success"}))
    }
}

fn json_answer(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).expect("an answer")
}

fn status(code: u16, message: &str) -> Answer {
    json_answer(
        code,
        &json!({"kind": "Status", "status": "Failure", "message": message, "reason": "Test", "code": code}),
    )
}

impl Api {
    pub(crate) fn new(clock: Clock, failing_binds: u32, refused_evictions: u32) -> Self {
        let state = State { failing_binds, refused_evictions, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), clock, caller: "" }
    }

    /// The same, for a caller whose requests are told apart.
    pub(crate) fn of(&self, caller: &'static str) -> Self {
        Self { caller, ..self.clone() }
    }

    /// Requests of this caller for leases fail from now on.
    pub(crate) fn cut_off(&self, caller: Option<&'static str>) {
        self.state.lock().expect("the state").cut_off = caller;
    }

    pub(crate) fn set(&self, path: &str, object: Value) {
        self.state.lock().expect("the state").set(path, object);
    }

    pub(crate) fn rewrite(&self, path: &str, objects: Vec<Value>) {
        self.state.lock().expect("the state").rewrite(path, objects);
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.state.lock().expect("the state").log.clone()
    }

    pub(crate) async fn answer(self, request: Request<Body>) -> Result<Answer, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut state = self.state.lock().expect("the state");
        let caller = self.caller;
        state.log.push(format!(
            "{:.3}{caller} {} {} {body}",
            (self.clock)(),
            parts.method,
            parts.uri
        ));
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let segments: Vec<&str> = path.split('/').collect();
        Ok(match (parts.method.as_str(), segments.as_slice()) {
            (_, [.., "leases"] | [.., "leases", _])
                if state.cut_off.is_some_and(|cut| cut == caller) =>
            {
                status(500, "not for you")
            }
            (method, [.., "leases"]) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                state.lease(method, &name, body)
            }
            (method, [.., "leases", name]) => state.lease(method, name, body),
            ("GET", _) if path.contains("noderesourcetopologies") => status(404, "unknown kind"),
            ("GET", [.., "namespaces", _, _, _]) => status(404, "not found"),
            ("GET", _) if query.contains("watch=true") => state.watch(path),
            ("GET", _) => state.list(path),
            ("POST", [.., "pods", pod, "binding"]) => state.bind(pod, &body["target"]["name"]),
            ("POST", [.., "pods", pod, "eviction"]) => state.evict(pod),
            ("POST", [.., "events"]) => json_answer(201, &body),
            ("PATCH", _) => json_answer(200, &body),
            _ => status(405, "not in the script"),
        })
    }
}
