//! A scripted API: lists, watches that never end by themselves, writes, faults, and a log of every request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kai_core::time::Timestamp;
use kai_translate::time;
use kube::client::Body;
use serde_json::{Value, json};

use crate::virtual_time::BEGINNING;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Seconds since the story began.
pub(crate) type Clock = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Requests that are refused.
#[derive(Clone)]
pub(crate) struct Fault {
    pub(crate) method: &'static str,
    /// Part of the path.
    pub(crate) path: &'static str,
    /// Status of the answer.
    pub(crate) code: u16,
    pub(crate) times: u32,
    /// The request is carried out, only the answer says otherwise.
    pub(crate) carried_out: bool,
}

/// When an object appears, seen from a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the request is carried out.
    Before,
    /// After it, before it is answered.
    After,
}

/// An object that appears while a request is carried out, once.
#[derive(Clone)]
pub(crate) struct Race {
    /// Method and part of the path of the request.
    pub(crate) request: (&'static str, &'static str),
    pub(crate) moment: Moment,
    /// The path of its list, and the object.
    pub(crate) object: (&'static str, Value),
}

#[derive(Clone)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
    clock: Clock,
    /// The client; begins with a space where it is named.
    caller: &'static str,
}

#[derive(Default)]
struct State {
    log: Vec<String>,
    /// Seconds since the beginning, as of the latest request.
    now: f64,
    version: u64,
    objects: BTreeMap<String, Vec<Value>>,
    watches: BTreeMap<String, Vec<UnboundedSender<Bytes>>>,
    faults: Vec<Fault>,
    races: Vec<Race>,
    /// After how many seconds each reservation pod reports its device, the latest value for all that follow; none: never.
    agents: Vec<u64>,
    /// The device of each, the latest value for all that follow; none: each has its own.
    devices: Vec<&'static str>,
    reservations: usize,
    leases: BTreeMap<String, Value>,
    /// How long answers to other writes take.
    write_answers: Duration,
    /// How long answers to evictions take.
    eviction_answers: Duration,
    /// Lists are not streamed.
    no_streams: bool,
    /// Labels of binds are ignored, as before Kubernetes 1.35.
    no_bind_labels: bool,
    /// Whose requests for leases fail, and for which; none: for all.
    cut_off: Option<(&'static str, Option<&'static str>)>,
    /// So many reservation pods of a node get a device; none: all of them.
    gpus_per_node: Option<usize>,
}

/// An object that a path names.
struct Place {
    list: String,
    namespace: String,
    name: String,
    subresource: Option<String>,
}

impl Place {
    fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let api = if path.starts_with("/apis/") { 4 } else { 3 };
        let (api, rest) = (parts.get(..api)?, parts.get(api..)?);
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let list = format!("{}/{}", api.join("/"), rest.first()?);
        let part = |at: usize| rest.get(at).map(|part| (*part).to_owned());
        let name = part(1).unwrap_or_default();
        Some(Self { list, namespace: namespace.to_owned(), name, subresource: part(2) })
    }

    fn is_of(&self, object: &Value) -> bool {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        text("name") == self.name && text("namespace") == self.namespace
    }
}

impl State {
    /// Adds or replaces an object and sends the event to its watches.
    fn set(&mut self, list: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let objects = self.objects.entry(list.to_owned()).or_default();
        let same = |one: &Value| {
            ["name", "namespace"].iter().all(|key| one["metadata"][key] == object["metadata"][key])
        };
        let known = objects.iter_mut().find(|one| same(one));
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        if let Some(known) = known {
            *known = object.clone();
        } else {
            objects.push(object.clone());
        }
        // Pods are watched without those that failed.
        let has_failed = list == "/api/v1/pods" && object["status"]["phase"] == "Failed";
        self.send_event(list, if has_failed { "DELETED" } else { kind }, &object);
        object
    }

    fn send_event(&mut self, list: &str, kind: &str, object: &Value) {
        let line = Bytes::from(format!("{}\n", json!({"type": kind, "object": object})));
        for watch in self.watches.entry(list.to_owned()).or_default() {
            let _ = watch.unbounded_send(line.clone());
        }
    }

    fn find(&self, place: &Place) -> Option<Value> {
        self.objects.get(&place.list)?.iter().find(|one| place.is_of(one)).cloned()
    }

    fn list(&self, path: &str) -> Answer {
        let items = self.objects.get(path).cloned().unwrap_or_default();
        json_answer(
            200,
            &json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
        )
    }

