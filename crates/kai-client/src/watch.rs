//! One watch: the list, then every change, resumed after a cut and listed again where the server no longer has the version.

use futures::StreamExt;
use http::header::{ACCEPT, HeaderValue};
use kai_core::input::{ObjectName, Text};
use kai_core::keyed_hash::KeyedSet;
use kai_core::time::Span;
use kai_translate::time::seconds;
use kai_translate::view;
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use crate::env::Env;
use crate::failure::sentence;
use crate::kinds::Kind;
use crate::observed::{Malformed, Observed};
use crate::path::escape;

/// Asks for everything that exists, then for what happens to it.
const INITIAL_EVENTS: &str =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=";
/// Annotation of the bookmark behind everything that exists.
const INITIAL_END: &str = "k8s.io/initial-events-end";
const PAGE: u32 = 500;
/// The server ends a watch after this time; a connection that says nothing for longer is dead.
const WATCH_SECONDS: i64 = 290;
/// A watch that ends sooner than this was not ended on purpose.
const SHORTEST_WATCH: Span = seconds(1);
const FIRST_DELAY: Span = Span { nanos: 250_000_000 };
const LONGEST_DELAY: Span = seconds(30);
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// One change of the cluster, as a watch reports it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A pod exists and looks like this.
    Pod(Box<view::Pod>),
    /// A node exists and looks like this.
    Node(Box<view::Node>),
    /// Another object exists and looks like this.
    Object(ObjectName, Observed),
    /// An object exists and cannot be decoded.
    Malformed(Box<Malformed>),
    /// An object is gone.
    Gone(Kind, ObjectName),
    /// All objects of a kind that existed at the start have been sent.
    Listed(Kind),
    /// The server does not have the kind, or denies reading it: `kai` treats the kind as empty. If that
    /// changes, [`Change::Listed`] follows.
    Absent(Kind),
}

/// What can be watched.
trait Watched: DeserializeOwned + Clone + Send + 'static {
    fn name(&self) -> ObjectName;
    fn version(&self) -> &str;
    fn into_change(self, kind: Kind) -> Change;
}

impl Watched for view::Pod {
    fn name(&self) -> ObjectName {
        kai_translate::pod::name(self)
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn into_change(self, _: Kind) -> Change {
        Change::Pod(Box::new(self))
    }
}

impl Watched for view::Node {
    fn name(&self) -> ObjectName {
        ObjectName::new("", self.metadata.name.as_str())
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn into_change(self, _: Kind) -> Change {
        Change::Node(Box::new(self))
    }
}

impl Watched for Value {
    fn name(&self) -> ObjectName {
        let text = |key: &str| self["metadata"][key].as_str().unwrap_or_default();
        ObjectName::new(text("namespace"), text("name"))
    }

    fn version(&self) -> &str {
        self["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }

    fn into_change(self, kind: Kind) -> Change {
        Change::decode(kind, self)
    }
}

#[derive(Deserialize)]
struct Page<K> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<K>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    more: Option<String>,
}

/// Why a watch stopped.
enum Stop {
    /// The receiver of the changes was dropped.
    ReceiverDropped,
    /// The resource version is too old (410): list again.
    Expired,
    /// The watch ended at once without an event: repeating it at once might loop.
    EmptyWatch,
    /// Something else went wrong.
    Failed(Box<kube::Error>),
}

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 410 => Self::Expired,
            _ => Self::Failed(Box::new(error)),
        }
    }
}

/// What was sent about a kind as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KindState {
    Unknown,
    Listed,
    Absent,
}

/// How the objects that exist at the start are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// By the watch itself (`WatchList`), object by object and in one request. Falls back to pages if the server rejects that.
    #[default]
    Streamed,
    /// In pages of 500 objects.
    Paged,
}

/// Watches a kind while its changes are received.
pub async fn watch(client: Client, env: Env, kind: Kind, lists: Lists, sink: Sender<Change>) {
    match kind {
        Kind::Pod => Watcher::<view::Pod>::new(client, env, kind, lists, sink).run().await,
        Kind::Node => Watcher::<view::Node>::new(client, env, kind, lists, sink).run().await,
        _ => Watcher::<Value>::new(client, env, kind, lists, sink).run().await,
    }
}

