//! An API server in this process, on a port of 127.0.0.1, without authentication. It does little, so that the scheduler
//! that talks to it is what is measured: objects in memory, lists, watches, binds, evictions and patches. A bound pod runs at
//! once, a deleted pod ends at once. Nothing is validated, and selectors are ignored.

mod routes;
mod store;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::objects::NAMESPACE;
use routes::{Address, Route, WhenMissing};
use store::{Failure, Store};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Binds so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Binds {
    pub(crate) count: usize,
    /// When the latest bind was written.
    pub(crate) latest: Option<Instant>,
}

/// The fake API. It accepts connections until it is dropped.
pub(crate) struct FakeApi {
    handler: Handler,
    address: SocketAddr,
    accepting: AbortHandle,
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Carries out requests, of all connections.
#[derive(Clone, Default)]
struct Handler {
    store: Arc<Mutex<Store>>,
    binds: Arc<watch::Sender<Binds>>,
}

impl FakeApi {
    /// Serves on a free port.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let address = listener.local_addr().context("the listener has no address")?;
        let handler = Handler::default();
        let accepted = handler.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(accepted.clone().converse(stream));
            }
        });
        Ok(Self { handler, address, accepting: accepting.abort_handle() })
    }

    /// Configuration of a client, in JSON.
    pub(crate) fn kubeconfig(&self) -> String {
        let server = format!("http://{}", self.address);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": server}}],
            "users": [{"name": "bench", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "bench"}}],
            "current-context": "fake",
        });
        config.to_string()
    }

    /// Binds so far, and those that follow.
    pub(crate) fn binds(&self) -> watch::Receiver<Binds> {
        self.handler.binds.subscribe()
    }

    /// Creates an object that has no namespace; `list` is the path of its kind.
    pub(crate) fn create(&self, list: &str, object: Value) -> anyhow::Result<()> {
        let address = Address { list: list.to_owned(), ..Address::default() };
        self.create_in(&address, object)
    }

    pub(crate) fn create_pod(&self, pod: Value) -> anyhow::Result<()> {
        self.create_in(&pod_address(""), pod)
    }

    fn create_in(&self, address: &Address, object: Value) -> anyhow::Result<()> {
        let created = self.handler.store().create(address, object);
        created.map(|_| ()).map_err(|_| anyhow::anyhow!("an object of {} exists", address.list))
    }

    /// A pod ends and is gone.
    pub(crate) fn delete_pod(&self, name: &str) -> anyhow::Result<()> {
        let deleted = self.handler.store().delete(&pod_address(name), &Value::Null);
        deleted.map(|_| ()).map_err(|_| anyhow::anyhow!("there is no pod {name}"))
    }
}

impl Handler {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn converse(self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let service = service_fn(move |request: Request<Incoming>| {
            let handler = self.clone();
            async move { Ok::<_, Infallible>(handler.answer(request).await) }
        });
        // A client that disconnects is not an error of the server.
        let server = hyper::server::conn::http1::Builder::new();
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default();
        let route = Route::of(parts.method.as_str(), parts.uri.path(), query);
        let body = match body.collect().await {
            Ok(body) => serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
            Err(_) => Value::Null,
        };
        self.carry_out(&route, body)
    }

    fn carry_out(&self, route: &Route, body: Value) -> Answer {
        let ok = |text: Bytes| (StatusCode::OK, text);
        let success = || Bytes::from_static(b"{\"kind\":\"Status\",\"status\":\"Success\"}");
        let answer = match route {
            Route::Read(address) => self.store().read(address).map(ok),
            Route::List(address) => Ok(ok(self.store().list(address))),
            Route::Watch(address, start) => {
                let lines = self.store().watch(address, *start);
                let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
                return Response::new(StreamBody::new(frames).boxed_unsync());
            }
            Route::Create(list) => {
                self.store().create(list, body).map(|text| (StatusCode::CREATED, text))
            }
            Route::Patch(address, missing) => self.patch(address, *missing, body).map(ok),
            Route::Delete(address) => {
                self.store().delete(address, &body["preconditions"]["uid"]).map(ok)
            }
            Route::Bind(address) => {
                self.bind(address, &body).map(|()| (StatusCode::CREATED, success()))
            }
            Route::Evict(address) => {
                let uid = &body["deleteOptions"]["preconditions"]["uid"];
                self.store().delete(address, uid).map(|_| (StatusCode::CREATED, success()))
            }
            Route::RecordEvent => Ok((StatusCode::CREATED, Bytes::from(body.to_string()))),
            Route::Unknown => Err(Failure::NotFound),
        };
        match answer {
            Ok((status, text)) => json_answer(status, text),
            Err(failure) => refusal(failure),
        }
    }

