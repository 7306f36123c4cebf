//! Statuses and events of a plan and of the writes that follow it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kai_api::names::components::POD_GROUPER;
use kai_api::names::scheduling::{
    EVENT_EVICTED_PODS, EVENT_EVICTOR_ACTION, EVENT_EVICTOR_NAMESPACE, EVENT_EVICTOR_POD_GROUP,
};
use kai_api::names::status::{BINDING_ERROR, CONTESTED_NODE, POD_GROUPER_WARNING};
use kai_core::config::ActionKind;
use kai_core::input::pod_group::DEFAULT_LEAF;
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{CyclePlan, Step, StepKind};
use kai_core::time::Timestamp;
use kai_translate::time::seconds;

use super::accounts::Member;
use super::events::{Event, Severity, Subject};
use super::queue_headroom::QueueHeadroom;
use super::schedule::Target;
use super::verdicts::{self, GroupVerdict, PodVerdict};
use super::{Events, Groups, OrderedBind, Statuses};

impl Statuses {
    /// Takes over what a plan decided and why the rest waits.
    pub fn note_plan(&mut self, made: &CyclePlan, groups: &Groups, now: Timestamp) {
        if !self.settings.duties.verdicts {
            return;
        }
        let mut placed = BTreeSet::new();
        for step in &made.steps {
            match &step.kind {
                StepKind::Bind { node, .. } => {
                    placed.insert(&step.pod);
                    self.schedule.drop(&Target::Pod(step.pod.clone()));
                    let bind = OrderedBind {
                        uid: step.uid.clone(),
                        node: node.clone(),
                        is_reported: false,
                    };
                    self.binding.insert(step.pod.clone(), bind);
                }
                StepKind::Nominate { node, for_job, .. } => {
                    placed.insert(&step.pod);
                    if for_job.is_none() {
                        self.report_nomination(step, node, now);
                    }
                }
                StepKind::Evict { for_job, batch, message, overrides_budget } => {
                    let mut event = evict_event(step, for_job.as_ref(), *batch, message, groups);
                    if overrides_budget.is_some() {
                        event.severity = Severity::Warning;
                    }
                    self.evicting.insert(step.pod.clone(), event);
                }
            }
        }
        for (group, since) in &made.staleness {
            if since.is_some() {
                self.report_stale(group, groups, now);
            }
        }
        self.note_waiting(made, groups, &placed, now);
    }

    fn note_waiting(
        &mut self,
        made: &CyclePlan,
        groups: &Groups,
        placed: &BTreeSet<&ObjectName>,
        now: Timestamp,
    ) {
        let mut pods: BTreeMap<ObjectName, PodVerdict> = BTreeMap::new();
        let mut pending: BTreeMap<ObjectName, GroupVerdict> = BTreeMap::new();
        let mut headroom = QueueHeadroom::new(&self.accounts);
        for report in &made.waiting {
            let is_placed = |pod: &ObjectName| placed.contains(pod);
            let object = groups.get(&report.job);
            let mut verdicts =
                verdicts::of_job(report, object, &self.accounts, is_placed, &self.texts);
            let over_limit = if self.texts.marks_over_limit { headroom.take(report) } else { None };
            if let Some(over_limit) = over_limit {
                verdicts::mark_over_limit(&mut verdicts, &over_limit);
            }
            verdicts::mention_claims(&mut verdicts, &self.accounts, &self.claim_problems);
            pods.extend(verdicts.pods);
            pending.insert(report.job.clone(), verdicts.group);
        }
        let old_pods = std::mem::take(&mut self.pods);
        for (pod, verdict) in &pods {
            let news = old_pods.get(pod) != Some(verdict);
            let unseen = !self.announced.contains_key(&Target::Pod(pod.clone()));
            if news || unseen {
                self.schedule.request(Target::Pod(pod.clone()), now);
            }
        }
        // A failed bind stays reported until there is something newer to report.
        let kept = old_pods.into_iter().filter(|(pod, verdict)| {
            let waits = self.accounts.member(pod).is_some_and(Member::waits);
            verdict.reason == BINDING_ERROR && waits && !placed.contains(pod)
        });
        self.pods = kept.collect();
        self.pods.extend(pods);
        let old = std::mem::replace(&mut self.groups, pending);
        let news = self.groups.iter().filter(|(group, now)| old.get(*group) != Some(now));
        let gone = old.keys().filter(|group| !self.groups.contains_key(*group));
        for group in news.map(|(group, _)| group).chain(gone) {
            self.schedule.request(Target::Group(group.clone()), now);
        }
    }

    fn report_nomination(&mut self, step: &Step, node: &Text, now: Timestamp) {
        let message: Text = format!("Pod {} was pipelined to node {node}", step.pod).into();
        let target = Target::Pod(step.pod.clone());
        let news = self.announced.get(&target) != Some(&message);
        if news && self.settings.events == Events::All {
            self.announced.insert(target, message.clone());
            let subject = Subject::Pod(step.pod.clone(), step.uid.clone());
            self.events.push(Event::new(subject, Severity::Normal, "Pipelined", message), now);
        }
    }