/// Sends all objects of a kind that exist now, and ends.
pub async fn list(
    client: Client,
    env: Env,
    kind: Kind,
    sink: Sender<Change>,
) -> Result<(), kube::Error> {
    let lists = Lists::Paged;
    match kind {
        Kind::Pod => Watcher::<view::Pod>::new(client, env, kind, lists, sink).once().await,
        Kind::Node => Watcher::<view::Node>::new(client, env, kind, lists, sink).once().await,
        _ => Watcher::<Value>::new(client, env, kind, lists, sink).once().await,
    }
}

struct Watcher<K> {
    client: Client,
    env: Env,
    kind: Kind,
    lists: Lists,
    sink: Sender<Change>,
    /// Names of the objects that were sent and are not gone.
    known: KeyedSet<ObjectName>,
    /// Namespace of the latest object: names of one namespace share its text.
    namespace: Text,
    /// Resource version to continue from; none: list again.
    version: Option<String>,
    kind_state: KindState,
    failures: u32,
    watched: std::marker::PhantomData<fn() -> K>,
}

impl<K: Watched> Watcher<K> {
    fn new(client: Client, env: Env, kind: Kind, lists: Lists, sink: Sender<Change>) -> Self {
        Self {
            client,
            env,
            kind,
            lists,
            sink,
            known: KeyedSet::default(),
            namespace: Text::default(),
            version: None,
            kind_state: KindState::Unknown,
            failures: 0,
            watched: std::marker::PhantomData,
        }
    }

    async fn run(mut self) {
        loop {
            match self.step().await {
                Ok(()) => self.failures = 0,
                Err(Stop::ReceiverDropped) => return,
                Err(Stop::Expired) => self.version = None,
                Err(Stop::Failed(error)) => {
                    if self.is_absent(&error) {
                        if self.send_absent().await.is_err() {
                            return;
                        }
                        self.env.sleep(LONGEST_DELAY).await;
                        continue;
                    }
                    self.pause(&sentence(*error)).await;
                }
                Err(Stop::EmptyWatch) => {
                    self.pause("the server closed it at once without an event").await;
                }
            }
        }
    }

    async fn pause(&mut self, error: &str) {
        self.failures += 1;
        let kind = self.kind.name();
        tracing::warn!(kind, error, failures = self.failures, "a watch was cut");
        self.env.sleep(delay(self.failures)).await;
    }

    /// Lists once. A list that expires half-way (410) starts again.
    async fn once(mut self) -> Result<(), kube::Error> {
        loop {
            match self.list().await {
                Ok(()) | Err(Stop::ReceiverDropped) => return Ok(()),
                Err(Stop::Expired | Stop::EmptyWatch) => {}
                Err(Stop::Failed(error)) if self.is_absent(&error) => {
                    let _ = self.send_absent().await;
                    return Ok(());
                }
                Err(Stop::Failed(error)) => return Err(*error),
            }
        }
    }

    fn is_absent(&self, error: &kube::Error) -> bool {
        let code = if let kube::Error::Api(status) = error { status.code } else { 0 };
        if code == 403 && self.kind.may_be_forbidden() {
            if self.kind_state != KindState::Absent {
                let kind = self.kind.name();
                tracing::warn!(kind, "the account may not read this kind, continuing without it");
            }
            return true;
        }
        code == 404 && self.kind.may_be_absent()
    }

    async fn send_absent(&mut self) -> Result<(), Stop> {
        self.version = None;
        for name in in_order(std::mem::take(&mut self.known)) {
            self.send(Change::Gone(self.kind, name)).await?;
        }
        if self.kind_state == KindState::Absent {
            return Ok(());
        }
        self.kind_state = KindState::Absent;
        self.send(Change::Absent(self.kind)).await
    }

    /// Lists, or continues the watch from the last version.
    async fn step(&mut self) -> Result<(), Stop> {
        match (self.version.clone(), self.lists) {
            (Some(version), _) => {
                let from = format!("resourceVersion={}", escape(&version));
                self.follow(&from, None).await
            }
            (None, Lists::Paged) => self.list().await,
            (None, Lists::Streamed) => {
                let streamed = self.follow(INITIAL_EVENTS, Some(KeyedSet::default())).await;
                match streamed {
                    Err(Stop::Failed(error)) if is_unsupported(&error) => {
                        let kind = self.kind.name();
                        tracing::debug!(kind, %error, "the server does not stream lists, listing page by page");
                        self.lists = Lists::Paged;
                        Ok(())
                    }
                    ended => ended,
                }
            }
        }
    }

