//! Changes of the cluster into the world, plans into orders. No clock and no client: time and reports are given.

mod answers;
mod backoff;
mod contested_nodes;
mod cycle;
mod decision_log;
mod devices;
mod eviction_queue;
mod evictions;
mod gangs;
mod gpus;
mod leading;
mod namespaces;
mod nominations;
mod objects;
mod pods;
mod queue_access;
mod requests;
mod self_check;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use kai_api::function::Function;
use kai_api::{BindRequest, PodGroup};
use kai_binder::EndedBind;
use kai_binder::reserved_devices::ReservedDevices;
use kai_client::kinds::Kind;
use kai_client::lease::Leading;
use kai_client::observed::Observed;
use kai_client::watch::Change;
use kai_core::input::pod::PodRole;
use kai_core::input::{Delta, Object, ObjectKey, ObjectName, Text};
use kai_core::plan::OrderedJob;
use kai_core::time::Timestamp;
use kai_core::world::World;
use kai_settings::planner::{BindRequests, Publish, Settings};
use kai_settings::queue_access::QueueAccess;
use kai_settings::status::StatusSettings;
use kai_translate::placement::PlacementSigner;
use kai_translate::priority::PriorityClasses;
use kai_translate::{Problem, Translated, bind_request, view};
use kai_workloads::Facts;

pub use backoff::{Backoffs, Wait};

use crate::metrics::Metrics;
use crate::orders::{Order, Report};
use crate::planner::contested_nodes::ContestedNodes;
use crate::planner::devices::Devices;
use crate::planner::eviction_queue::EvictionQueue;
use crate::planner::pods::PodEntry;
use crate::planner::usage::PastUsage;
use crate::status::Statuses;
use crate::status::problems::summary;
use crate::status::verdicts::TextOptions;
use crate::status::write::StatusWrite;

/// The world, and what the world need not know.
pub struct Planner {
    settings: Settings,
    signer: PlacementSigner,
    world: World,
    listed: BTreeSet<Kind>,
    classes: PriorityClasses,
    facts: Facts,
    groups: BTreeMap<ObjectName, PodGroup>,
    pods: BTreeMap<ObjectName, Box<PodEntry>>,
    /// Pods that are their own group, by group.
    own_groups: BTreeMap<ObjectName, ObjectName>,
    /// Pods by the group they name.
    members: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
    /// Bind requests by pod, whether they are for the one that is there now or not.
    bind_requests: BTreeMap<ObjectName, BindRequest>,
    /// Volume claims that have their volume.
    filled_claims: BTreeSet<ObjectName>,
    /// Bind requests that failed and are being removed, with their UIDs.
    failed_requests: BTreeMap<ObjectName, Text>,
    /// Pods whose bind requests failed since the latest plan: on which node, and why.
    failed_binds: BTreeMap<ObjectName, (Text, String)>,
    /// Pods that a plan bound and that do not show it yet.
    in_flight: BTreeSet<ObjectName>,
    devices: Devices,
    contested: ContestedNodes,
    /// Labels of namespaces.
    namespaces: BTreeMap<Text, BTreeMap<String, String>>,
    /// Who may use which queue.
    queue_access: QueueAccess,
    /// Nodes of ours, as they were told.
    nodes: BTreeMap<Text, view::Node>,
    /// Devices that reservation pods keep.
    reserved: ReservedDevices,
    backoffs: Backoffs,
    /// Evictions that were decided and not answered yet.
    evictions: EvictionQueue,
    /// When each pod was last nominated to a node.
    nominations: BTreeMap<ObjectName, Timestamp>,
    statuses: Statuses,
    metrics: Metrics,
    usage: PastUsage,
    /// Jobs in the order of the latest plan, where that is asked for.
    job_order: Option<Vec<OrderedJob>>,
    /// Functions that act.
    leading: Leading,
    orders: Vec<Order>,
    /// Something changed since the latest plan.
    dirty: bool,
    /// When time alone changes the plan.
    wake_at: Option<Timestamp>,
    /// When counts and rules are checked next.
    check_at: Option<Timestamp>,
}