    fn watch(&mut self, path: &str, query: &str) -> Answer {
        let (sink, lines) = unbounded();
        if query.contains("sendInitialEvents=true") {
            if self.no_streams {
                return status(422, "sendInitialEvents is forbidden");
            }
            let version = self.version.to_string();
            let objects = self.objects.get(path).into_iter().flatten();
            let added = objects.map(|object| json!({"type": "ADDED", "object": object}));
            let end = json!({"type": "BOOKMARK", "object": {"kind": "any", "apiVersion": "any", "metadata": {
                "resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}}});
            for line in added.chain([end]) {
                let _ = sink.unbounded_send(Bytes::from(format!("{line}\n")));
            }
        }
        self.watches.entry(path.to_owned()).or_default().push(sink);
        let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    /// Changes a list without events, then reports to its watches that their version is gone.
    fn rewrite(&mut self, path: &str, objects: Vec<Value>) {
        self.version += 100;
        self.objects.insert(path.to_owned(), objects);
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}});
        for watch in self.watches.remove(path).unwrap_or_default() {
            let _ = watch.unbounded_send(Bytes::from(format!("{gone}\n")));
        }
    }

    /// Reads or writes a lease; a writer must have seen the latest.
    fn lease(&mut self, method: &str, name: &str, mut body: Value) -> Answer {
        let known = self.leases.get(name);
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        match (method, known) {
            ("GET", Some(lease)) => return json_answer(200, lease),
            ("GET" | "PUT", None) => return status(404, "no such lease"),
            ("POST", Some(_)) => return status(409, "there is one"),
            ("PUT", Some(lease)) if version(lease) != version(&body) => {
                return status(409, "another writer was faster");
            }
            _ => {}
        }
        self.version += 1;
        body["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.leases.insert(name.to_owned(), body.clone());
        json_answer(200, &body)
    }

    /// What the server writes on an object that it makes.
    fn created(&self) -> Value {
        let passed = (self.now * 1e9) as i64;
        json!(time::format(Timestamp { nanos: BEGINNING + passed }))
    }

    fn create(&mut self, place: &mut Place, mut object: Value) -> Answer {
        object["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut place.name);
        if self.find(place).is_some() {
            return status(409, "it exists already");
        }
        object["metadata"]["namespace"] = json!(place.namespace);
        object["metadata"]["uid"] = json!(format!("uid-{}-{}", place.name, self.version));
        object["metadata"]["creationTimestamp"] = self.created();
        let made = self.set(&place.list, object);
        json_answer(201, &made)
    }

    /// A writer that replaces an object must have seen the latest.
    fn replace(&mut self, place: &Place, object: Value) -> Answer {
        let Some(known) = self.find(place) else { return status(404, "not found") };
        if object["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"] {
            return status(409, "another writer was faster");
        }
        let made = self.set(&place.list, object);
        json_answer(200, &made)
    }

    /// A merge patch, or an apply patch, which may create.
    fn patch(&mut self, place: &Place, patch: &Value, applies: bool) -> Answer {
        let mut object = match self.find(place) {
            Some(object) => object,
            None if applies => {
                json!({"metadata": {"name": place.name, "namespace": place.namespace, "uid": format!("uid-{}", place.name),
                    "creationTimestamp": self.created()}})
            }
            None => return status(404, "not found"),
        };
        for key in ["uid", "resourceVersion"] {
            let wanted = &patch["metadata"][key];
            if wanted.is_string() && *wanted != object["metadata"][key] {
                return status(409, "it is not what it was");
            }
        }
        merge(&mut object, patch);
        let made = self.set(&place.list, object);
        json_answer(200, &made)
    }

    fn delete(&mut self, place: &Place, options: &Value) -> Answer {
        let Some(object) = self.find(place) else { return status(404, "not found") };
        let wanted = &options["preconditions"]["uid"];
        if wanted.is_string() && *wanted != object["metadata"]["uid"] {
            return status(409, "it is another");
        }
        self.objects.entry(place.list.clone()).or_default().retain(|one| !place.is_of(one));
        self.version += 1;
        self.send_event(&place.list, "DELETED", &object);
        json_answer(200, &object)
    }

    fn evict(&mut self, place: &Place) -> Answer {
        let Some(mut evicted) = self.find(place) else { return status(404, "no such pod") };
        evicted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
        self.set(&place.list, evicted);
        json_answer(201, &json!({"kind": "Status", "status": "Success"}))
    }

    fn bind(&mut self, place: &Place, binding: &Value) -> Answer {
        let Some(mut bound) = self.find(place) else { return status(404, "no such pod") };
        if bound["spec"]["nodeName"].is_string() {
            return status(409, "pod is already assigned to a node");
        }
        if binding["metadata"]["uid"] != bound["metadata"]["uid"] {
            return status(409, "it is another pod");
        }
        bound["spec"]["nodeName"] = binding["target"]["name"].clone();
        let parts: &[&str] =
            if self.no_bind_labels { &["annotations"] } else { &["labels", "annotations"] };
        for part in parts.iter().filter(|part| binding["metadata"][**part].is_object()) {
            merge(&mut bound["metadata"][*part], &binding["metadata"][*part]);
        }
        let scheduled =
            json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": self.created()});
        merge(&mut bound, &json!({"status": {"conditions": [scheduled]}}));
        self.set(&place.list, bound);
        json_answer(201, &json!({"kind": "Status", "status": "Success"}))
    }

    /// The node of this reservation pod has no GPU left for it.
    fn exceeds_gpus(&self, place: &Place) -> bool {
        let Some(gpus) = self.gpus_per_node else { return false };
        let node = self.find(place).map(|pod| pod["spec"]["nodeName"].clone());
        let pods = self.objects.get(&place.list).into_iter().flatten();
        let holds = |pod: &&Value| {
            pod["metadata"]["namespace"] == place.namespace
                && Some(&pod["spec"]["nodeName"]) == node.as_ref()
                && pod["status"]["phase"] != "Failed"
        };
        pods.filter(holds).count() > gpus
    }

    /// The fault that this request meets.
    fn fault(&mut self, method: &str, path: &str) -> Option<Fault> {
        let mut faults = self.faults.iter_mut();
        let fault = faults
            .find(|fault| fault.times > 0 && fault.method == method && path.contains(fault.path))?;
        fault.times -= 1;
        Some(fault.clone())
    }

    /// Objects appear that race with this request.
    fn race(&mut self, method: &str, path: &str, moment: Moment) {
        let is_due = |race: &mut Race| {
            let (race_method, race_path) = race.request;
            race.moment == moment && race_method == method && path.contains(race_path)
        };
        let due: Vec<Race> = self.races.extract_if(.., is_due).collect();
        for race in due {
            self.set(race.object.0, race.object.1);
        }
    }

    fn write(&mut self, method: &str, place: &mut Place, body: Value, applies: bool) -> Answer {
        match (method, place.subresource.as_deref()) {
            ("POST", Some("binding")) => self.bind(place, &body),
            ("POST", Some("eviction")) => self.evict(place),
            ("POST", None) => self.create(place, body),
            ("PATCH", _) => self.patch(place, &body, applies),
            ("PUT", None) => self.replace(place, body),
            ("DELETE", None) => self.delete(place, &body),
            _ => status(405, "not in the script"),
        }
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(key);
        } else if let (true, Some(new)) = (key == "conditions", value.as_array()) {
            merge_conditions(&mut target[key], new);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// The type of a condition is its key.
fn merge_conditions(known: &mut Value, new: &[Value]) {
    let mut all = known.as_array().cloned().unwrap_or_default();
    all.retain(|one| new.iter().all(|other| other["type"] != one["type"]));
    all.extend(new.iter().cloned());
    *known = Value::Array(all);
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
    pub(crate) fn new(
        clock: Clock,
        faults: Vec<Fault>,
        agents: Vec<u64>,
        devices: Vec<&'static str>,
    ) -> Self {
        let state = State { faults, agents, devices, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), clock, caller: "" }
    }

    /// The same, for a caller whose requests are logged under its name.
    pub(crate) fn of(&self, caller: &'static str) -> Self {
        Self { caller, ..self.clone() }
    }

    /// Writes, and evictions, are carried out at once and answered after these times.
    pub(crate) fn answer_after(&self, writes: Duration, evictions: Duration) {
        let mut state = self.state.lock().expect("the state");
        (state.write_answers, state.eviction_answers) = (writes, evictions);
    }

    /// Objects that appear while requests are carried out.
    pub(crate) fn race(&self, races: Vec<Race>) {
        self.state.lock().expect("the state").races = races;
    }

    /// Lists are not streamed.
    pub(crate) fn refuse_streams(&self, refused: bool) {
        self.state.lock().expect("the state").no_streams = refused;
    }

    /// Requests of this caller for leases fail from now on.
    pub(crate) fn cut_off(&self, caller: Option<&'static str>) {
        self.state.lock().expect("the state").cut_off = caller.map(|caller| (caller, None));
    }

    /// Requests of this caller for this lease fail from now on.
    pub(crate) fn cut_off_lease(&self, caller: &'static str, lease: &'static str) {
        self.state.lock().expect("the state").cut_off = Some((caller, Some(lease)));
    }

    /// Labels of binds are ignored, as before Kubernetes 1.35.
    pub(crate) fn ignore_bind_labels(&self, ignored: bool) {
        self.state.lock().expect("the state").no_bind_labels = ignored;
    }

    /// The kubelets reject reservation pods beyond so many on their node.
    pub(crate) fn limit_gpus(&self, per_node: Option<usize>) {
        self.state.lock().expect("the state").gpus_per_node = per_node;
    }

    pub(crate) fn set(&self, path: &str, object: Value) {
        self.state.lock().expect("the state").set(path, object);
    }

    pub(crate) fn remove(&self, path: &str) {
        let mut state = self.state.lock().expect("the state");
        let place = Place::of(path).expect("the path of an object");
        state.delete(&place, &Value::Null);
    }

    pub(crate) fn rewrite(&self, path: &str, objects: Vec<Value>) {
        self.state.lock().expect("the state").rewrite(path, objects);
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.state.lock().expect("the state").log.clone()
    }

    /// What there is in the end.
    pub(crate) fn objects(&self) -> BTreeMap<String, Vec<Value>> {
        self.state.lock().expect("the state").objects.clone()
    }

    pub(crate) async fn answer(self, request: Request<Body>) -> Result<Answer, Infallible> {
        let is_eviction = request.uri().path().ends_with("/eviction");
        let is_read = request.method() == http::Method::GET;
        let api = self.clone();
        let answer = self.carry_out(request).await;
        let delay = {
            let state = api.state.lock().expect("the state");
            if is_eviction { state.eviction_answers } else { state.write_answers }
        };
        if !is_read && !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        answer
    }

    async fn carry_out(self, request: Request<Body>) -> Result<Answer, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut state = self.state.lock().expect("the state");
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let method = parts.method.as_str();
        let caller = self.caller;
        state.now = (self.clock)();
        let line = format!("{:.3}{caller} {method} {} {body}", state.now, parts.uri);
        state.log.push(line);
        let fault = state.fault(method, path);
        let place = Place::of(path);
        let segments: Vec<&str> = path.split('/').collect();
        let answer = match (method, place) {
            _ if segments.contains(&"leases") => {
                let named = body["metadata"]["name"].as_str().map(str::to_owned);
                let name = segments.last().filter(|last| **last != "leases");
                let name = name.map(|name| (*name).to_owned()).or(named).unwrap_or_default();
                let is_cut = |(cut, lease): (&str, Option<&str>)| {
                    cut == caller && lease.is_none_or(|lease| lease == name)
                };
                if state.cut_off.is_some_and(is_cut) {
                    return Ok(status(500, "not for you"));
                }
                state.lease(method, &name, body)
            }
            ("POST", _) if path.ends_with("/events") => json_answer(201, &body),
            _ if fault.as_ref().is_some_and(|fault| !fault.carried_out) => {
                status(503, "not reached")
            }
            ("GET", _) if path == "/api/v1" => {
                json_answer(200, &resource_list("v1", "pods", "Pod"))
            }
            ("GET", _) if path == "/apis/batch/v1" => {
                json_answer(200, &resource_list("batch/v1", "jobs", "Job"))
            }
            ("GET", _) if path.contains("noderesourcetopologies") => status(404, "unknown kind"),
            ("GET", Some(place)) if !place.name.is_empty() => match state.find(&place) {
                Some(object) => json_answer(200, &object),
                None => status(404, "not found"),
            },
            ("GET", _) if query.contains("watch=true") => state.watch(path, query),
            ("GET", _) => state.list(path),
            (_, Some(mut place)) => {
                let applies = query.contains("fieldManager");
                state.race(method, path, Moment::Before);
                let answer = state.write(method, &mut place, body, applies);
                state.race(method, path, Moment::After);
                if method == "POST" && answer.status() == 201 && place.subresource.is_none() {
                    self.answer_for_reservation(&mut state, place);
                }
                answer
            }
            _ => status(405, "not in the script"),
        };
        Ok(match fault {
            Some(fault) => status(fault.code, "not today"),
            None => answer,
        })
    }

    /// A reservation pod reports its device after a while.
    fn answer_for_reservation(&self, state: &mut State, place: Place) {
        if place.namespace != "kai-resource-reservation" {
            return;
        }
        let number = state.reservations;
        state.reservations += 1;
        if state.exceeds_gpus(&place) {
            let reason = "UnexpectedAdmissionError";
            let failed = json!({"status": {"phase": "Failed", "reason": reason, "message": "no devices left"}});
            state.patch(&place, &failed, false);
            return;
        }
        let Some(seconds) = state.agents.get(number).or(state.agents.last()).copied() else {
            return;
        };
        let device = state.devices.get(number).or(state.devices.last());
        let device = device.map_or_else(|| format!("GPU-{number}"), ToString::to_string);
        let api = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let patch =
                json!({"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": device}}});
            api.state.lock().expect("the state").patch(&place, &patch, false);
        });
    }
}

/// What discovery says of a group with one kind.
fn resource_list(version: &str, plural: &str, kind: &str) -> Value {
    let resource = json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "list", "watch"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [resource]})
}
