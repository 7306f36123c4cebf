//! One plan, and the orders it gives.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::{gpu, scheduling};
use kai_client::write::BindPod;
use kai_core::input::ObjectName;
use kai_core::plan::{CyclePlan, Milestone, Step, StepKind, assume, plan_and_measure};
use kai_core::time::Timestamp;
use kai_translate::time;

use super::decision_log::{log_decision, log_trials};
use super::pods::Membership;
use super::requests::received;
use super::{BindRequests, Planner, Publish};
use crate::orders::Order;

/// The plugin that tells the order of jobs.
const REFLECT_JOB_ORDER: &str = "reflectjoborder";

impl Planner {
    /// Plans and gives the orders. The decisions count as done until the cluster confirms or refutes them.
    /// `clock` tells how long each action took.
    pub fn cycle(&mut self, now: Timestamp, clock: &dyn Fn() -> Timestamp) {
        self.end_waits(now);
        if self.schedules() {
            self.revert_contested_binds(now);
        }
        self.wait_after_failed_requests(now);
        self.wake_at = None;
        self.dirty = false;
        if !self.schedules() {
            return;
        }
        let mut made = self.plan(now, clock);
        drop_stillborn(&mut made);
        made.steps.retain(|step| {
            let is_bind = matches!(step.kind, StepKind::Bind { .. });
            !(is_bind && self.awaits_its_group_object(&step.pod))
        });
        log_trials(&made);
        assume(&mut self.world, &made);
        self.wake_at = made.wake_at;
        let gangs = self.gangs_to_prepare(&made.steps);
        for step in &made.steps {
            match &step.kind {
                StepKind::Bind { .. } => {
                    let gang = step.group.as_ref().and_then(|group| gangs.get(group));
                    log_decision(step);
                    self.order_bind(step, gang.copied());
                }
                StepKind::Nominate { node, for_job: None, .. } => {
                    if self.nominate(&step.pod, node, now) {
                        log_decision(step);
                    }
                }
                StepKind::Nominate { .. } | StepKind::Evict { .. } => log_decision(step),
            }
        }
        self.expire_nominations(now);
        self.plan_evictions(&made.steps);
        self.mark_groups(&made, now);
        self.publish_waiting(&made, now);
        self.measure(&made, now);
        made.waiting.retain(|report| !report.pods.iter().any(|one| self.avoids_nodes(&one.pod)));
        self.statuses.note_plan(&made, &self.groups, now);
        self.job_order = self.reflects_job_order().then_some(made.job_order);
        self.check_counts_in_debug_builds();
    }

    /// The plan, with how long each action took; what devices had left is noted only where it is logged.
    fn plan(&mut self, now: Timestamp, clock: &dyn Fn() -> Timestamp) -> CyclePlan {
        let logged = tracing::enabled!(tracing::Level::DEBUG);
        let mut begin = clock();
        let (world, metrics) = (&mut self.world, &mut self.metrics);
        let made = plan_and_measure(world, now, logged, |milestone| {
            let end = clock();
            let span = end.since(begin);
            match milestone {
                Milestone::Opened => metrics.note_opened(span),
                Milestone::Acted(action) => metrics.note_action(action, span),
            }
            begin = end;
        });
        metrics.note_closed(clock().since(begin));
        made
    }

    fn reflects_job_order(&self) -> bool {
        self.settings.config.plugins.iter().any(|plugin| *plugin.name == *REFLECT_JOB_ORDER)
    }

    /// The pod is kept off nodes on which its binds failed: why they failed says more than that no other node was found.
    fn avoids_nodes(&self, pod: &ObjectName) -> bool {
        let entry = self.pods.get(pod);
        entry.is_some_and(|entry| !self.backoffs.avoided(pod, &entry.base.uid).is_empty())
    }

    /// The pod needs nothing but its node.
    pub(super) fn is_bound_at_once(&self, step: &Step) -> bool {
        if self.settings.bind_requests == BindRequests::Always {
            return false;
        }
        let StepKind::Bind { gpu_groups, claims, .. } = &step.kind else { return false };
        let Some(entry) = self.pods.get(&step.pod) else { return false };
        let namespace = &step.pod.namespace;
        let mut volumes = entry.base.constraints.volume_claims.iter();
        let filled = volumes.all(|claim| {
            let claim = ObjectName { namespace: namespace.clone(), name: claim.clone() };
            self.filled_claims.contains(&claim)
        });
        let claims_nothing = claims.is_empty() && entry.base.claims.is_empty();
        gpu_groups.is_empty() && claims_nothing && filled
    }

    fn order_bind(&mut self, step: &Step, gang: Option<u32>) {
        let StepKind::Bind { node, numa_zones, .. } = &step.kind else { return };
        let pod = step.pod.clone();
        let Some(entry) = self.pods.get(&pod) else { return };
        let kind = received(&entry.base.request.gpu);
        self.in_flight.insert(pod.clone());
        if gang.is_none() && self.is_bound_at_once(step) {
            let mut annotations =
                BTreeMap::from([(gpu::RECEIVED_RESOURCE_TYPE.into(), kind.to_owned())]);
            if let Some(zones) = numa_zones {
                annotations.insert(scheduling::NUMA_PREDICTED.into(), zones.to_string());
            }
            let placement = self.signer.sign(&entry.view.metadata, node, &[], &annotations);
            annotations.extend(placement.map(|text| (scheduling::PLACEMENT.into(), text)));
            let bind = BindPod { pod, uid: step.uid.clone(), node: node.clone(), annotations };
            self.orders.push(Order::Bind(bind));
        } else {
            let request = self.bind_request_for(step, gang);
            self.orders.push(Order::RequestBind(pod, Box::new(request)));
        }
    }

