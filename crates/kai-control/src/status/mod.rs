//! What is reported about pods, groups and queues: conditions, sums and events. Everything here is level-triggered: what
//! changed is looked at again after a moment, compared with what the cluster shows, and written only where that differs. A
//! pod that waits costs no write while nothing changes.
//!
//! | module | subject |
//! |---|---|
//! | [`amounts`] | what pods request, as statuses report it |
//! | [`accounts`] | sums by group and queue |
//! | [`verdicts`] | why pods and groups are pending |
//! | [`render`] | statuses as patches |
//! | [`events`] | events as objects |
//! | [`problems`] | fields of objects that cannot be read, as events |
//! | [`schedule`] | when which status is looked at again |
//! | [`mod@write`] | patches into requests |

pub mod accounts;
pub mod amounts;
mod claimed;
pub mod events;
mod observed_status;
mod plan;
pub mod problems;
mod queue_headroom;
pub mod render;
pub mod schedule;
pub mod verdicts;
pub mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kai_api::PodGroup;
use kai_api::names::status::{BINDING_ERROR, DEVICE_SELECTOR_REJECTED, UNSCHEDULABLE};
use kai_api::pod_group::{PodGroupResources, SchedulingCondition};
use kai_api::queue::QueueStatus;
use kai_client::kinds::Kind;
use kai_core::fairness::QueueResource;
use kai_core::input::queue::QueueSpec;
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_settings::status::{Duties, Events, StatusSettings};
use kai_translate::time::seconds;
use serde_json::{Map, Value, json};

use accounts::{Accounts, Touched};
use events::{Event, EventQueue, Severity, Subject};
use problems::ObjectProblem;
use render::{ObservedCondition, OrphanReason, PoolVerdict, QueueFaults};
use schedule::{Schedule, Target};
use verdicts::{GroupVerdict, PodVerdict, TextOptions};
use write::{StatusWrite, Written};

/// A write that failed is tried again after this time.
const RETRY: Span = seconds(10);

/// Pod groups as the cluster shows them.
pub type Groups = BTreeMap<ObjectName, PodGroup>;

/// A bind that was ordered.
struct OrderedBind {
    uid: Text,
    node: Text,
    /// An event reported it.
    is_reported: bool,
}

/// What is to be reported, and what the cluster shows of it.
pub struct Statuses {
    settings: StatusSettings,
    /// Name of the scheduler, the source of events.
    scheduler: Text,
    texts: TextOptions,
    accounts: Accounts,
    /// Why pods are pending.
    pods: BTreeMap<ObjectName, PodVerdict>,
    /// Why groups are pending.
    groups: BTreeMap<ObjectName, GroupVerdict>,
    /// Conditions of pods without a node, by pod, with its UID.
    observed_pods: BTreeMap<ObjectName, (Text, ObservedCondition)>,
    observed_queues: BTreeMap<Text, QueueStatus>,
    /// Why selectors of device claims match no device.
    claim_problems: BTreeMap<ObjectName, String>,
    /// Objects with fields that cannot be read.
    problems: BTreeMap<(Kind, ObjectName), ObjectProblem>,
    /// What the latest event of an object said.
    announced: BTreeMap<Target, Text>,
    /// Pods whose bind was ordered.
    binding: BTreeMap<ObjectName, OrderedBind>,
    /// What is reported once a pod was evicted.
    evicting: BTreeMap<ObjectName, Event>,
    schedule: Schedule,
    /// What is to be reported about grouping, as soon as the time is known.
    notices: Vec<Event>,
    events: EventQueue,
    /// Conditions of finished binds.
    extra: VecDeque<StatusWrite>,
    in_flight: BTreeMap<Target, Written>,
    /// Events and other writes whose outcome does not matter.
    unkept_in_flight: usize,
}

