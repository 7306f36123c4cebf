//! Kubernetes events with KAI's reasons and texts.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kai_client::kinds::Kind;
use kai_client::write::{Create, named};
use kai_core::input::{ObjectName, Text};
use kai_core::time::Timestamp;
use kai_translate::time;

/// Events that wait to be written; more are dropped, for they are only written, never read.
const MOST_WAITING: usize = 1000;

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A pod and its UID.
    Pod(ObjectName, Text),
    /// A pod group and its UID.
    Group(ObjectName, Text),
    /// A device claim and its UID.
    Claim(ObjectName, Text),
    /// An object of any kind and its UID.
    Object(Kind, ObjectName, Text),
}

impl Subject {
    fn parts(&self) -> (Kind, &ObjectName, &Text) {
        match self {
            Self::Pod(name, uid) => (Kind::Pod, name, uid),
            Self::Group(name, uid) => (Kind::PodGroup, name, uid),
            Self::Claim(name, uid) => (Kind::ResourceClaim, name, uid),
            Self::Object(kind, name, uid) => (*kind, name, uid),
        }
    }

    /// Name and namespace of an event about it. Events of objects without a namespace are where Kubernetes keeps them.
    pub(crate) fn event_metadata(&self, unique: i64) -> ObjectMeta {
        let (_, name, _) = self.parts();
        let namespace = if name.namespace.is_empty() { "default" } else { &*name.namespace };
        named(&ObjectName::new(namespace, format!("{}.{unique:x}", name.name)))
    }

    /// Refers to the object.
    pub(crate) fn reference(&self) -> api::ObjectReference {
        let (kind, name, uid) = self.parts();
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        api::ObjectReference {
            api_version: text(kind.api_version()),
            kind: text(kind.name()),
            namespace: text(&name.namespace),
            name: text(&name.name),
            uid: text(uid),
            ..api::ObjectReference::default()
        }
    }
}

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Things go their way.
    Normal,
    /// A person may want to act.
    Warning,
}

/// An event of a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub subject: Subject,
    /// How serious it is.
    pub severity: Severity,
    /// The reason in one word, as `kubectl get events` shows it.
    pub reason: &'static str,
    /// The message, in KAI's words.
    pub message: Text,
    /// Who says so; none: the scheduler.
    pub component: Option<&'static str>,
    /// Annotations of the event, for programs.
    pub annotations: BTreeMap<&'static str, String>,
}

impl Event {
    /// The scheduler says something.
    pub fn new(
        subject: Subject,
        severity: Severity,
        reason: &'static str,
        message: impl Into<Text>,
    ) -> Self {
        let message = message.into();
        Self { subject, severity, reason, message, component: None, annotations: BTreeMap::new() }
    }
}

/// Events that wait to be written.
#[derive(Debug, Default)]
pub struct EventQueue {
    waiting: VecDeque<(Event, Timestamp)>,
    /// Makes names of events differ that are made in the same moment.
    made: u32,
    dropped: u64,
}

impl EventQueue {
    /// Adds an event, unless too many wait.
    pub fn push(&mut self, event: Event, now: Timestamp) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((event, now));
        } else {
            self.dropped += 1;
            if self.dropped.is_power_of_two() {
                tracing::warn!(dropped = self.dropped, "events come faster than they are written");
            }
        }
    }

    /// No event waits to be written.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next event as an object to be created.
    pub fn take(&mut self, scheduler: &str) -> Option<Create> {
        let (event, moment) = self.waiting.pop_front()?;
        self.made = self.made.wrapping_add(1);
        let unique = moment.nanos.wrapping_add(i64::from(self.made));
        let component = event.component.unwrap_or(scheduler);
        let object = api::Event {
            metadata: ObjectMeta {
                annotations: (!event.annotations.is_empty()).then(|| {
                    let owned = |(key, text): (&str, String)| (key.to_owned(), text);
                    event.annotations.into_iter().map(owned).collect()
                }),
                ..event.subject.event_metadata(unique)
            },
            involved_object: event.subject.reference(),
            type_: Some(
                match event.severity {
                    Severity::Normal => "Normal",
                    Severity::Warning => "Warning",
                }
                .to_owned(),
            ),
            reason: Some(event.reason.to_owned()),
            message: Some(event.message.to_string()),
            ..counted_once(component, moment)
        };
        Some(Create::new(&object))
    }
}

/// An event that happened once.
pub(crate) fn counted_once(component: &str, moment: Timestamp) -> api::Event {
    let moment = Some(time::api_time(moment));
    api::Event {
        source: Some(api::EventSource {
            component: Some(component.to_owned()),
            ..api::EventSource::default()
        }),
        reporting_component: Some(component.to_owned()),
        first_timestamp: moment.clone(),
        last_timestamp: moment,
        count: Some(1),
        ..api::Event::default()
    }
}

#[cfg(test)]
mod tests {
    use kai_client::path::Resource;

    use super::*;

    #[test]
    fn events_are_bounded_and_have_names_of_their_own() {
        let subject = Subject::Pod(ObjectName::new("a", "p"), "uid".into());
        let event = Event::new(subject, Severity::Warning, "Unschedulable", "100% full");
        let mut queue = EventQueue::default();
        let now = Timestamp { nanos: 1_767_225_600_000_000_000 };
        for _ in 0..MOST_WAITING + 5 {
            queue.push(event.clone(), now);
        }
        let first = queue.take("kai-scheduler").expect("an event");
        let second = queue.take("kai-scheduler").expect("an event").object;
        assert_eq!((first.resource, &*first.namespace), (Resource::EVENTS, "a"));
        let first = first.object;
        assert_eq!(first["message"], "100% full");
        assert_eq!(first["source"]["component"], "kai-scheduler");
        assert_eq!(first["firstTimestamp"], "2026-01-01T00:00:00Z");
        assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
        assert_eq!(std::iter::from_fn(|| queue.take("s")).count(), MOST_WAITING - 2);
    }
}
