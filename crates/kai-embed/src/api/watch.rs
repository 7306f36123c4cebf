//! Watches: everything that happens to some objects, from a version on.

use std::collections::VecDeque;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Subject;
use super::representation::{Representation, represent};
use super::request::{Answer, Request};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::object::{WithoutManagers, name, namespace};
use crate::selectors::{FieldSelector, LabelSelector};
use crate::store::{Event, EventKind, Position, ResourceId};

/// How long a watch lives that does not say.
const USUAL_SECONDS: i64 = 1800;
/// A watch without events gets a bookmark after this time.
const BOOKMARK_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// Which objects are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    namespace: String,
    name: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub(super) fn of(
        request: &Request,
        subject: &Subject,
        name: Option<&str>,
    ) -> Result<Self, Failure> {
        let query = |key: &str| request.query.get(key).unwrap_or_default();
        let stored = |path: &str| {
            let stored = subject.dialect.stored_path(path);
            if subject.resource.selects_by(&subject.version, &stored) {
                return Ok(stored);
            }
            let own = subject.resource.has_own_selectors();
            Err(Failure::unknown_field_selector(path, own))
        };
        let fields = FieldSelector::parse(query("fieldSelector"), stored)?;
        Ok(Self {
            namespace: subject.namespace.clone(),
            name: name.or(fields.name()).map(str::to_owned),
            labels: LabelSelector::parse(query("labelSelector"))?,
            fields,
        })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace(object))
            && self.name.as_ref().is_none_or(|wanted| wanted == name(object))
            && self.labels.matches(object)
            && self.fields.matches(object)
    }

    /// Whether everything of the resource and namespace is wanted.
    pub(super) fn is_open(&self) -> bool {
        self.name.is_none()
            && self.labels == LabelSelector::default()
            && self.fields == FieldSelector::default()
    }
}

/// A watch: its position, and the events that it still has to send.
#[derive(Clone, Debug)]
pub struct Watch {
    subject: Subject,
    filter: Filter,
    representation: Representation,
    bookmarks: bool,
    /// All events up to this version were sent or did not match.
    sent: Position,
    /// What existed at the start.
    initial: VecDeque<WatchEvent>,
    ends: Timestamp,
    next_bookmark: Timestamp,
    over: bool,
}

impl PartialEq for Watch {
    fn eq(&self, other: &Self) -> bool {
        self.filter == other.filter
            && self.sent.version() == other.sent.version()
            && self.initial == other.initial
    }
}

/// Which fields of objects a client receives from its watches and in the answers to its writes. What it reads has all fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceivedFields {
    /// All of them, as from a real API server.
    #[default]
    All,
    /// All but `managedFields`, which are half of the text of a pod.
    WithoutManagers,
}

impl ReceivedFields {
    /// Writes these fields of an object as JSON.
    pub(crate) fn write_json(self, object: &Value, out: &mut Vec<u8>) {
        // Maps have texts as keys, so that nothing can fail.
        let _ = match self {
            Self::All => serde_json::to_writer(out, object),
            Self::WithoutManagers => serde_json::to_writer(out, &WithoutManagers(object)),
        };
    }
}

/// An event of a watch: a line of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'static str,
    /// The object as the client wants to read it.
    pub object: Arc<Value>,
}

impl WatchEvent {
    /// The event as a line of JSON, with its end.
    pub fn line(&self, fields: ReceivedFields) -> Vec<u8> {
        let mut line = format!("{{\"type\":\"{}\",\"object\":", self.kind).into_bytes();
        fields.write_json(&self.object, &mut line);
        line.extend(b"}\n");
        line
    }
}

/// Next item of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchLine {
    /// An event of an object, a bookmark or an error.
    Event(WatchEvent),
    /// Nothing yet; something may come at this moment even if nothing happens.
    NotYet(Timestamp),
    /// The watch has ended.
    End,
}

impl Watch {
    /// The resource of the objects.
    pub(crate) fn resource(&self) -> &ResourceId {
        &self.subject.resource.id
    }