impl Statuses {
    /// Nothing is known yet.
    pub fn new(settings: StatusSettings, scheduler: &str, texts: TextOptions) -> Self {
        Self {
            schedule: Schedule::new(settings.settle),
            settings,
            scheduler: scheduler.into(),
            texts,
            accounts: Accounts::default(),
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            observed_pods: BTreeMap::new(),
            observed_queues: BTreeMap::new(),
            claim_problems: BTreeMap::new(),
            problems: BTreeMap::new(),
            announced: BTreeMap::new(),
            binding: BTreeMap::new(),
            evicting: BTreeMap::new(),
            notices: Vec::new(),
            events: EventQueue::default(),
            extra: VecDeque::new(),
            in_flight: BTreeMap::new(),
            unkept_in_flight: 0,
        }
    }

    /// What groups and queues have and want.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// What is known of groups and queues, to be kept up to date.
    pub fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// What is wrong with a device claim; none: nothing is, or it is gone. An event of the claim says so where that is news,
    /// and pods that wait for the claim name it.
    pub fn set_claim_problem(&mut self, claim: &ObjectName, uid: &str, problem: Option<String>) {
        let Some(problem) = problem else {
            self.claim_problems.remove(claim);
            return;
        };
        if self.claim_problems.get(claim) == Some(&problem) {
            return;
        }
        if self.settings.duties.verdicts {
            let subject = Subject::Claim(claim.clone(), uid.into());
            let event =
                Event::new(subject, Severity::Warning, DEVICE_SELECTOR_REJECTED, problem.as_str());
            self.notices.push(event);
        }
        self.claim_problems.insert(claim.clone(), problem);
    }

    /// Changes which statuses are ours to write. Those that begin to be ours are compared as a whole.
    pub fn set_duties(&mut self, duties: Duties, now: Timestamp) {
        let old = std::mem::replace(&mut self.settings.duties, duties);
        if old.verdicts && !duties.verdicts {
            self.pods.clear();
            self.groups.clear();
        }
        if duties.verdicts && !old.verdicts {
            self.report_problems();
        }
        if duties.queues && !old.queues {
            for queue in self.observed_queues.keys() {
                self.schedule.request(Target::Queue(queue.clone()), now);
            }
        }
        if (duties.groups && !old.groups) || (duties.verdicts && !old.verdicts) {
            let mut groups: Vec<ObjectName> = self.accounts.group_names().cloned().collect();
            groups.sort_unstable();
            for group in groups {
                self.schedule.request(Target::Group(group), now);
            }
        }
    }

    /// When something is to be written; none while all workers are busy: the next one that ends asks for more.
    pub fn next(&self) -> Option<Timestamp> {
        if self.is_busy() { None } else { self.schedule.next() }
    }

    fn is_busy(&self) -> bool {
        self.in_flight.len() + self.unkept_in_flight >= self.settings.workers
    }

    /// Notes what pods changed, so that sums are looked at. A group that is no object has no status.
    fn notice(&mut self, groups: &Groups, now: Timestamp) {
        let Touched { groups: touched, queues } = self.accounts.take_touched();
        if self.settings.duties.queues {
            for queue in queues {
                self.schedule.request(Target::Queue(queue), now);
            }
        }
        if self.settings.duties.groups || self.settings.duties.verdicts {
            let mut touched: Vec<ObjectName> =
                touched.into_iter().filter(|group| groups.contains_key(group)).collect();
            touched.sort_unstable();
            for group in touched {
                self.schedule.request(Target::Group(group), now);
            }
        }
    }

    /// Writes that are due, as many as workers are free.
    pub fn take(&mut self, groups: &Groups, now: Timestamp) -> Vec<StatusWrite> {
        self.notice(groups, now);
        for event in std::mem::take(&mut self.notices) {
            self.events.push(event, now);
        }
        let mut writes = Vec::new();
        while !self.is_busy() {
            let Some(target) = self.schedule.take(now) else { break };
            if self.in_flight.contains_key(&target) {
                self.schedule.request(target, now);
                continue;
            }
            if let Some((write, written)) = self.render(&target, groups, now) {
                self.schedule.wrote(target.clone(), now);
                self.in_flight.insert(target, written);
                writes.push(write);
            }
        }
        while !self.is_busy() {
            let event = self.events.take(&self.scheduler);
            let event = event.map(StatusWrite::event);
            let Some(write) = event.or_else(|| self.extra.pop_front()) else { break };
            self.unkept_in_flight += 1;
            writes.push(write);
        }
        writes
    }

