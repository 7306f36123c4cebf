//! One watch: the list, then every change, resumed after a cut and listed anew where the server forgot.

use std::collections::BTreeSet;

use futures::StreamExt;
use http::header::{ACCEPT, HeaderValue};
use kai_core::input::ObjectName;
use kai_core::time::Span;
use kai_translate::device_versions::into_v1;
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

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A pod exists and looks like this.
    Pod(Box<view::Pod>),
    /// A node exists and looks like this.
    Node(Box<view::Node>),
    /// Another object exists and looks like this.
    Object(Kind, Box<Value>),
    /// An object is gone.
    Gone(Kind, ObjectName),
    /// Everything of a kind that existed at first has been told.
    Listed(Kind),
    /// The server does not know the kind, or does not let us read it: as far as we are concerned there are none. If that
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

    fn into_change(mut self, kind: Kind) -> Change {
        if kind.is_about_devices() {
            into_v1(&mut self);
        }
        Change::Object(kind, Box::new(self))
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
    /// Nobody listens any more.
    Unheard,
    /// The server forgot where we were.
    Forgotten,
    /// It ended at once without an event: asking again at once might repeat for ever.
    Mute,
    /// Something else went wrong.
    Failed(Box<kube::Error>),
}

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 410 => Self::Forgotten,
            _ => Self::Failed(Box::new(error)),
        }
    }
}

/// What was told of a kind as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Listed,
    Absent,
}

/// How everything that exists is learnt at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// By the watch itself (`WatchList`), object by object and in one request. Where the server refuses that, by pages.
    #[default]
    Streamed,
    /// By pages.
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

