//! The cluster behind a `tower` service: any client can talk to it, with or without a connection.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT, WARNING};
use http_body::Frame;
use http_body_util::{BodyExt, Collected};
use k8s_openapi::jiff::Timestamp;

use crate::api::{Answer, Query, ReceivedFields, Request, Watch, WatchLine};
use crate::cluster::Cluster;
use crate::store::ResourceId;

/// Clock of the cluster.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A cluster that several clients share.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
    received_fields: ReceivedFields,
}

struct Shared {
    state: Mutex<State>,
    clock: Clock,
}

struct State {
    cluster: Cluster,
    /// Watches that wait for a write of their resource.
    waiting: BTreeMap<ResourceId, Vec<Waker>>,
    /// Waker of the task that waits for the next alarm, and the alarm that it knows.
    driver: Option<(Waker, Option<Timestamp>)>,
    /// When a watch has something to say although nothing happens.
    watch_alarm: Option<Timestamp>,
}

impl Embedded {
    /// Shares a cluster. `clock` is read at every request.
    pub fn new(cluster: Cluster, clock: Clock) -> Self {
        let state = State { cluster, waiting: BTreeMap::new(), driver: None, watch_alarm: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), clock });
        Self { shared, received_fields: ReceivedFields::All }
    }

    /// The same cluster for clients that receive these fields.
    #[must_use]
    pub fn with_received_fields(self, received_fields: ReceivedFields) -> Self {
        Self { received_fields, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the cluster as it was left by the latest request; no time passes.
    pub fn peek<T>(&self, read: impl FnOnce(&Cluster) -> T) -> T {
        read(&self.lock().cluster)
    }

    /// Does something with the cluster as it is now.
    pub fn with<T>(&self, act: impl FnOnce(&mut Cluster, Timestamp) -> T) -> T {
        let now = (self.shared.clock)();
        let mut state = self.lock();
        state.cluster.pass_time(now);
        let done = act(&mut state.cluster, now);
        state.cluster.settle();
        let woken = state.take_woken(now);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        done
    }

    /// Answers a request at the current time of the clock.
    pub fn request(&self, request: &Request) -> Answer {
        self.with(|cluster, now| cluster.request(request, now))
    }

    /// Lets things happen at their time, for ever. `sleep` waits.
    pub async fn drive<S, F>(self, sleep: S)
    where
        S: Fn(Duration) -> F,
        F: Future<Output = ()> + Unpin,
    {
        loop {
            let alarm = self.alarm();
            let earlier = Earlier { embedded: &self, than: alarm };
            let Some(alarm) = alarm else {
                earlier.await;
                continue;
            };
            let wait = alarm.duration_since((self.shared.clock)());
            match Duration::try_from(wait) {
                Ok(wait) if !wait.is_zero() => match select(sleep(wait), earlier).await {
                    Either::Left(_) | Either::Right(_) => {}
                },
                _ => self.with(|_, _| ()),
            }
        }
    }

    /// When something happens by itself.
    fn alarm(&self) -> Option<Timestamp> {
        self.lock().alarm()
    }
}

impl State {
    fn alarm(&self) -> Option<Timestamp> {
        [self.cluster.next_alarm(), self.watch_alarm].into_iter().flatten().min()
    }

    /// The tasks for which something happened: watches of written resources, and the driver if an alarm is earlier than the one
    /// it knows.
    fn take_woken(&mut self, now: Timestamp) -> Vec<Waker> {
        let written = self.cluster.store.take_written();
        let mut woken: Vec<Waker> = if self.watch_alarm.is_some_and(|alarm| alarm <= now) {
            // Woken watches set their next alarm again.
            self.watch_alarm = None;
            std::mem::take(&mut self.waiting).into_values().flatten().collect()
        } else {
            written.iter().filter_map(|resource| self.waiting.remove(resource)).flatten().collect()
        };
        let alarm = self.alarm();
        if let Some((driver, _)) = self.driver.take_if(|(_, known)| is_earlier(alarm, *known)) {
            woken.push(driver);
        }
        woken
    }

    /// A watch waits for a write of its resource, or for this moment.
    fn wait(&mut self, watch: &Watch, waker: &Waker, alarm: Timestamp, now: Timestamp) {
        let wakers = self.waiting.entry(watch.resource().clone()).or_default();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.wake_watches_at(alarm, now);
    }

    /// A watch has something to say at this moment although nothing happens.
    fn wake_watches_at(&mut self, alarm: Timestamp, now: Timestamp) {
        let known = self.watch_alarm.filter(|known| *known > now);
        if known.is_none_or(|known| alarm < known) {
            self.watch_alarm = Some(alarm);
            if let Some((driver, _)) = self.driver.take() {
                driver.wake();
            }
        }
    }
}

/// Done when an alarm is set that is earlier than the one known.
struct Earlier<'a> {
    embedded: &'a Embedded,
    than: Option<Timestamp>,
}

