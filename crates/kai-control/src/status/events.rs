//! Kubernetes events with KAI's reasons and texts.

use std::collections::{BTreeMap, VecDeque};

use kai_client::kinds::Kind;
use kai_client::path::Resource;
use kai_client::write::Create;
use kai_core::input::{ObjectName, Text};
use kai_core::time::Timestamp;
use kai_translate::time;
use serde_json::json;

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
        let (name, uid, kind, api_version) = match &event.subject {
            Subject::Pod(name, uid) => (name, uid, "Pod", "v1"),
            Subject::Group(name, uid) => (name, uid, "PodGroup", "scheduling.run.ai/v2alpha2"),
            Subject::Claim(name, uid) => (name, uid, "ResourceClaim", "resource.k8s.io/v1"),
            Subject::Object(kind, name, uid) => (name, uid, kind.name(), kind.api_version()),
        };
        // Events of objects without a namespace are where Kubernetes keeps them.
        let namespace = if name.namespace.is_empty() { "default" } else { &*name.namespace };
        let unique = moment.nanos.wrapping_add(i64::from(self.made));
        let component = event.component.unwrap_or(scheduler);
        let moment = time::format(moment);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{unique:x}", name.name),
                "namespace": namespace,
                "annotations": event.annotations,
            },
            "involvedObject": {"apiVersion": api_version, "kind": kind, "namespace": &*name.namespace, "name": &*name.name, "uid": &**uid},
            "type": match event.severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
            "reason": event.reason,
            "message": &*event.message,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        });
        Some(Create::new(Resource::EVENTS, &namespace.into(), Box::new(object)))
    }
}

#[cfg(test)]
mod tests {
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