/// Tells everything of a kind that exists now, and ends.
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
    /// What was told and not taken back.
    known: BTreeSet<ObjectName>,
    /// Where to go on; none: list anew.
    version: Option<String>,
    told: Told,
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
            known: BTreeSet::new(),
            version: None,
            told: Told::Nothing,
            failures: 0,
            watched: std::marker::PhantomData,
        }
    }

    async fn run(mut self) {
        loop {
            match self.step().await {
                Ok(()) => self.failures = 0,
                Err(Stop::Unheard) => return,
                Err(Stop::Forgotten) => self.version = None,
                Err(Stop::Failed(error)) => {
                    if self.is_absent(&error) {
                        if self.tell_absent().await.is_err() {
                            return;
                        }
                        self.env.sleep(LONGEST_DELAY).await;
                        continue;
                    }
                    self.pause(&sentence(*error)).await;
                }
                Err(Stop::Mute) => self.pause("it ended at once and told nothing").await,
            }
        }
    }

    async fn pause(&mut self, error: &str) {
        self.failures += 1;
        let kind = self.kind.name();
        tracing::warn!(kind, error, failures = self.failures, "a watch was cut");
        self.env.sleep(delay(self.failures)).await;
    }

    /// Lists once. A list that the server forgot half-way is begun anew.
    async fn once(mut self) -> Result<(), kube::Error> {
        loop {
            match self.list().await {
                Ok(()) | Err(Stop::Unheard) => return Ok(()),
                Err(Stop::Forgotten | Stop::Mute) => {}
                Err(Stop::Failed(error)) if self.is_absent(&error) => {
                    let _ = self.tell_absent().await;
                    return Ok(());
                }
                Err(Stop::Failed(error)) => return Err(*error),
            }
        }
    }

    fn is_absent(&self, error: &kube::Error) -> bool {
        let code = if let kube::Error::Api(status) = error { status.code } else { 0 };
        if code == 403 && self.kind.may_be_forbidden() {
            if self.told != Told::Absent {
                let kind = self.kind.name();
                tracing::warn!(kind, "we may not read this kind, and do without");
            }
            return true;
        }
        code == 404 && self.kind.may_be_absent()
    }

    async fn tell_absent(&mut self) -> Result<(), Stop> {
        self.version = None;
        for name in std::mem::take(&mut self.known) {
            self.tell(Change::Gone(self.kind, name)).await?;
        }
        if self.told == Told::Absent {
            return Ok(());
        }
        self.told = Told::Absent;
        self.tell(Change::Absent(self.kind)).await
    }

    /// Lists, or follows from where it was.
    async fn step(&mut self) -> Result<(), Stop> {
        match (self.version.clone(), self.lists) {
            (Some(version), _) => {
                let from = format!("resourceVersion={}", escape(&version));
                self.follow(&from, None).await
            }
            (None, Lists::Paged) => self.list().await,
            (None, Lists::Streamed) => {
                let streamed = self.follow(INITIAL_EVENTS, Some(BTreeSet::new())).await;
                match streamed {
                    Err(Stop::Failed(error)) if is_refusal(&error) => {
                        let kind = self.kind.name();
                        tracing::debug!(kind, %error, "the server streams no lists: by pages");
                        self.lists = Lists::Paged;
                        Ok(())
                    }
                    ended => ended,
                }
            }
        }
    }

    async fn list(&mut self) -> Result<(), Stop> {
        let mut seen = BTreeSet::new();
        let mut more: Option<String> = None;
        let version = loop {
            let mut query = format!("limit={PAGE}");
            if let Some(token) = more.take() {
                query = format!("{query}&continue={}", escape(&token));
            }
            let page: Page<K> = self.client.request(self.request(&query, METADATA_LIST)?).await?;
            for item in page.items {
                seen.insert(item.name());
                // Known from now on: if a later page fails, the next list tells whether it still exists.
                self.known.insert(item.name());
                self.tell(item.into_change(self.kind)).await?;
            }
            match page.metadata.more.filter(|token| !token.is_empty()) {
                Some(token) => more = Some(token),
                None => break page.metadata.resource_version,
            }
        };
        self.end_list(seen, version).await
    }

    /// Everything that exists was told: what was not among it is gone.
    async fn end_list(&mut self, seen: BTreeSet<ObjectName>, version: String) -> Result<(), Stop> {
        let gone: Vec<ObjectName> = self.known.difference(&seen).cloned().collect();
        for name in gone {
            self.tell(Change::Gone(self.kind, name)).await?;
        }
        self.known = seen;
        self.version = Some(version);
        if self.told != Told::Listed {
            self.told = Told::Listed;
            self.tell(Change::Listed(self.kind)).await?;
        }
        Ok(())
    }

    /// Follows from where `from` says. `seen` is what was told so far of what exists, until all of it was.
    async fn follow(
        &mut self,
        from: &str,
        mut seen: Option<BTreeSet<ObjectName>>,
    ) -> Result<(), Stop> {
        let query =
            format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&{from}");
        let request = self.request(&query, METADATA)?;
        let events = self.client.request_events::<K>(request).await?;
        let mut events = std::pin::pin!(events);
        let silence = seconds(WATCH_SECONDS + 15);
        let (begin, mut is_mute) = (self.env.now(), true);
        loop {
            let event = tokio::select! { biased;
                () = self.sink.closed() => return Err(Stop::Unheard),
                event = events.next() => event,
                () = self.env.sleep(silence) => return Ok(()),
            };
            match event {
                Some(Ok(event)) => match seen.take() {
                    None => self.take(event).await?,
                    Some(told) => seen = self.take_initial(event, told).await?,
                },
                Some(Err(error)) => return Err(error.into()),
                None if is_mute && self.env.now().since(begin) < SHORTEST_WATCH => {
                    return Err(Stop::Mute);
                }
                None => return Ok(()),
            }
            is_mute = false;
        }
    }

    /// Takes an event of what exists; what was told so far, or none at its end.
    async fn take_initial(
        &mut self,
        event: WatchEvent<K>,
        mut seen: BTreeSet<ObjectName>,
    ) -> Result<Option<BTreeSet<ObjectName>>, Stop> {
        match event {
            WatchEvent::Bookmark(bookmark) => {
                if !bookmark.metadata.annotations.contains_key(INITIAL_END) {
                    return Ok(Some(seen));
                }
                self.end_list(seen, bookmark.metadata.resource_version).await?;
                return Ok(None);
            }
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                seen.insert(object.name());
                self.known.insert(object.name());
                self.tell(object.into_change(self.kind)).await?;
            }
            WatchEvent::Deleted(object) => {
                seen.remove(&object.name());
                self.known.remove(&object.name());
                self.tell(Change::Gone(self.kind, object.name())).await?;
            }
            WatchEvent::Error(_) => self.take(event).await?,
        }
        Ok(Some(seen))
    }

    async fn take(&mut self, event: WatchEvent<K>) -> Result<(), Stop> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let version = object.version().to_owned();
                self.known.insert(object.name());
                self.tell(object.into_change(self.kind)).await?;
                self.version = Some(version);
            }
            WatchEvent::Deleted(object) => {
                let version = object.version().to_owned();
                self.known.remove(&object.name());
                self.tell(Change::Gone(self.kind, object.name())).await?;
                self.version = Some(version);
            }
            WatchEvent::Bookmark(bookmark) => {
                self.version = Some(bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) if status.code == 410 => return Err(Stop::Forgotten),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        }
        Ok(())
    }

    async fn tell(&self, change: Change) -> Result<(), Stop> {
        self.sink.send(change).await.map_err(|_| Stop::Unheard)
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

/// The server does not know how to do what was asked; it does not say that the kind does not exist.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422))
}

/// A quarter of a second, doubled with every failure.
fn delay(failures: u32) -> Span {
    let doubled = FIRST_DELAY.nanos.saturating_mul(1 << failures.saturating_sub(1).min(16));
    Span { nanos: doubled.min(LONGEST_DELAY.nanos) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_half_a_minute() {
        let delays: Vec<i64> = [1, 2, 3, 8, 9, 40].map(|n| delay(n).nanos / 1_000_000).to_vec();
        assert_eq!(delays, [250, 500, 1000, 30_000, 30_000, 30_000]);
    }
}