impl Future for Earlier<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.embedded.lock();
        if is_earlier(state.alarm(), self.than) {
            return Poll::Ready(());
        }
        state.driver = Some((context.waker().clone(), self.than));
        Poll::Pending
    }
}

fn is_earlier(alarm: Option<Timestamp>, than: Option<Timestamp>) -> bool {
    alarm.is_some_and(|alarm| than.is_none_or(|than| alarm < than))
}

/// The body of an answer.
pub enum AnswerBody {
    /// The whole body, until it is taken.
    Whole(Option<Bytes>),
    /// Line by line, as things happen.
    Watch(Box<Watch>, Embedded),
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watch(watch, embedded) => {
                let now = (embedded.shared.clock)();
                let mut state = embedded.lock();
                match watch.next(&state.cluster, now) {
                    WatchLine::Event(event) => {
                        drop(state);
                        Poll::Ready(Some(Ok(Frame::data(Bytes::from(
                            event.line(embedded.received_fields),
                        )))))
                    }
                    WatchLine::End => Poll::Ready(None),
                    WatchLine::NotYet(alarm) => {
                        state.wait(watch, context.waker(), alarm, now);
                        Poll::Pending
                    }
                }
            }
        }
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

impl Embedded {
    async fn serve<B>(
        self,
        request: http::Request<B>,
    ) -> Result<http::Response<AnswerBody>, Infallible>
    where
        B: http_body::Body + Send,
        B::Data: Send,
    {
        let (parts, body) = request.into_parts();
        // A body that breaks off is read as an empty body, and rejected as such.
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        let request = Request {
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            accept: header(&parts.headers, &ACCEPT),
            content_type: header(&parts.headers, &CONTENT_TYPE),
            user_agent: header(&parts.headers, &USER_AGENT),
            body,
        };
        let answer = self.request(&request);
        let fields = match request.method.as_str() {
            "GET" | "HEAD" => ReceivedFields::All,
            _ => self.received_fields,
        };
        Ok(self.response(answer, fields))
    }

    fn response(self, answer: Answer, fields: ReceivedFields) -> http::Response<AnswerBody> {
        let (code, content, warnings, body) = match answer {
            Answer::Object { code, object, warnings } => {
                let mut json = Vec::new();
                fields.write_json(&object, &mut json);
                let body = AnswerBody::Whole(Some(Bytes::from(json)));
                (code, "application/json", warnings, body)
            }
            Answer::Text(code, text) => {
                (code, "text/plain", Vec::new(), AnswerBody::Whole(Some(Bytes::from(text))))
            }
            Answer::Watch(watch) => {
                (200, "application/json", Vec::new(), AnswerBody::Watch(watch, self))
            }
        };
        let mut response = http::Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content));
        for warning in warnings {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {warning:?}")) {
                response.headers_mut().append(WARNING, value);
            }
        }
        response
    }
}

impl<B> tower::Service<http::Request<B>> for Embedded
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
{
    type Response = http::Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(self.clone().serve(request))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use http_body::Body;
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_watch_is_woken_by_writes_of_its_resource_only() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let embedded = Embedded::new(Cluster::new(1, now), Arc::new(move || now));
        let folder = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
        let request = Request::get(&format!("{}?watch=true", folder("configmaps")));
        let Answer::Watch(watch) = embedded.request(&request) else { panic!("no watch") };
        let mut body = AnswerBody::Watch(watch, embedded.clone());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut poll = || Pin::new(&mut body).poll_frame(&mut Context::from_waker(&waker));
        let create = |plural: &str| {
            let object = json!({"metadata": {"name": "x"}});
            embedded.request(&Request::send("POST", &folder(plural), &object));
        };
        assert!(poll().is_pending());
        create("secrets");
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        create("configmaps");
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(poll().is_ready() && poll().is_pending());
    }
}