    fn render(
        &mut self,
        target: &Target,
        groups: &Groups,
        now: Timestamp,
    ) -> Option<(StatusWrite, Written)> {
        match target {
            Target::Pod(pod) => self.render_pod(pod, now),
            Target::Group(name) => {
                self.announce_group(name, groups, now);
                self.render_group(name, groups.get(name)?, now)
            }
            Target::Queue(queue) => self.render_queue(queue, now),
        }
    }

    fn render_pod(&mut self, pod: &ObjectName, now: Timestamp) -> Option<(StatusWrite, Written)> {
        let verdict = self.pods.get(pod)?.clone();
        let (uid, observed) = self.observed_pods.get(pod)?;
        if *uid != verdict.uid {
            return None;
        }
        // A condition that says so already was announced by its writer.
        let known = *observed == ObservedCondition::of(&verdict);
        let condition = render::pod_condition(observed, &verdict, now).filter(|_| verdict.mark);
        let target = Target::Pod(pod.clone());
        if self.announced.get(&target) != Some(&verdict.message) {
            self.announced.insert(target.clone(), verdict.message.clone());
            if !known && verdict.reason != BINDING_ERROR {
                let subject = Subject::Pod(pod.clone(), verdict.uid.clone());
                let message = verdict.message.clone();
                let event = Event::new(subject, Severity::Warning, UNSCHEDULABLE, message);
                self.events.push(event, now);
            }
        }
        let written = Written::Pod(verdict.uid.clone(), ObservedCondition::of(&verdict));
        Some((StatusWrite::pod(pod, &verdict.uid, condition?), written))
    }

    /// Records an event of a pending group, where that is news.
    fn announce_group(&mut self, name: &ObjectName, groups: &Groups, now: Timestamp) {
        let Some(object) = groups.get(name) else { return };
        let Some(verdict) = self.groups.get(name) else { return };
        let (reason, message) = match verdict {
            GroupVerdict::NotReady(message) => ("NotReady", message.clone()),
            GroupVerdict::Unschedulable { message, .. } => (UNSCHEDULABLE, message.clone()),
        };
        let target = Target::Group(name.clone());
        if self.announced.get(&target) == Some(&message) {
            return;
        }
        self.announced.insert(target, message.clone());
        let conditions = object.status.iter().flat_map(|status| &status.scheduling_conditions);
        let known = |one: &SchedulingCondition| one.message.as_deref() == Some(&*message);
        if !conditions.into_iter().any(known) {
            let uid = object.metadata.uid.as_deref().unwrap_or_default().into();
            let subject = Subject::Group(name.clone(), uid);
            self.events.push(Event::new(subject, Severity::Normal, reason, message), now);
        }
    }

    fn render_group(
        &self,
        name: &ObjectName,
        object: &PodGroup,
        now: Timestamp,
    ) -> Option<(StatusWrite, Written)> {
        let mut status = Map::new();
        let conditions = self.wanted_conditions(name, object, now);
        if let Some(conditions) = &conditions {
            status.insert("schedulingConditions".to_owned(), json!(conditions));
        }
        let resources = self.wanted_resources(name, object);
        if let Some((_, patch)) = &resources {
            status.insert("resourcesStatus".to_owned(), Value::Object(patch.clone()));
        }
        if status.is_empty() {
            return None;
        }
        // Other node pools have their conditions in the same list.
        let identity = render::group_identity(object, conditions.is_some());
        let written = Written::Group { conditions, resources: resources.map(|(sums, _)| sums) };
        Some((StatusWrite::group(name, identity, &status), written))
    }