    fn patch(
        &self,
        address: &Address,
        missing: WhenMissing,
        body: Value,
    ) -> Result<Bytes, Failure> {
        let mut store = self.store();
        if missing == WhenMissing::Create && store.read(address).is_err() {
            let list = Address { name: String::new(), ..address.clone() };
            return store.create(&list, body);
        }
        store.patch(address, &body)
    }

    fn bind(&self, address: &Address, binding: &Value) -> Result<(), Failure> {
        self.store().bind(address, binding)?;
        self.binds.send_modify(|binds| {
            *binds = Binds { count: binds.count + 1, latest: Some(Instant::now()) };
        });
        Ok(())
    }
}

fn pod_address(name: &str) -> Address {
    let (namespace, name) = (NAMESPACE.to_owned(), name.to_owned());
    Address { list: "/api/v1/pods".to_owned(), namespace, name }
}

fn json_answer(status: StatusCode, text: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(text).boxed_unsync());
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn refusal(failure: Failure) -> Answer {
    let (status, reason) = match failure {
        Failure::NotFound => (StatusCode::NOT_FOUND, "NotFound"),
        Failure::AlreadyExists => (StatusCode::CONFLICT, "AlreadyExists"),
        Failure::Conflict => (StatusCode::CONFLICT, "Conflict"),
    };
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": reason, "reason": reason, "code": status.as_u16()});
    json_answer(status, Bytes::from(body.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handler with one pod, `a`.
    fn with_pod() -> Handler {
        let handler = Handler::default();
        let created = handler.store().create(&pod_address(""), json!({"metadata": {"name": "a"}}));
        assert!(created.is_ok());
        handler
    }

    fn status(handler: &Handler, method: &str, path: &str, body: Value) -> u16 {
        handler.carry_out(&Route::of(method, path, ""), body).status().as_u16()
    }

    #[test]
    fn each_bind_is_counted_once() {
        let handler = with_pod();
        let path = "/api/v1/namespaces/bench/pods/a/binding";
        let binding = json!({"target": {"name": "node"}});
        assert_eq!(status(&handler, "POST", path, binding.clone()), 201);
        assert_eq!(status(&handler, "POST", path, binding), 409);
        assert_eq!(handler.binds.borrow().count, 1);
    }

    #[test]
    fn evicted_pod_is_gone() {
        let handler = with_pod();
        let pod = "/api/v1/namespaces/bench/pods/a";
        assert_eq!(status(&handler, "GET", pod, Value::Null), 200);
        assert_eq!(status(&handler, "POST", &format!("{pod}/eviction"), json!({})), 201);
        assert_eq!(status(&handler, "GET", pod, Value::Null), 404);
    }

    #[test]
    fn applied_object_is_created_and_then_changed() {
        let handler = Handler::default();
        let path = "/apis/scheduling.run.ai/v2/queues/q";
        let apply = |quota: u32| {
            let body = json!({"metadata": {"name": "q"}, "spec": {"quota": quota}});
            handler.carry_out(&Route::of("PATCH", path, "fieldManager=kai"), body).status()
        };
        assert_eq!((apply(1).as_u16(), apply(2).as_u16()), (200, 200));
        assert_eq!(
            status(&handler, "PATCH", "/apis/scheduling.run.ai/v2/queues/r", json!({})),
            404
        );
    }

    #[tokio::test]
    async fn watch_over_http_shows_a_pod_that_is_created_later() {
        let api = FakeApi::start().await.expect("a port");
        let config: kube::config::Kubeconfig =
            serde_json::from_str(&api.kubeconfig()).expect("a kubeconfig");
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.expect("valid");
        let client = kube::Client::try_from(config).expect("a client");
        let path = "/api/v1/pods?watch=true&sendInitialEvents=true";
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        let events = client.request_events::<crate::observer::Pod>(request).await.expect("a watch");
        let mut events = std::pin::pin!(events);
        let first = events.next().await.expect("an event").expect("no error");
        assert!(matches!(first, kube::core::WatchEvent::Bookmark(_)), "{first:?}");
        api.create_pod(json!({"metadata": {"name": "later"}})).expect("a new name");
        let second = events.next().await.expect("an event").expect("no error");
        let kube::core::WatchEvent::Added(pod) = second else { panic!("{second:?}") };
        assert_eq!(
            (pod.metadata.namespace.as_str(), pod.metadata.name.as_str()),
            ("bench", "later")
        );
    }
}