    /// The next item to send.
    pub fn next(&mut self, cluster: &Cluster, now: Timestamp) -> WatchLine {
        if self.over {
            return WatchLine::End;
        }
        if let Some(event) = self.initial.pop_front() {
            return WatchLine::Event(event);
        }
        if let Some(event) = self.next_change(cluster) {
            self.next_bookmark = now + BOOKMARK_EVERY;
            return WatchLine::Event(event);
        }
        let ends = now >= self.ends;
        self.over = ends;
        if self.bookmarks && (ends || now >= self.next_bookmark) {
            self.next_bookmark = now + BOOKMARK_EVERY;
            return WatchLine::Event(self.bookmark(false));
        }
        if ends {
            return WatchLine::End;
        }
        let alarm = if self.bookmarks { self.next_bookmark.min(self.ends) } else { self.ends };
        WatchLine::NotYet(alarm)
    }

    fn next_change(&mut self, cluster: &Cluster) -> Option<WatchEvent> {
        let sent = self.sent.version();
        let Ok(events) = cluster.store.log().since(self.resource(), sent) else {
            self.over = true;
            let failure = Failure::expired(format!("too old resource version: {sent}"));
            return Some(WatchEvent { kind: "ERROR", object: Arc::new(failure.status()) });
        };
        for event in events {
            self.sent.advance(event.version);
            if let Some(shown) = self.show(event, cluster) {
                return Some(shown);
            }
        }
        self.sent.advance(cluster.store.version().max(sent));
        None
    }

    fn show(&self, event: &Event, cluster: &Cluster) -> Option<WatchEvent> {
        let matched = event.previous.as_ref().is_some_and(|old| self.filter.matches(old));
        let matches = event.kind != EventKind::Deleted && self.filter.matches(&event.object);
        let kind = match (matched, matches) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let object = represent(self.representation, &self.subject, &event.object, cluster.now);
        Some(WatchEvent { kind, object })
    }

    fn bookmark(&self, ends_initial: bool) -> WatchEvent {
        let resource = &self.subject.resource;
        let mut metadata = json!({"resourceVersion": self.sent.version().to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.representation {
            Representation::Full => json!({
                "kind": resource.kind,
                "apiVersion": self.subject.api_version(),
                "metadata": metadata,
            }),
            Representation::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }),
            Representation::Table(_) => json!({
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": null,
                "rows": [],
            }),
        };
        WatchEvent { kind: "BOOKMARK", object: Arc::new(object) }
    }
}

impl Cluster {
    pub(super) fn watch(
        &mut self,
        request: &Request,
        subject: &Subject,
    ) -> Result<Answer, Failure> {
        let name = match super::path::read(&request.path) {
            Some(super::Target::Resource { name, .. }) => name,
            _ => None,
        };
        let filter = Filter::of(request, subject, name.as_deref())?;
        let query = |key: &str| request.query.get(key);
        let sends_initial = match query("sendInitialEvents") {
            Some(text) => text == "true",
            None => matches!(query("resourceVersion"), None | Some("0")),
        };
        let sent_version = match query("resourceVersion") {
            Some(text) if !sends_initial => text.parse().map_err(|_| {
                Failure::bad_request(format!("Invalid value: {text:?}: invalid syntax"))
            })?,
            _ => self.store.version(),
        };
        let seconds = query("timeoutSeconds").and_then(|text| text.parse().ok());
        let lives = SignedDuration::from_secs(seconds.unwrap_or(USUAL_SECONDS));
        let mut watch = Watch {
            subject: subject.clone(),
            filter,
            representation: Representation::of(request),
            bookmarks: request.query.is_true("allowWatchBookmarks"),
            sent: self.store.read_from(&subject.resource.id, sent_version),
            initial: VecDeque::new(),
            ends: self.now + lives,
            next_bookmark: self.now + BOOKMARK_EVERY,
            over: false,
        };
        if sends_initial {
            let found = self.store.all(&subject.resource.id);
            let found = found.filter(|object| watch.filter.matches(object));
            let added = found.map(|object| WatchEvent {
                kind: "ADDED",
                object: represent(watch.representation, subject, object, self.now),
            });
            watch.initial = added.collect();
            if watch.bookmarks && query("sendInitialEvents").is_some() {
                watch.initial.push_back(watch.bookmark(true));
            }
        }
        Ok(Answer::Watch(Box::new(watch)))
    }
}
