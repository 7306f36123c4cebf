//! Carries writes out: a limit per class, a deadline, one policy of repetition, one reading of answers.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use kai_api::function::Function;
use kai_core::time::Span;
use kai_translate::time::seconds;
use kube::Client;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::body::{Request, request};
use super::{Class, Identity, Target, Write};
use crate::client::USER_AGENT_NAME;
use crate::env::Env;
use crate::failure::Failure;

/// How a write ended: what was read from the answer of the API server, or why it failed.
pub type Outcome<T> = Result<T, Failure>;

/// Longest time for one attempt of a write.
const DEADLINE: Span = seconds(30);
/// Attempts of a write that the API server was not able to take.
const ATTEMPTS: u32 = 3;
/// The pause after the first attempt; it doubles.
const FIRST_PAUSE: Span = Span { nanos: 250_000_000 };

/// How many writes of a class may be under way, for all controllers of a process together.
#[derive(Clone, Debug)]
pub struct Limits {
    binds: Arc<Semaphore>,
    bind_requests: Arc<Semaphore>,
    evictions: Arc<Semaphore>,
    statuses: Arc<Semaphore>,
    objects: Arc<Semaphore>,
}

/// Writes under way per class.
const BINDS: usize = 96;
/// Fewer than binds, so that those that have begun end first.
const BIND_REQUESTS: usize = 16;
const EVICTIONS: usize = 64;
const STATUSES: usize = 32;
const OBJECTS: usize = 64;

impl Default for Limits {
    fn default() -> Self {
        let limit = |count| Arc::new(Semaphore::new(count));
        Self {
            binds: limit(BINDS),
            bind_requests: limit(BIND_REQUESTS),
            evictions: limit(EVICTIONS),
            statuses: limit(STATUSES),
            objects: limit(OBJECTS),
        }
    }
}

impl Limits {
    fn of(&self, class: Class) -> (&Semaphore, usize) {
        match class {
            Class::Bind => (&self.binds, BINDS),
            Class::BindRequest => (&self.bind_requests, BIND_REQUESTS),
            Class::Evict => (&self.evictions, EVICTIONS),
            Class::Status => (&self.statuses, STATUSES),
            Class::Object => (&self.objects, OBJECTS),
        }
    }

    /// Waits until no write is under way.
    pub async fn idle(&self) {
        for class in [Class::BindRequest, Class::Bind, Class::Evict, Class::Object, Class::Status] {
            let (limit, count) = self.of(class);
            let _ = limit.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await;
        }
    }
}

/// Executor of all writes: limits per class, deadlines and retries.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    env: Env,
    limits: Limits,
    /// How its writes introduce themselves; none: as the process does.
    agent: Option<HeaderValue>,
}

impl Writer {
    /// A writer that shares these limits with others.
    pub fn new(client: Client, env: Env, limits: Limits) -> Self {
        Self { client, env, limits, agent: None }
    }

    /// The same writer, whose writes name a function of the process in their user agent, so that audit logs distinguish them.
    #[must_use]
    pub fn named(mut self, function: Function) -> Self {
        let agent = format!("{USER_AGENT_NAME} ({})", function.name());
        self.agent = HeaderValue::from_str(&agent).ok();
        self
    }

    /// The client, for reads.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Carries a write out. Where the API server was not able to take it, the write is repeated a few times; one that may have
    /// been executed only if it is idempotent. The object in the answer is not decoded: few callers read it, and a pod is large.
    pub async fn write(&self, write: &Write) -> Outcome<()> {
        self.send::<IgnoredAny>(write).await.map(drop)
    }

    /// Carries a write out and reads the answer as an object of a known type.
    pub async fn write_as<T: DeserializeOwned>(&self, write: &Write) -> Outcome<T> {
        let answer = self.send(write).await?;
        answer.ok_or_else(|| Failure::Unreadable {
            reason: "there is no object in the answer".to_owned(),
        })
    }

    /// Carries a write out; the answer, or none where there was nothing to remove.
    async fn send<T: DeserializeOwned>(&self, write: &Write) -> Outcome<Option<T>> {
        let request =
            request(write).map_err(|error| Failure::Unreadable { reason: error.to_string() })?;
        let request = &request;
        let attempt =
            move || async move { read_outcome(write, self.attempt(write.class(), request).await) };
        match self.repeat(&request.path, write.may_be_done_twice(), attempt).await {
            Err(Failure::Conflict { reason }) => {
                self.read_conflict(write, reason).await.map(|()| None)
            }
            outcome => outcome,
        }
    }