    /// Starts, evictions and missing members are remembered on the groups, so that they survive us.
    fn mark_groups(&mut self, made: &CyclePlan, now: Timestamp) {
        let mut marks: BTreeMap<ObjectName, BTreeMap<&'static str, Option<String>>> =
            BTreeMap::new();
        for group in &made.started {
            let marks = marks.entry(group.clone()).or_default();
            marks.insert(scheduling::LAST_START, Some(time::format(now)));
        }
        let evicted: BTreeSet<&ObjectName> = made
            .steps
            .iter()
            .filter(|step| matches!(step.kind, StepKind::Evict { .. }))
            .filter_map(|step| step.group.as_ref())
            .collect();
        for group in evicted {
            let marks = marks.entry(group.clone()).or_default();
            marks.insert(scheduling::LAST_EVICTION, Some(time::format(now)));
        }
        for (group, since) in &made.staleness {
            if since.is_none() && self.is_being_completed(group) {
                continue;
            }
            let marks = marks.entry(group.clone()).or_default();
            marks.insert(scheduling::STALE_SINCE, since.map(time::format));
        }
        for (group, since) in &made.reclaim_delays {
            let marks = marks.entry(group.clone()).or_default();
            marks.insert(scheduling::RECLAIM_DELAYED_SINCE, Some(time::format(*since)));
        }
        for group in self.ended_delays(made) {
            let marks = marks.entry(group).or_default();
            marks.insert(scheduling::RECLAIM_DELAYED_SINCE, None);
        }
        for (group, mut marks) in marks {
            let Some(object) = self.groups.get_mut(&group) else {
                if marks.contains_key(scheduling::LAST_START) {
                    self.mark_own_start(&group, now);
                }
                continue;
            };
            let annotations = object.metadata.annotations.get_or_insert_default();
            marks.retain(|key, value| annotations.get(*key) != value.as_ref());
            if marks.is_empty() {
                continue;
            }
            for (key, value) in &marks {
                match value {
                    Some(value) => annotations.insert((*key).to_owned(), value.clone()),
                    None => annotations.remove(*key),
                };
            }
            self.tell_group(&group);
            self.orders.push(Order::MarkGroup(group, marks));
        }
    }

    /// Groups that disruption budgets delayed, and of which no pod waits any more.
    fn ended_delays(&self, made: &CyclePlan) -> BTreeSet<ObjectName> {
        let binds = made.steps.iter().filter(|step| matches!(step.kind, StepKind::Bind { .. }));
        let groups = binds.filter_map(|step| step.group.as_ref());
        let ended = groups.filter(|group| {
            let annotations =
                self.groups.get(*group).and_then(|object| object.metadata.annotations.as_ref());
            let is_delayed = annotations
                .is_some_and(|keys| keys.contains_key(scheduling::RECLAIM_DELAYED_SINCE));
            is_delayed && !made.waiting.iter().any(|report| report.job == **group)
        });
        ended.cloned().collect()
    }

    /// Pods that are their own group and have waited long enough get an object of it.
    fn publish_waiting(&mut self, made: &CyclePlan, now: Timestamp) {
        let Publish::AfterWaiting(patience) = self.settings.publish else { return };
        for report in &made.waiting {
            let Some(pod) = self.own_groups.get(&report.job) else { continue };
            let Some(entry) = self.pods.get_mut(pod) else { continue };
            let Membership::Own { plan, published: published @ false } = &mut entry.group else {
                continue;
            };
            let due = entry.base.created.plus(patience);
            if due <= now {
                *published = true;
                self.orders.push(Order::Publish(Box::new(entry.view.clone()), plan.clone()));
            } else {
                self.wake_at = Some(self.wake_at.map_or(due, |wake| wake.min(due)));
            }
        }
    }
}

/// If a later job in the same plan needs the capacity of a pod that the plan binds, that pod stays pending: nothing is written.
fn drop_stillborn(made: &mut CyclePlan) {
    let binds = |step: &&Step| matches!(step.kind, StepKind::Bind { .. });
    let evicts = |step: &Step| matches!(step.kind, StepKind::Evict { .. });
    let bound: BTreeSet<ObjectName> =
        made.steps.iter().filter(binds).map(|step| step.pod.clone()).collect();
    let stillborn: BTreeSet<ObjectName> = made
        .steps
        .iter()
        .filter(|step| evicts(step) && bound.contains(&step.pod))
        .map(|step| step.pod.clone())
        .collect();
    made.steps.retain(|step| {
        matches!(step.kind, StepKind::Nominate { .. }) || !stillborn.contains(&step.pod)
    });
}