    fn report_stale(&mut self, group: &ObjectName, groups: &Groups, now: Timestamp) {
        let Some(subject) = subject_of(group, groups) else { return };
        let Some(account) = self.accounts.group(group) else { return };
        let active = |leaf: Option<&Text>| {
            let members = self.accounts.members(group).filter(|(_, member)| {
                let there = leaf.is_none() || member.sub_group.as_ref() == leaf;
                there && member.status.is_active_allocated()
            });
            members.count()
        };
        let needed: u32 = account.leaves.values().sum();
        let mut message =
            format!("Job is stale. {} pods are active, minMember is {needed}", active(None));
        for (leaf, needed) in account.leaves.iter().filter(|(leaf, _)| &***leaf != DEFAULT_LEAF) {
            let active = active(Some(leaf));
            let _ = write!(
                message,
                ", subGroup {leaf} minMember is {needed} and {active} pods are active"
            );
        }
        self.events.push(Event::new(subject, Severity::Normal, "StaleJob", message), now);
    }

    /// What the author of a pod should know about its group.
    pub fn note_grouping(&mut self, pod: &ObjectName, uid: &Text, notices: &[String]) {
        for notice in notices {
            let subject = Subject::Pod(pod.clone(), uid.clone());
            let mut event =
                Event::new(subject, Severity::Warning, POD_GROUPER_WARNING, notice.as_str());
            event.component = Some(POD_GROUPER);
            self.notices.push(event);
        }
    }

    /// A pod was evicted.
    pub fn note_evicted(&mut self, pod: &ObjectName, now: Timestamp) {
        if let Some(event) = self.evicting.remove(pod) {
            self.events.push(event, now);
        }
    }

    /// A pod that was to go stays.
    pub fn note_spared(&mut self, pod: &ObjectName) {
        self.evicting.remove(pod);
    }

    /// A bind was carried out, or requested. The watch may show it first.
    pub fn note_bound(&mut self, pod: &ObjectName, now: Timestamp) {
        if self.settings.events != Events::All {
            return;
        }
        let Some(bind) = self.binding.get_mut(pod).filter(|bind| !bind.is_reported) else { return };
        bind.is_reported = true;
        let (node, pool) = (&bind.node, self.texts.shown_pool());
        let message = format!("Successfully assigned pod {pod} to node {node} at node-pool {pool}");
        let subject = Subject::Pod(pod.clone(), bind.uid.clone());
        self.events.push(Event::new(subject, Severity::Normal, "Scheduled", message), now);
    }

    /// A pod of another scheduler was bound to the node of the pod at the same time.
    pub fn note_contest(&mut self, pod: &ObjectName, uid: &Text, message: &str, now: Timestamp) {
        let subject = Subject::Pod(pod.clone(), uid.clone());
        self.events.push(Event::new(subject, Severity::Warning, CONTESTED_NODE, message), now);
    }

    /// A bind failed: the pod's condition and an event say why.
    pub fn note_bind_failed(&mut self, pod: &ObjectName, error: &str, now: Timestamp) {
        if !self.settings.duties.verdicts {
            return;
        }
        let Some(OrderedBind { uid, node, .. }) = self.binding.remove(pod) else { return };
        let message = format!("Failed to bind pod {pod} to node {node}. {error}");
        let subject = Subject::Pod(pod.clone(), uid.clone());
        self.events.push(Event::new(subject, Severity::Warning, "FailedBinding", message), now);
        let verdict = PodVerdict { uid, reason: BINDING_ERROR, message: error.into(), mark: true };
        self.pods.insert(pod.clone(), verdict);
        // At once: the next plan may try it again, and then there would be nothing to report any more.
        let target = Target::Pod(pod.clone());
        self.schedule.drop(&target);
        self.schedule.request_after(target, seconds(0), now);
    }
}

/// The event is that of the victim's group; where there is no object of it, the victim itself.
fn evict_event(
    step: &Step,
    for_job: Option<&ObjectName>,
    batch: u32,
    message: &Text,
    groups: &Groups,
) -> Event {
    let own = || Subject::Pod(step.pod.clone(), step.uid.clone());
    let group = step.group.as_ref().and_then(|group| subject_of(group, groups));
    let subject = group.unwrap_or_else(own);
    let mut event = Event::new(subject, Severity::Normal, "Evict", message.clone());
    event.annotations.insert(EVENT_EVICTED_PODS, batch.to_string());
    event.annotations.insert(EVENT_EVICTOR_ACTION, step.action.name().to_owned());
    let evictor = for_job.filter(|_| step.action != ActionKind::StaleGangEviction);
    if let Some(job) = evictor {
        event.annotations.insert(EVENT_EVICTOR_POD_GROUP, job.name.to_string());
        event.annotations.insert(EVENT_EVICTOR_NAMESPACE, job.namespace.to_string());
    }
    event
}

/// The group as the subject of an event, where there is an object of it.
fn subject_of(group: &ObjectName, groups: &Groups) -> Option<Subject> {
    let uid = groups.get(group)?.metadata.uid.as_deref()?;
    Some(Subject::Group(group.clone(), uid.into()))
}