    async fn list(&mut self) -> Result<(), Stop> {
        let mut listed = KeyedSet::default();
        let mut more: Option<String> = None;
        let version = loop {
            let mut query = format!("limit={PAGE}");
            if let Some(token) = more.take() {
                query = format!("{query}&continue={}", escape(&token));
            }
            let page: Page<K> = self.client.request(self.request(&query, METADATA_LIST)?).await?;
            for item in page.items {
                let name = self.name_of(&item);
                // Known from now on: if a later page fails, the next list shows whether it still exists.
                self.known.insert(name.clone());
                listed.insert(name);
                self.send(item.into_change(self.kind)).await?;
            }
            match page.metadata.more.filter(|token| !token.is_empty()) {
                Some(token) => more = Some(token),
                None => break page.metadata.resource_version,
            }
        };
        self.end_list(listed, version).await
    }

    /// All existing objects were sent: known objects that were not listed are gone.
    async fn end_list(
        &mut self,
        listed: KeyedSet<ObjectName>,
        version: String,
    ) -> Result<(), Stop> {
        let known = std::mem::take(&mut self.known);
        let gone = known.into_iter().filter(|name| !listed.contains(name));
        for name in in_order(gone) {
            self.send(Change::Gone(self.kind, name)).await?;
        }
        self.known = listed;
        self.version = Some(version);
        if self.kind_state != KindState::Listed {
            self.kind_state = KindState::Listed;
            self.send(Change::Listed(self.kind)).await?;
        }
        Ok(())
    }

    /// Watches from the position `from`. `listed` holds the objects received so far until the initial list is complete.
    async fn follow(
        &mut self,
        from: &str,
        mut listed: Option<KeyedSet<ObjectName>>,
    ) -> Result<(), Stop> {
        let query =
            format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&{from}");
        let request = self.request(&query, METADATA)?;
        let events = self.client.request_events::<K>(request).await?;
        let mut events = std::pin::pin!(events);
        let silence = seconds(WATCH_SECONDS + 15);
        let (begin, mut is_empty) = (self.env.now(), true);
        loop {
            let event = tokio::select! { biased;
                () = self.sink.closed() => return Err(Stop::ReceiverDropped),
                event = events.next() => event,
                () = self.env.sleep(silence) => return Ok(()),
            };
            match event {
                Some(Ok(event)) => match listed.take() {
                    None => {
                        self.take(event).await?;
                        // The watch works: what cuts it later has nothing to do with earlier failures.
                        self.failures = 0;
                    }
                    Some(so_far) => listed = self.take_initial(event, so_far).await?,
                },
                Some(Err(error)) => return Err(error.into()),
                None if is_empty && self.env.now().since(begin) < SHORTEST_WATCH => {
                    return Err(Stop::EmptyWatch);
                }
                None => return Ok(()),
            }
            is_empty = false;
        }
    }

    /// Applies an event of the initial list; returns the objects received so far, or none at the end of the list.
    async fn take_initial(
        &mut self,
        event: WatchEvent<K>,
        mut listed: KeyedSet<ObjectName>,
    ) -> Result<Option<KeyedSet<ObjectName>>, Stop> {
        match event {
            WatchEvent::Bookmark(bookmark) => {
                if !bookmark.metadata.annotations.contains_key(INITIAL_END) {
                    return Ok(Some(listed));
                }
                self.end_list(listed, bookmark.metadata.resource_version).await?;
                return Ok(None);
            }
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let name = self.name_of(&object);
                self.known.insert(name.clone());
                listed.insert(name);
                self.send(object.into_change(self.kind)).await?;
            }
            WatchEvent::Deleted(object) => {
                let name = object.name();
                listed.remove(&name);
                self.known.remove(&name);
                self.send(Change::Gone(self.kind, name)).await?;
            }
            WatchEvent::Error(_) => self.take(event).await?,
        }
        Ok(Some(listed))
    }

    async fn take(&mut self, event: WatchEvent<K>) -> Result<(), Stop> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let version = object.version().to_owned();
                let name = self.name_of(&object);
                self.known.insert(name);
                self.send(object.into_change(self.kind)).await?;
                self.version = Some(version);
            }
            WatchEvent::Deleted(object) => {
                let version = object.version().to_owned();
                self.known.remove(&object.name());
                self.send(Change::Gone(self.kind, object.name())).await?;
                self.version = Some(version);
            }
            WatchEvent::Bookmark(bookmark) => {
                self.version = Some(bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) if status.code == 410 => return Err(Stop::Expired),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        }
        Ok(())
    }

    fn name_of(&mut self, object: &K) -> ObjectName {
        let mut name = object.name();
        if name.namespace == self.namespace {
            name.namespace.clone_from(&self.namespace);
        } else {
            self.namespace.clone_from(&name.namespace);
        }
        name
    }

    async fn send(&self, change: Change) -> Result<(), Stop> {
        self.sink.send(change).await.map_err(|_| Stop::ReceiverDropped)
    }

    fn request(&self, query: &str, metadata: &'static str) -> Result<http::Request<Vec<u8>>, Stop> {
        let path = self.kind.path();
        let mut uri = format!("{path}?{query}");
        if let Some(selector) = self.kind.field_selector() {
            uri = format!("{uri}&fieldSelector={}", escape(selector));
        }
        let mut request =
            http::Request::get(uri).body(Vec::new()).map_err(kube::Error::HttpError)?;
        if self.kind.is_metadata_only() {
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static(metadata));
        }
        Ok(request)
    }
}

