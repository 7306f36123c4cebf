//! Changes of the cluster into the world, plans into orders. No clock and no client: time and reports are given.

mod active_settings;
mod answers;
mod backoff;
mod bind_request_object;
mod bind_requests;
mod binds;
mod contested_nodes;
mod cycle;
mod decision_log;
mod devices;
mod eviction_queue;
mod evictions;
mod gangs;
mod group_marks;
mod local_binds;
mod measurements;
mod namespaces;
mod node_gpus;
mod nominations;
mod objects;
mod own_group;
mod packed;
mod planned_world;
mod pod_entry;
mod pods;
mod shared_parts;
mod workloads;

use kai_binder::EndedBind;
use kai_client::kinds::Kind;
use kai_client::lease::Turn;
use kai_client::observed::Observed;
use kai_client::watch::Change;
use kai_core::input::{Delta, ObjectKey, ObjectName};
use kai_core::time::Timestamp;
use kai_settings::planner::{BindRequests, Publish, Settings};
use kai_translate::{Problem, Translated};

pub use backoff::{Backoffs, Wait};

use crate::metrics::Metrics;
use crate::orders::{Order, Report};
use crate::planner::active_settings::{ActiveSettings, TurnEffect};
use crate::planner::backoff::FailedBind;
use crate::planner::binds::{BindFailure, Binds};
use crate::planner::devices::Devices;
use crate::planner::evictions::Evictions;
use crate::planner::measurements::{Measurements, PastUsage, Sampled};
use crate::planner::namespaces::Namespaces;
use crate::planner::nominations::Nominations;
use crate::planner::planned_world::PlannedWorld;
use crate::planner::workloads::Workloads;
use crate::status::Statuses;
use crate::status::problems::summary;
use crate::status::write::StatusWrite;
use crate::usage::Usages;

/// Hands changes, reports and plans to its parts, and their outputs to the world, to statuses and to orders. It has no rules of
/// its own.
pub struct Planner {
    settings: ActiveSettings,
    world: PlannedWorld,
    workloads: Workloads,
    binds: Binds,
    evictions: Evictions,
    nominations: Nominations,
    backoffs: Backoffs,
    namespaces: Namespaces,
    devices: Devices,
    statuses: Statuses,
    measurements: Measurements,
    orders: Vec<Order>,
}

impl Planner {
    /// A planner that has observed nothing yet.
    pub fn new(settings: Settings) -> Self {
        let settings = ActiveSettings::new(settings);
        let texts = settings.texts();
        let metrics = Metrics::new(settings.metrics.clone(), texts.shown_pool(), &settings.config);
        let scheduler = &settings.rules.scheduler_name;
        Self {
            measurements: Measurements { metrics, usage: PastUsage::new(&settings) },
            statuses: Statuses::new(settings.status_settings(), scheduler, texts),
            world: PlannedWorld::new(settings.config.clone()),
            settings,
            workloads: Workloads::default(),
            binds: Binds::default(),
            evictions: Evictions::default(),
            nominations: Nominations::default(),
            backoffs: Backoffs::default(),
            namespaces: Namespaces::default(),
            devices: Devices::default(),
            orders: Vec::new(),
        }
    }

    /// Everything that existed at first was received.
    pub fn is_ready(&self) -> bool {
        self.world.is_ready()
    }

    /// A plan is due: something changed.
    pub fn is_dirty(&self) -> bool {
        self.world.is_dirty() && self.is_ready()
    }