    /// Makes a few attempts where the API server was not able to take a request.
    async fn repeat<T, Answer: Future<Output = Outcome<T>>>(
        &self,
        path: &str,
        may_be_done_twice: bool,
        request: impl Fn() -> Answer,
    ) -> Outcome<T> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..ATTEMPTS {
            match request().await {
                Err(failure) if failure.is_worth_repeating(may_be_done_twice) => {
                    tracing::debug!(path, %failure, attempt, "repeating a request");
                }
                outcome => return outcome,
            }
            self.env.sleep(pause).await;
            pause = Span { nanos: pause.nanos * 2 };
        }
        request().await
    }

    /// Reads an object; none where it does not exist. Repeated like a write.
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> Outcome<Option<T>> {
        self.repeat(path, true, || read(&self.client, path)).await
    }

    async fn attempt<T: DeserializeOwned>(&self, class: Class, request: &Request) -> Outcome<T> {
        let (limit, _) = self.limits.of(class);
        let _permit = limit.acquire().await;
        let mut builder = http::Request::builder()
            .method(request.method.clone())
            .uri(&request.path)
            .header(CONTENT_TYPE, HeaderValue::from_static(request.content_type));
        if let Some(agent) = &self.agent {
            builder = builder.header(USER_AGENT, agent);
        }
        let request = builder
            .body(request.body.clone())
            .map_err(|error| Failure::from(kube::Error::HttpError(error)))?;
        // On the heap: writes that wait for their turn would have the memory of a request, and there may be 100,000 of them.
        let answer = Box::pin(self.client.request(request));
        tokio::select! { biased;
            answer = answer => Ok(answer?),
            () = self.env.sleep(DEADLINE) => Err(Failure::TimedOutMaybeDone),
        }
    }

    /// A conflict of a removal: another object has the name, and the target is gone; or the target is there, and the API server
    /// could not remove it just now.
    async fn read_conflict(&self, write: &Write, reason: String) -> Outcome<()> {
        let conflict = Failure::Conflict { reason };
        let Write::Delete(target, _) = write else { return Err(conflict) };
        let (Identity::Uid(uid) | Identity::Version { uid, .. }) = &target.identity else {
            return Err(conflict);
        };
        if self.exists(target, uid).await? { Err(conflict) } else { Ok(()) }
    }

    async fn exists(&self, target: &Target, uid: &str) -> Outcome<bool> {
        let found: Option<Value> = self.read(&target.path()).await?;
        Ok(found.is_some_and(|object| object["metadata"]["uid"] == uid))
    }
}