/// The server does not support the request; it does not say that the kind does not exist.
fn is_unsupported(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422))
}

/// Names in their order: the world is to see the same changes in each run.
fn in_order(names: impl IntoIterator<Item = ObjectName>) -> Vec<ObjectName> {
    let mut names: Vec<ObjectName> = names.into_iter().collect();
    names.sort_unstable();
    names
}

/// A quarter of a second, doubled with every failure.
fn delay(failures: u32) -> Span {
    let doubled = FIRST_DELAY.nanos.saturating_mul(1 << failures.saturating_sub(1).min(16));
    Span { nanos: doubled.min(LONGEST_DELAY.nanos) }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;
    use tokio::sync::mpsc::channel;
    use tokio::time::{Duration, Instant};

    use super::*;

    #[test]
    fn delays_double_up_to_half_a_minute() {
        let delays: Vec<i64> = [1, 2, 3, 8, 9, 40].map(|n| delay(n).nanos / 1_000_000).to_vec();
        assert_eq!(delays, [250, 500, 1000, 30_000, 30_000, 30_000]);
    }

    /// The end of the list, a change, and an error of the server.
    fn list_change_and_error() -> String {
        let metadata =
            json!({"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}});
        let events = [
            json!({"type": "BOOKMARK", "object": {"apiVersion": "v2", "kind": "Queue", "metadata": metadata}}),
            json!({"type": "ADDED", "object": {"metadata": {"name": "q", "resourceVersion": "8"}}}),
            json!({"type": "ERROR", "object": {"status": "Failure", "code": 500, "message": "why"}}),
        ];
        events.map(|event| format!("{event}\n")).concat()
    }

    /// The fifth watch works for a while, all others fail.
    #[tokio::test(start_paused = true)]
    async fn failures_before_a_watch_that_worked_delay_nothing() {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let moments = Arc::clone(&requests);
        let server = tower::service_fn(move |_: http::Request<Body>| {
            let mut moments = moments.lock().expect("a list");
            moments.push(Instant::now());
            let works = moments.len() == 5;
            async move {
                let (status, body) = if works {
                    (StatusCode::OK, list_change_and_error())
                } else {
                    let failure = json!({"status": "Failure", "code": 500, "message": "why"});
                    (StatusCode::INTERNAL_SERVER_ERROR, failure.to_string())
                };
                let answer = Response::builder().status(status).body(Body::from(body.into_bytes()));
                answer.map_err(tower::BoxError::from)
            }
        });
        let client = Client::new(server, "default");
        let (sink, mut changes) = channel(10);
        let watch = watch(client, Env::real(), Kind::Queue, Lists::Streamed, sink);
        let watch = tokio::spawn(watch);
        tokio::time::sleep(Duration::from_secs(5)).await;
        watch.abort();
        assert_eq!(changes.recv().await, Some(Change::Listed(Kind::Queue)));
        let moments = requests.lock().expect("a list").clone();
        let delays = moments.windows(2).map(|pair| (pair[1] - pair[0]).as_millis());
        assert_eq!(delays.collect::<Vec<_>>()[..6], [250, 500, 1000, 2000, 250, 500]);
    }
}