    /// When a plan is due although nothing changed.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if !self.is_ready() {
            return None;
        }
        [self.world.wake_at(), self.backoffs.next()].into_iter().flatten().min()
    }

    /// When the next evictions are to be sent.
    pub fn evict_at(&self) -> Option<Timestamp> {
        self.evictions.queue.next_at()
    }

    /// Orders since the latest call.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// When the next statuses are to be written.
    pub fn status_at(&self) -> Option<Timestamp> {
        self.statuses.next().filter(|_| self.is_ready())
    }

    /// Statuses and events that are to be written now.
    pub fn take_status_writes(&mut self, now: Timestamp) -> Vec<StatusWrite> {
        if self.is_ready() { self.statuses.take(self.workloads.groups(), now) } else { Vec::new() }
    }

    /// Names of the priority classes.
    pub fn class_names(&self) -> Vec<String> {
        self.workloads.class_names()
    }

    /// Takes a change of the cluster over.
    pub fn apply(&mut self, change: Change, now: Timestamp) {
        let by_request = |pod: &ObjectName| self.binds.request(pod).is_some();
        self.statuses.observe(&change, by_request, now);
        self.enable_device_claims(&change);
        match change {
            Change::Pod(pod) => self.set_pod(&pod),
            Change::Node(node) => self.set_node(&node),
            Change::Object(name, object) => self.set_object(name, object),
            Change::Malformed(malformed) => self.set_malformed(*malformed),
            Change::Gone(Kind::Pod, name) => {
                self.find_rejection(&name);
                self.remove_pod(&name);
            }
            Change::Gone(kind, name) => self.remove_object(kind, name),
            Change::Listed(kind) | Change::Absent(kind) => {
                if self.world.set_listed(kind) {
                    self.group_all();
                }
            }
        }
    }

    /// Devices can be claimed where the server knows claims of them.
    fn enable_device_claims(&mut self, change: &Change) {
        let can_be_claimed = match change {
            Change::Absent(Kind::ResourceClaim) => false,
            Change::Listed(Kind::ResourceClaim)
            | Change::Object(
                _,
                Observed::ResourceClaim(_) | Observed::ResourceSlice(_) | Observed::DeviceClass(_),
            ) => self.settings.config.params.dynamic_resources,
            _ => return,
        };
        self.world.world_mut().set_dynamic_resources(can_be_claimed);
    }

    /// Takes over what came of an order.
    pub fn settle(&mut self, report: Report, now: Timestamp) {
        match report {
            Report::Bound(pod) => {
                self.clear_failed_binds(&pod);
                self.statuses.note_bound(&pod, now);
                self.measurements.metrics.note_bound(&pod, now);
            }
            Report::BindRequested(pod) => {
                self.statuses.note_bound(&pod, now);
                self.measurements.metrics.note_bound(&pod, now);
            }
            Report::Evicted(pod) => self.eviction_accepted(&pod, now),
            Report::BindFailed { pod, node, failure } => {
                let is_interrupted = failure.is_the_servers();
                let failure = BindFailure { node, reason: failure.to_string() };
                tracing::warn!(%pod, error = failure.reason, "a bind failed");
                self.binds.forget_removal(&pod); // an older request may be in the way, and its removal have failed
                self.apply_bind_request(&pod);
                self.binds.forget_failure(&pod);
                self.statuses.note_bind_failed(&pod, &failure.reason, now);
                self.measurements.metrics.note_unbound(&pod);
                self.world.forget(&pod);
                self.world.require_plan();
                let cause = if is_interrupted { Cause::Interruption } else { Cause::Bind };
                self.back_off_after_bind(&pod, &failure, cause, now);
            }
            Report::EvictionRefused { victim, error } => {
                tracing::warn!(pod = %victim, error, "the API server refused an eviction");
                self.eviction_refused(&victim, now);
            }
            Report::Rejected(rejection) => self.explain_rejection(&rejection, now),
            Report::BindRequestStays(uid) => self.bind_request_stays(&uid, now),
            Report::Usage { usages, latency } => {
                self.measurements.metrics.note_usage_query(latency);
                self.set_usage(&usages);
            }
            Report::UsageLoaded(text) => self.measurements.usage.restore(text.as_deref(), now),
            Report::Grouped(grouped) => self.set_grouping(*grouped),
            Report::NotGrouped { pod, uid, why } => {
                self.statuses.note_grouping(&pod, &uid, &[why]);
            }
            Report::GroupingPanicked => self.measurements.metrics.count_grouping_panic(),
            Report::StatusWritten(ended) => {
                self.statuses.settle(ended, self.workloads.groups_mut(), now);
            }
        }
    }

    /// A function of this process begins or ceases to act.
    pub fn take_turn(&mut self, turn: Turn, now: Timestamp) {
        let effect = self.settings.take_turn(turn);
        if !self.settings.hands_binds_over() {
            self.abandon_local_binds(now);
        }
        self.statuses.set_duties(self.settings.duties(), now);
        match effect {
            TurnEffect::BeginScheduling => self.begin_scheduling(),
            TurnEffect::EndScheduling => self.cancel_evictions(),
            TurnEffect::BeginGrouping if self.is_ready() => self.begin_grouping(),
            TurnEffect::BeginGrouping | TurnEffect::None => {}
        }
    }

    fn begin_scheduling(&mut self) {
        self.world.require_plan();
        for pod in self.binds.requested_pods() {
            self.apply_bind_request(&pod);
        }
    }

    /// When usage of queues is sampled.
    pub fn record_at(&self) -> Option<Timestamp> {
        self.measurements.usage.sample_at().filter(|_| self.is_ready())
    }

    /// Samples the usage of queues, where that is due.
    pub fn record_usage(&mut self, now: Timestamp) {
        if self.record_at().is_none_or(|due| now < due) {
            return;
        }
        let capacity = self.world.world().cluster_amounts();
        let used = self.statuses.accounts().used_by_queue();
        let Sampled { store, usages } = self.measurements.usage.sample(now, capacity, used);
        self.orders.extend(store.filter(|_| self.settings.schedules()));
        if let Some(usages) = usages {
            self.set_usage(&usages);
        }
    }

    /// The record of usage at the end of the process.
    pub fn last_record(&self) -> Option<Order> {
        self.measurements.usage.last_record().filter(|_| self.settings.schedules())
    }

    fn set_usage(&mut self, usages: &Usages) {
        for delta in self.measurements.usage.set(usages) {
            self.apply_delta(delta);
        }
        self.measurements.metrics.note_usage(usages);
    }

    /// When the next check of counts and rules is due; none before everything is listed.
    pub fn check_at(&self) -> Option<Timestamp> {
        self.world.check_at()
    }

    /// Checks counts and rules where that is due and nothing is to be planned.
    pub fn check_if_due(&mut self, now: Timestamp) {
        if let Some(found) = self.world.check_if_due(now) {
            self.measurements.metrics.note_violations(&found);
        }
    }

    /// A bind request was carried out by us, or could not be.
    pub fn note_ended_bind(&mut self, ended: &EndedBind, now: Timestamp) {
        self.statuses.note_ended_bind(ended, now);
        self.end_local_bind(ended);
    }

    /// Keeps a pod out of the next plans for a while after its bind failed.
    fn back_off_after_bind(
        &mut self,
        pod: &ObjectName,
        failure: &BindFailure,
        cause: Cause,
        now: Timestamp,
    ) {
        self.binds.end(pod);
        let Some(uid) = self.workloads.pod(pod).map(|entry| entry.base.uid.clone()) else { return };
        // A bind request that failed is in the way of the next until it is gone. Pods that were requested together fail one
        // after the other: one that is bound again before the last has failed would be alone.
        let is_alone = self.binds.request(pod).is_none();
        let is_answered = matches!(cause, Cause::Bind | Cause::Interruption);
        let may_be_forgiven = is_alone && is_answered && self.gangs().is_needed(pod);
        let is_interrupted = matches!(cause, Cause::Interruption | Cause::LostLease);
        let BindFailure { node, reason } = failure;
        let bind = FailedBind { node, reason, is_interrupted, may_be_forgiven };
        self.backoffs.record_failed_bind(pod, &uid, &bind, now);
        self.refresh_pod(pod);
        self.apply_group_of(pod);
    }

    /// Lets pods back into plans whose back-off is over.
    fn end_backoffs(&mut self, now: Timestamp) {
        for pod in self.backoffs.expire(now) {
            let removal = self.binds.pending_removal(&pod);
            self.orders.extend(removal.map(|it| Order::DropBindRequest(it.request, it.uid)));
            self.refresh_pod(&pod);
        }
    }

    /// Updates the world and the sums of groups and queues.
    fn apply_delta(&mut self, delta: Delta) {
        self.statuses.accounts_mut().observe(&delta);
        self.world.apply(delta);
    }

    /// Logs what is wrong with an object, records it as an event of the object, and returns the rest.
    fn valid_part<T>(
        &mut self,
        kind: Kind,
        name: &ObjectName,
        uid: Option<&str>,
        translated: Translated<T>,
    ) -> Option<T> {
        let problem = summary(&translated.problems);
        self.statuses.set_problem(kind, name, uid.unwrap_or_default(), problem);
        log_problems(translated)
    }

    fn forget_object(&mut self, key: ObjectKey) {
        self.apply_delta(Delta::Remove(key));
    }
}

/// What failed, where a pod was not bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The API server rejected the bind, or the bind request.
    Bind,
    /// The API server could not take it just now.
    Interruption,
    /// This process lost a lease while it was under way.
    LostLease,
    /// A binder could not carry the bind request out.
    Request,
}

/// Characters of a message about an object that are logged: the object may quote itself.
const LONGEST_MESSAGE: usize = 1024;

/// Logs what is wrong with an object and returns the rest.
fn log_problems<T>(translated: Translated<T>) -> Option<T> {
    translated.problems.iter().for_each(log_problem);
    translated.object
}

fn log_problem(problem: &Problem) {
    let message: String = problem.message.chars().take(LONGEST_MESSAGE).collect();
    tracing::warn!(object = problem.object, field = problem.field, "{message}");
}