/// Reads an object; none where it does not exist.
pub async fn read<T: DeserializeOwned>(client: &Client, path: &str) -> Outcome<Option<T>> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Failure::from(kube::Error::HttpError(error)))?;
    match client.request(request).await.map_err(Failure::from) {
        Ok(object) => Ok(Some(object)),
        Err(Failure::Gone { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What an answer means depends on the write in two cases: a removal has succeeded where there is nothing to remove, and the
/// eviction API answers 429 for a disruption budget.
fn read_outcome<T>(write: &Write, outcome: Outcome<T>) -> Outcome<Option<T>> {
    match (write, outcome) {
        (Write::Evict(_) | Write::Delete(..), Err(Failure::Gone { .. })) => Ok(None),
        (Write::Evict(_), Err(Failure::Throttled { reason })) => Err(Failure::Denied { reason }),
        (_, outcome) => outcome.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use http::{Method, Response, StatusCode};
    use kai_core::input::ObjectName;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::{Duration, Instant, timeout};

    use super::super::{BindPod, Delete, Patch};
    use super::*;
    use crate::path::Resource;

    type ReceivedMethods = Arc<Mutex<Vec<String>>>;

    /// A writer whose API server answers with these codes in turn, and the methods it received; 0: it never answers.
    fn writer(codes: &[u16]) -> (Writer, ReceivedMethods) {
        let received = ReceivedMethods::default();
        let codes: VecDeque<u16> = codes.iter().copied().collect();
        let codes = Arc::new(Mutex::new(codes));
        let methods = Arc::clone(&received);
        let server = tower::service_fn(move |request: http::Request<Body>| {
            methods.lock().expect("a list").push(request.method().to_string());
            let code = codes.lock().expect("codes").pop_front().unwrap_or(200);
            async move {
                if code == 0 {
                    std::future::pending::<()>().await;
                }
                let body = match (code, request.method()) {
                    (200, _) => json!({"metadata": {"uid": "other"}}),
                    _ => json!({"status": "Failure", "code": code, "message": "why"}),
                };
                let status = StatusCode::from_u16(code).expect("a code");
                let answer = Response::builder()
                    .status(status)
                    .body(Body::from(body.to_string().into_bytes()));
                answer.map_err(tower::BoxError::from)
            }
        });
        let client = Client::new(server, "default");
        (Writer::new(client, Env::real(), Limits::default()), received)
    }

    fn target() -> Target {
        Target::of_uid(Resource::PODS, &ObjectName::new("team", "p"), "u")
    }

    fn bind() -> Write {
        let pod = ObjectName::new("team", "p");
        let (labels, annotations) = Default::default();
        Write::Bind(BindPod { pod, uid: "u".into(), node: "n".into(), labels, annotations })
    }

    fn status() -> Write {
        Write::Patch(target(), Patch::status(&json!({})))
    }

    fn methods(received: &ReceivedMethods) -> Vec<String> {
        received.lock().expect("a list").clone()
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_write_is_repeated_with_pauses() {
        let (writer, received) = writer(&[429, 429]);
        let began = Instant::now();
        assert!(writer.write(&bind()).await.is_ok());
        assert_eq!(methods(&received).len(), 3);
        assert_eq!(began.elapsed().as_millis(), 750);
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_write_ends_after_three_attempts() {
        let (writer, received) = writer(&[429; 9]);
        assert_eq!(
            writer.write(&bind()).await,
            Err(Failure::Throttled { reason: "why".to_owned() })
        );
        assert_eq!(methods(&received).len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_request_is_repeated_if_it_is_idempotent() {
        let (server, received) = writer(&[500, 503]);
        assert!(server.write(&status()).await.is_ok());
        assert_eq!(methods(&received).len(), 3);
        let (server, received) = writer(&[500]);
        assert!(server.write(&bind()).await.is_err(), "it may have been bound");
        assert_eq!(methods(&received).len(), 1);
        let (server, received) = writer(&[500, 429]);
        assert!(server.read::<Value>("/api/v1/namespaces/a/pods/p").await.is_ok());
        assert_eq!(methods(&received).len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn write_without_an_answer_is_not_repeated() {
        let (writer, received) = writer(&[0]);
        assert_eq!(writer.write(&bind()).await, Err(Failure::TimedOutMaybeDone));
        assert_eq!(methods(&received).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn disruption_budget_denies_an_eviction_at_once() {
        let (writer, received) = writer(&[429]);
        let denied = Failure::Denied { reason: "why".to_owned() };
        assert_eq!(writer.write(&Write::Evict(target())).await, Err(denied));
        assert_eq!(methods(&received).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn removal_of_a_replaced_object_has_succeeded() {
        let delete = Write::Delete(target(), Delete::default());
        let (gone, _) = writer(&[404]);
        assert!(gone.write(&delete).await.is_ok());
        let (replaced, received) = writer(&[409]);
        assert!(replaced.write(&delete).await.is_ok());
        assert_eq!(methods(&received), [Method::DELETE.as_str(), Method::GET.as_str()]);
    }

    #[tokio::test(start_paused = true)]
    async fn bind_does_not_wait_behind_statuses() {
        let mut codes = vec![0; STATUSES];
        codes.push(200);
        let (writer, received) = writer(&codes);
        for _ in 0..STATUSES + 5 {
            let writer = writer.clone();
            tokio::spawn(async move { writer.write(&status()).await });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(methods(&received).len(), STATUSES, "the limit of statuses");
        let bound = timeout(Duration::from_millis(1), writer.write(&bind())).await;
        assert!(bound.is_ok_and(|outcome| outcome.is_ok()), "a bind waits behind statuses");
    }
}