impl Planner {
    /// A planner that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        let texts = TextOptions {
            detailed: settings.config.params.detailed_fit_errors,
            node_pool: settings.partition.name().map(Into::into),
            marks_over_limit: settings.status.marks_over_limit
                || settings.functions.contains(&Function::NodeScaleAdjuster),
        };
        let scheduler = &settings.rules.scheduler_name;
        let leading = match settings.election {
            Some(_) => Leading::new(),
            None => settings.functions.clone(),
        };
        let status = StatusSettings {
            duties: leading::duties(&settings, &leading),
            ..settings.status.clone()
        };
        Self {
            metrics: Metrics::new(settings.metrics.clone(), texts.shown_pool(), &settings.config),
            statuses: Statuses::new(status, scheduler, texts),
            leading,
            usage: PastUsage::new(&settings),
            signer: settings.placement_signer(),
            job_order: None,
            world: World::new(settings.config.clone()),
            settings,
            listed: BTreeSet::new(),
            classes: PriorityClasses::default(),
            facts: Facts::default(),
            groups: BTreeMap::new(),
            pods: BTreeMap::new(),
            own_groups: BTreeMap::new(),
            members: BTreeMap::new(),
            bind_requests: BTreeMap::new(),
            filled_claims: BTreeSet::new(),
            failed_requests: BTreeMap::new(),
            failed_binds: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            devices: Devices::default(),
            contested: ContestedNodes::default(),
            namespaces: BTreeMap::new(),
            queue_access: QueueAccess::default(),
            nodes: BTreeMap::new(),
            reserved: ReservedDevices::default(),
            backoffs: Backoffs::default(),
            evictions: EvictionQueue::default(),
            nominations: BTreeMap::new(),
            orders: Vec::new(),
            dirty: false,
            wake_at: None,
            check_at: None,
        }
    }

    /// Everything that existed at first has been told.
    pub fn is_ready(&self) -> bool {
        self.listed.len() == Kind::ALL.len()
    }

    /// A plan is due: something changed.
    pub fn is_dirty(&self) -> bool {
        self.dirty && self.is_ready()
    }

    /// When a plan is due although nothing changed.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if !self.is_ready() {
            return None;
        }
        [self.wake_at, self.backoffs.next()].into_iter().flatten().min()
    }

    /// When the next evictions are to be sent.
    pub fn evict_at(&self) -> Option<Timestamp> {
        self.evictions.next_at()
    }

    /// Orders since the latest call.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// When something is to be told.
    pub fn tell_at(&self) -> Option<Timestamp> {
        self.statuses.next().filter(|_| self.is_ready())
    }

    /// What is to be told now.
    pub fn take_tellings(&mut self, now: Timestamp) -> Vec<StatusWrite> {
        if self.is_ready() { self.statuses.take(&self.groups, now) } else { Vec::new() }
    }

    /// Names of the priority classes.
    pub fn class_names(&self) -> Vec<String> {
        self.classes.names().cloned().collect()
    }

    /// Takes a change of the cluster over.
    pub fn apply(&mut self, change: Change, now: Timestamp) {
        let by_request = |pod: &ObjectName| self.bind_requests.contains_key(pod);
        self.statuses.see(&change, by_request, now);
        self.see_device_claims(&change);
        match change {
            Change::Pod(pod) => self.set_pod(&pod),
            Change::Node(node) => self.set_node(&node),
            Change::Object(name, object) => self.set_object(name, object),
            Change::Malformed(malformed) => self.set_malformed(*malformed),
            Change::Gone(Kind::Pod, name) => {
                self.ask_for_rejection(&name);
                self.remove_pod(&name);
            }
            Change::Gone(kind, name) => self.remove_object(kind, name),
            Change::Listed(kind) | Change::Absent(kind) => {
                self.listed.insert(kind);
                if self.is_ready() {
                    self.dirty = true;
                    self.group_all();
                }
            }
        }
    }

    /// Devices can be claimed where the server knows claims of them.
    fn see_device_claims(&mut self, change: &Change) {
        let can_be_claimed = match change {
            Change::Absent(Kind::ResourceClaim) => false,
            Change::Listed(Kind::ResourceClaim)
            | Change::Object(
                _,
                Observed::ResourceClaim(_) | Observed::ResourceSlice(_) | Observed::DeviceClass(_),
            ) => self.settings.config.params.dynamic_resources,
            _ => return,
        };
        self.world.set_dynamic_resources(can_be_claimed);
    }

    /// Takes over what came of an order.
    pub fn settle(&mut self, report: Report, now: Timestamp) {
        match report {
            Report::Bound(pod) => {
                self.clear_failed_binds(&pod);
                self.statuses.note_bound(&pod, now);
                self.metrics.note_bound(&pod, now);
            }
            Report::BindAsked(pod) => {
                self.statuses.note_bound(&pod, now);
                self.metrics.note_bound(&pod, now);
            }
            Report::Evicted(pod) => self.eviction_accepted(&pod, now),
            Report::BindFailed { pod, node, failure } => {
                let error = failure.to_string();
                tracing::warn!(%pod, error, "a bind failed");
                self.failed_requests.remove(&pod); // it may be in the way, and its removal have failed
                self.tell_bind_request(&pod);
                self.failed_binds.remove(&pod);
                self.statuses.note_bind_failed(&pod, &error, now);
                self.metrics.note_unbound(&pod);
                self.world.forget(&pod);
                self.dirty = true;
                self.wait_after_bind(&pod, &node, &error, failure.is_the_servers(), now);
            }
            Report::EvictionRefused { victim, error } => {
                tracing::warn!(pod = %victim, error, "the API server refused an eviction");
                self.eviction_refused(&victim, now);
                self.retry_revert(&victim);
            }
            Report::Rejected(rejection) => self.explain_rejection(&rejection, now),
            Report::BindRequestStays(uid) => self.bind_request_stays(&uid, now),
            Report::Usage { usages, latency } => {
                self.metrics.note_usage_query(latency);
                self.set_usage(usages);
            }
            Report::UsageLoaded(text) => self.restore_usage(text.as_deref(), now),
            Report::Grouped(grouped) => self.set_grouping(*grouped),
            Report::NotGrouped { pod, uid, why } => {
                self.statuses.note_grouping(&pod, &uid, &[why]);
            }
            Report::GroupingPanicked => self.metrics.count_grouping_panic(),
            Report::Told(ended) => self.statuses.settle(ended, &mut self.groups, now),
        }
    }

    /// A bind request was carried out by us, or could not be.
    pub fn note_ended_bind(&mut self, ended: &EndedBind, now: Timestamp) {
        self.statuses.note_ended_bind(ended, now);
    }

    /// Keeps a pod out of the next plans for a while, and longer off the node where its bind failed; unless the API server could
    /// not take the bind (`interrupted`), which says nothing about pod and node.
    fn wait_after_bind(
        &mut self,
        pod: &ObjectName,
        node: &Text,
        reason: &str,
        interrupted: bool,
        now: Timestamp,
    ) {
        self.in_flight.remove(pod);
        let Some(uid) = self.pods.get(pod).map(|entry| entry.base.uid.clone()) else { return };
        // A bind request that failed is in the way of the next until it is gone.
        let may_be_forgiven =
            self.is_needed_by_its_gang(pod) && !self.bind_requests.contains_key(pod);
        if may_be_forgiven && self.backoffs.forgive_first_bind(pod, &uid, node, reason) {
            // It may be bound again at once.
        } else if interrupted {
            self.backoffs.bind_interrupted(pod, &uid, now);
        } else {
            self.backoffs.bind_failed(pod, &uid, node, reason, now);
        }
        self.refresh_pod(pod);
        self.tell_group_of(pod);
    }

    /// Keeps a pod from being evicted for a while.
    fn wait_after_eviction(&mut self, pod: &ObjectName, now: Timestamp) {
        let Some(uid) = self.pods.get(pod).map(|entry| entry.base.uid.clone()) else { return };
        self.backoffs.eviction_refused(pod, &uid, now);
        self.refresh_pod(pod);
    }

    /// Lets pods back into plans whose time has come.
    fn end_waits(&mut self, now: Timestamp) {
        for pod in self.backoffs.expire(now) {
            self.drop_again(&pod);
            self.refresh_pod(&pod);
        }
    }

    /// Tells the world; what it refuses is said.
    fn tell(&mut self, delta: Delta) {
        self.statuses.accounts_mut().observe(&delta);
        let effect = self.world.apply(delta);
        for problem in &effect.problems {
            tracing::warn!(%problem, "an object is not taken over");
        }
        self.dirty |= effect.changed;
    }

    /// Says what is wrong with an object and gives the rest.
    fn heard<T>(translated: Translated<T>) -> Option<T> {
        for problem in &translated.problems {
            complain(problem);
        }
        translated.object
    }

    /// Logs what is wrong with an object, records it as an event of the object, and gives the rest.
    fn valid_part<T>(
        &mut self,
        kind: Kind,
        name: &ObjectName,
        uid: Option<&str>,
        translated: Translated<T>,
    ) -> Option<T> {
        let problem = summary(&translated.problems);
        self.statuses.set_problem(kind, name, uid.unwrap_or_default(), problem);
        Self::heard(translated)
    }

    fn forget_object(&mut self, key: ObjectKey) {
        self.tell(Delta::Remove(key));
    }

    /// Tells the world of a bind request, unless it is that of an earlier pod of the name.
    fn tell_bind_request(&mut self, name: &ObjectName) {
        let Some(request) = self.bind_requests.get(name) else { return };
        let Some(entry) = self.pods.get(name) else { return };
        if is_for_another(request, &entry.base.uid) {
            self.forget_object(ObjectKey::BindRequest(name.clone()));
            return;
        }
        let claim = |name: &str| entry.claims.get(name).cloned();
        let is_ours = self.schedules() && entry.base.role == PodRole::Workload;
        let own_name = request.metadata.name.as_deref().unwrap_or_default();
        let own_name = ObjectName::new(name.namespace.clone(), own_name);
        let uid: Text = request.metadata.uid.clone().unwrap_or_default().into();
        let reason = request.status.as_ref().and_then(|status| status.reason.clone());
        if let Some(spec) = Self::heard(bind_request::translate(request, claim)) {
            let failure = spec.failed.then(|| (spec.node.clone(), reason.unwrap_or_default()));
            self.tell(Delta::Set(Object::BindRequest(spec)));
            if let Some(failure) = failure.filter(|_| is_ours) {
                self.drop_bind_request(name, own_name, uid, failure);
            }
        }
    }

    /// A bind request that failed for good is removed, and its pod left alone for a while.
    fn drop_bind_request(
        &mut self,
        pod: &ObjectName,
        request: ObjectName,
        uid: Text,
        failure: (Text, String),
    ) {
        if self.failed_requests.get(pod) == Some(&uid) {
            return;
        }
        self.orders.push(Order::DropBindRequest(request, uid.clone()));
        self.failed_requests.insert(pod.clone(), uid);
        self.failed_binds.insert(pod.clone(), failure);
        self.world.forget(pod);
        self.dirty = true;
    }

    /// A failed bind request could not be removed: it is tried again when its pod's back-off ends.
    fn bind_request_stays(&mut self, uid: &Text, now: Timestamp) {
        let failed = self.failed_requests.iter().find(|(_, known)| *known == uid);
        let Some(pod) = failed.map(|(pod, _)| pod.clone()) else { return };
        let Some(entry) = self.pods.get(&pod) else { return };
        self.backoffs.bind_interrupted(&pod, &entry.base.uid, now);
        self.refresh_pod(&pod);
    }

    /// Removes a failed bind request that is still there.
    fn drop_again(&mut self, pod: &ObjectName) {
        let Some(uid) = self.failed_requests.get(pod) else { return };
        let Some(request) = self.bind_requests.get(pod) else { return };
        let name = request.metadata.name.as_deref().unwrap_or_default();
        let name = ObjectName::new(pod.namespace.clone(), name);
        self.orders.push(Order::DropBindRequest(name, uid.clone()));
    }

    /// Pods whose bind requests failed are left alone for a while.
    fn wait_after_failed_requests(&mut self, now: Timestamp) {
        for (pod, (node, reason)) in std::mem::take(&mut self.failed_binds) {
            self.statuses.note_bind_failed(&pod, &reason, now);
            self.metrics.note_unbound(&pod);
            self.wait_after_bind(&pod, &node, &reason, false, now);
        }
    }

    /// A bind request is gone: whatever it was to do is not under way any more.
    fn bind_request_gone(&mut self, name: &ObjectName) {
        let is_it = |(pod, request): &(&ObjectName, &BindRequest)| {
            let own_name = request.metadata.name.as_deref();
            pod.namespace == name.namespace && own_name == Some(&*name.name)
        };
        let by_name = self.bind_requests.get_key_value(name).filter(|found| is_it(found));
        let found = by_name.or_else(|| self.bind_requests.iter().find(is_it));
        let Some(pod) = found.map(|(pod, _)| pod.clone()) else { return };
        self.failed_requests.remove(&pod);
        let Some(request) = self.bind_requests.remove(&pod) else { return };
        if self.pods.get(&pod).is_some_and(|entry| !is_for_another(&request, &entry.base.uid)) {
            self.in_flight.remove(&pod);
            self.world.forget(&pod);
        }
        self.forget_object(ObjectKey::BindRequest(pod.clone()));
        self.refresh_pod(&pod); // it may have waited for that
    }
}

/// The request was made for an earlier pod of the name.
fn is_for_another(request: &BindRequest, pod: &Text) -> bool {
    let mut owners = request.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Pod" && *owner.uid != **pod)
}

/// Characters of a message about an object that are logged: the object may quote itself.
const LONGEST_MESSAGE: usize = 1024;

fn complain(problem: &Problem) {
    let message: String = problem.message.chars().take(LONGEST_MESSAGE).collect();
    tracing::warn!(object = problem.object, field = problem.field, "{message}");
}