    fn wanted_conditions(
        &self,
        name: &ObjectName,
        object: &PodGroup,
        now: Timestamp,
    ) -> Option<Vec<SchedulingCondition>> {
        if !self.settings.duties.verdicts {
            return None;
        }
        let mut members = self.accounts.members(name);
        let pool = self.texts.shown_pool();
        match self.groups.get(name) {
            Some(GroupVerdict::Unschedulable { message, reasons }) => {
                let runs = members.any(|(_, member)| member.status.is_active_allocated());
                let verdict = PoolVerdict::Unschedulable { pool, message, reasons };
                if runs { None } else { render::group_conditions(object, &verdict, now) }
            }
            Some(GroupVerdict::NotReady(_)) => None,
            None if members.any(|(_, member)| member.waits()) => None,
            None => render::group_conditions(object, &PoolVerdict::Settled, now),
        }
    }

    fn wanted_resources(
        &self,
        name: &ObjectName,
        object: &PodGroup,
    ) -> Option<(PodGroupResources, Map<String, Value>)> {
        let group = self.accounts.group(name).filter(|_| self.settings.duties.groups)?;
        render::group_resources(object, &group.usage())
    }

    fn orphan_reason(&self, queue: &QueueSpec) -> Option<OrphanReason> {
        let mut parent = queue.parent.as_ref()?;
        if self.accounts.queue(parent).is_none() {
            return Some(OrphanReason::ParentNotFound);
        }
        let mut passed = BTreeSet::new();
        while passed.insert(parent) {
            // An ancestor without a parent of its own has that condition itself.
            parent = self.accounts.queue(parent)?.parent.as_ref()?;
        }
        Some(OrphanReason::ParentCycle)
    }

    fn render_queue(&self, queue: &Text, now: Timestamp) -> Option<(StatusWrite, Written)> {
        let observed = self.observed_queues.get(queue).filter(|_| self.settings.duties.queues)?;
        let spec = self.accounts.queue(queue)?;
        let usage = self.accounts.usage(queue);
        let over = |resource: QueueResource| {
            let quota = spec.quota[resource];
            quota >= 0.0 && usage.allocated.in_planner_units(resource) > quota
        };
        let faults = QueueFaults {
            orphan: self.orphan_reason(spec),
            is_over_quota: QueueResource::ALL.into_iter().any(over),
        };
        let children = self.accounts.children(queue).map(ToString::to_string).collect();
        let (status, patch) = render::queue_status(observed, &usage, children, faults, now)?;
        let write = StatusWrite::queue(queue, &patch);
        Some((write, Written::Queue(status)))
    }

    /// Takes over what came of a write.
    pub fn settle(&mut self, ended: write::Ended, groups: &mut Groups, now: Timestamp) {
        let write::Ended { target, outcome } = ended;
        let Some(target) = target else {
            self.unkept_in_flight = self.unkept_in_flight.saturating_sub(1);
            return;
        };
        let written = self.in_flight.remove(&target);
        match (outcome, written) {
            (write::Outcome::Done, Some(written)) => {
                self.take_as_observed(&target, written, groups);
            }
            (write::Outcome::Failed, _) => self.schedule.request_after(target, RETRY, now),
            // The object changed or is gone: the watch shows what to do next.
            (write::Outcome::Overtaken, _) | (write::Outcome::Done, None) => {}
        }
    }

    /// What was written counts as there, until the watch says otherwise.
    fn take_as_observed(&mut self, target: &Target, written: Written, groups: &mut Groups) {
        match (target, written) {
            (Target::Pod(pod), Written::Pod(uid, condition)) => {
                if let Some(observed) =
                    self.observed_pods.get_mut(pod).filter(|(observed, _)| *observed == uid)
                {
                    observed.1 = condition;
                }
            }
            (Target::Group(name), Written::Group { conditions, resources }) => {
                let Some(group) = groups.get_mut(name) else { return };
                let status = group.status.get_or_insert_default();
                if let Some(conditions) = conditions {
                    status.scheduling_conditions = conditions;
                }
                if resources.is_some() {
                    status.resources_status = resources;
                }
            }
            (Target::Queue(queue), Written::Queue(status)) => {
                if let Some(observed) = self.observed_queues.get_mut(queue) {
                    *observed = status;
                }
            }
            _ => {}
        }
    }
}
