//! The cluster: a state machine. Requests and the passing of time go in, answers and changes come out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::admission::Webhooks;
use crate::api::{Answer, Part, Request, Writer};
use crate::controllers;
use crate::expressions::Expressions;
use crate::failure::Failure;
use crate::ids::Ids;
use crate::kinds::{CRDS, Kinds, NAMESPACES, PODS, Resource, id};
use crate::nodes::Nodes;
use crate::object::{Key, text};
use crate::store::{Event, EventKind, ResourceId, Store};

/// Something that a controller looks at again.
type Item = (ResourceId, Key);

/// More work than this at one moment means that two controllers fight; the rest is done a second later.
const MOST_WORK: usize = 1_000_000;

/// A cluster in memory.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) store: Store,
    pub(crate) kinds: Kinds,
    pub(crate) ids: Ids,
    pub(crate) now: Timestamp,
    pub(crate) nodes: Nodes,
    pub(crate) owned: controllers::Owned,
    pub(crate) webhooks: Webhooks,
    pub(crate) cron_runs: controllers::cron_jobs::CronRuns,
    /// What whoever writes should know, until it is told.
    pub(crate) warnings: Vec<String>,
    pub(crate) expressions: Expressions,
    /// What is to be looked at again, in order.
    due: BTreeSet<Item>,
    /// When something is to be looked at again.
    alarms: BTreeMap<Item, Timestamp>,
    /// The latest write that the controllers have seen.
    seen: u64,
}

impl Cluster {
    /// An empty cluster with the namespaces that every cluster has. Ids follow from the seed.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        let mut cluster = Self {
            store: Store::default(),
            kinds: Kinds::default(),
            ids: Ids::new(seed),
            now,
            nodes: Nodes::default(),
            owned: controllers::Owned::default(),
            webhooks: Webhooks::default(),
            cron_runs: controllers::cron_jobs::CronRuns::default(),
            warnings: Vec::new(),
            expressions: Expressions::default(),
            due: BTreeSet::new(),
            alarms: BTreeMap::new(),
            seen: 0,
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            // A new cluster has no such namespace yet, so nothing can be wrong with making it.
            let _ = cluster.make(&namespace);
        }
        cluster.settle();
        cluster
    }

    /// This is who answers for registered webhooks.
    pub fn set_webhooks(&mut self, webhooks: Webhooks) {
        self.webhooks = webhooks;
    }

    /// What webhooks wanted whoever wrote last to know.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Answers a request; then the controllers do what follows from it.
    pub fn request(&mut self, request: &Request, now: Timestamp) -> Answer {
        self.pass_time(now);
        self.warnings.clear();
        let answer = self.answer(request);
        let answer = answer.with_warnings(std::mem::take(&mut self.warnings));
        self.settle();
        answer
    }

    /// Time passes: what was due until `now` happens.
    pub fn pass_time(&mut self, now: Timestamp) {
        while let Some(moment) = self.next_alarm().filter(|moment| *moment <= now) {
            self.now = moment.max(self.now);
            let rung: Vec<Item> = self
                .alarms
                .iter()
                .filter(|(_, at)| **at <= moment)
                .map(|(item, _)| item.clone())
                .collect();
            for item in rung {
                self.alarms.remove(&item);
                self.due.insert(item);
            }
            self.settle();
        }
        self.now = now.max(self.now);
    }

    /// When something happens by itself.
    pub fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.values().min().copied()
    }

    /// When the next pod starts, ends or goes by itself, or the next cron job runs.
    pub fn next_pod_alarm(&self) -> Option<Timestamp> {
        let cron_jobs = controllers::cron_jobs::resource();
        let of_pods = |resource: &ResourceId| *resource == id(PODS) || *resource == cron_jobs;
        let pods = self.alarms.iter().filter(|((resource, _), _)| of_pods(resource));
        pods.map(|(_, at)| *at).min()
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The version of the latest write.
    pub fn version(&self) -> u64 {
        self.store.version()
    }

    /// An object as it is now.
    pub fn get(&self, resource: (&str, &str), key: &Key) -> Option<&Arc<Value>> {
        self.store.get(&id(resource), key)
    }

    /// All objects of a resource.
    pub fn list<'a>(
        &'a self,
        resource: (&str, &str),
    ) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        self.store.all(&id(resource))
    }

    /// What is served.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The simulated nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Creates an object whose kind says of which resource it is, in the namespace it names.
    pub fn make(&mut self, object: &Value) -> Result<Arc<Value>, Failure> {
        self.make_as(object, &Writer::named("kai-embed"))
    }

    /// The same, but unknown fields are refused.
    pub fn make_strictly(&mut self, object: &Value) -> Result<Arc<Value>, Failure> {
        self.make_as(object, &Writer::strict("kai-embed"))
    }

    /// Replaces an object that exists; unknown fields are refused.
    pub fn replace(&mut self, object: &Value) -> Result<Arc<Value>, Failure> {
        let resource = self.resource_of(object)?;
        let writer = Writer::strict("kai-embed");
        let written = self.update(&resource, object.clone(), Part::Whole, &writer)?;
        self.settle();
        Ok(written)
    }

    fn make_as(&mut self, object: &Value, writer: &Writer) -> Result<Arc<Value>, Failure> {
        let resource = self.resource_of(object)?;
        let made = self.create(&resource, object.clone(), writer)?;
        self.settle();
        Ok(made)
    }

    /// The resource of which an object is, by its kind.
    pub(crate) fn resource_of(&self, object: &Value) -> Result<Arc<Resource>, Failure> {
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        self.kinds.of_kind(api_version, kind).cloned().ok_or_else(|| {
            Failure::bad_request(format!("no matches for kind {kind:?} in version {api_version:?}"))
        })
    }

    /// Looks at an item again at a moment, unless an earlier one is set.
    pub(crate) fn wake(&mut self, resource: &ResourceId, key: &Key, moment: Timestamp) {
        let alarm = self.alarms.entry((resource.clone(), key.clone())).or_insert(moment);
        *alarm = moment.min(*alarm);
    }

    /// Looks at an item again now.
    pub(crate) fn look_at(&mut self, resource: &ResourceId, key: Key) {
        self.due.insert((resource.clone(), key));
    }

    /// The controllers work until nothing is left to do at this moment.
    pub(crate) fn settle(&mut self) {
        for _ in 0..MOST_WORK {
            self.notice_writes();
            let Some((resource, key)) = self.due.pop_first() else { return };
            controllers::reconcile(self, &resource, &key);
        }
        let later = self.now + k8s_openapi::jiff::SignedDuration::from_secs(1);
        for (resource, key) in std::mem::take(&mut self.due) {
            self.wake(&resource, &key, later);
        }
    }

    /// Finds out what the latest writes ask the controllers to look at.
    fn notice_writes(&mut self) {
        let Ok(events) = self.store.log().since(self.seen) else { return };
        let events: Vec<Arc<Event>> = events.cloned().collect();
        self.seen = self.store.version();
        for event in events {
            if event.resource == id(CRDS) {
                self.define(&event);
            }
            if event.resource == id(NAMESPACES) && event.kind == EventKind::Deleted {
                self.alarms.remove(&(event.resource.clone(), event.key.clone()));
            }
            controllers::notice(self, &event);
        }
    }

    fn define(&mut self, event: &Event) {
        match event.kind {
            EventKind::Added | EventKind::Modified => self.kinds.define(&event.object),
            EventKind::Deleted => self.kinds.undefine(&event.object),
        }
    }
}
