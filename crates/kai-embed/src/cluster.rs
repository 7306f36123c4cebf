//! The cluster: a state machine. Requests and the passing of time go in, answers and changes come out.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::admission::{WebhookIndex, Webhooks};
use crate::alarms::{Alarms, Item};
use crate::api::{Answer, Part, Request, Writer};
use crate::controllers;
use crate::expressions::Expressions;
use crate::failure::Failure;
use crate::ids::Ids;
use crate::kinds::{CRDS, Kinds, NAMESPACES, PODS, Resource, id};
use crate::nodes::Nodes;
use crate::object::{Key, text};
use crate::store::{Event, EventKind, ResourceId, Store};

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
    pub(crate) webhook_index: WebhookIndex,
    pub(crate) cron_runs: controllers::cron_jobs::CronRuns,
    /// Warnings for the writer, until they are returned.
    pub(crate) warnings: Vec<String>,
    pub(crate) expressions: Expressions,
    /// Whether writes of pods record their field managers.
    records_managers_of_pods: bool,
    /// Names of the schedulers that run on the cluster; none: nothing is known of them.
    pub(crate) schedulers: Option<BTreeSet<String>>,
    /// Items to reconcile, in order.
    due: BTreeSet<Item>,
    /// Times at which items are reconciled again.
    alarms: Alarms,
    /// The controllers that start, end or remove pods.
    pod_alarms: Alarms,
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
            webhook_index: WebhookIndex::default(),
            cron_runs: controllers::cron_jobs::CronRuns::default(),
            warnings: Vec::new(),
            expressions: Expressions::default(),
            records_managers_of_pods: true,
            schedulers: None,
            due: BTreeSet::new(),
            alarms: Alarms::default(),
            pod_alarms: Alarms::default(),
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

    /// The function that answers for registered webhooks.
    pub fn set_webhooks(&mut self, webhooks: Webhooks) {
        self.webhooks = webhooks;
    }

    /// Only schedulers of these names run on the cluster. Pods of other schedulers get a condition that says so.
    pub fn set_schedulers(&mut self, names: impl IntoIterator<Item = String>) {
        self.schedulers = Some(names.into_iter().collect());
    }

    /// Pods have no `managedFields` from now on, which take half of the memory of a pod and a quarter of the time of its writes. For
    /// clusters whose clients neither read them nor apply pods.
    pub fn skip_managers_of_pods(&mut self) {
        self.records_managers_of_pods = false;
    }

    pub(crate) fn records_managers_of(&self, resource: &ResourceId) -> bool {
        self.records_managers_of_pods || *resource != id(PODS)
    }

    /// Warnings of webhooks for the latest write.
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
            self.due.extend(self.alarms.take_until(moment));
            self.due.extend(self.pod_alarms.take_until(moment));
            self.settle();
        }
        self.now = now.max(self.now);
    }

    /// When something happens by itself.
    pub fn next_alarm(&self) -> Option<Timestamp> {
        [self.alarms.next(), self.pod_alarms.next()].into_iter().flatten().min()
    }

    /// When the next pod starts, ends or is removed by itself, or the next cron job or batch of a job's pods is created.
    pub fn next_pod_alarm(&self) -> Option<Timestamp> {
        self.pod_alarms.next()
    }

    /// Current time of the cluster.
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

    /// The resources that are served.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The simulated nodes with their devices.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Creates an object whose kind says of which resource it is, in the namespace it names.
    pub fn make(&mut self, object: &Value) -> Result<Arc<Value>, Failure> {
        self.make_as(object, &Writer::named("kai-embed"))
    }

    /// The same, but unknown fields are rejected.
    pub fn make_strictly(&mut self, object: &Value) -> Result<Arc<Value>, Failure> {
        self.make_as(object, &Writer::strict("kai-embed"))
    }

    /// Replaces an object that exists; unknown fields are rejected.
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
        let of_pods = *resource == id(PODS)
            || *resource == controllers::cron_jobs::resource()
            || controllers::creates_in_batches(resource);
        let alarms = if of_pods { &mut self.pod_alarms } else { &mut self.alarms };
        alarms.set((resource.clone(), key.clone()), moment);
    }

    /// Whether an item that creates pods will be reconciled at a later time.
    pub(crate) fn is_woken_later(&self, resource: &ResourceId, key: &Key) -> bool {
        self.pod_alarms.is_set(&(resource.clone(), key.clone()))
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

    /// Adds the items that the latest writes affect to the items to reconcile.
    pub(crate) fn notice_writes(&mut self) {
        let events = self.store.take_unseen();
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
