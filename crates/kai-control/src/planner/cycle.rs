//! One plan, and the orders it gives.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::{gpu, scheduling};
use kai_client::path::Resource;
use kai_client::write::{BindPod, Target};
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{CyclePlan, Milestone, Step, StepKind, plan_and_measure};
use kai_core::time::Timestamp;

use super::bind_request_object::{BindRequestSource, received};
use super::decision_log::{log_decision, log_trials};
use super::group_marks::marks_of;
use super::pods::publish;
use super::workloads::PublishDue;

use super::{BindRequests, Planner, Publish};
use crate::orders::Order;
use crate::status::render::group_identity;

impl Planner {
    /// Plans and gives the orders. The decisions count as done until the cluster confirms or refutes them.
    /// `clock` measures how long each action took.
    pub fn cycle(&mut self, now: Timestamp, clock: &dyn Fn() -> Timestamp) {
        self.end_backoffs(now);
        if self.settings.schedules() {
            self.revert_contested_binds(now);
        }
        self.back_off_after_failed_requests(now);
        self.world.begin_cycle();
        if !self.settings.schedules() {
            return;
        }
        let mut made = self.plan(now, clock);
        drop_stillborn(&mut made);
        self.withhold_binds(&mut made);
        log_trials(&made);
        self.world.assume(&made);
        let gangs =
            self.gangs().needing_preparation(&made.steps, |step| !self.is_bound_at_once(step));
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
        for pod in self.nominations.expire(now) {
            self.refresh_preference(&pod);
        }
        self.evictions.queue.add_steps(&made.steps);
        self.mark_groups(&made, now);
        self.publish_waiting(&made, now);
        self.measure(&made, now);
        made.waiting.retain(|report| !report.pods.iter().any(|one| self.avoids_nodes(&one.pod)));
        self.statuses.note_plan(&made, self.workloads.groups(), now);
        self.world.set_job_order(self.settings.reflects_job_order().then_some(made.job_order));
        self.world.check_counts_in_debug_builds();
    }

    /// The plan, with how long each action took; what devices had left is noted only where it is logged.
    fn plan(&mut self, now: Timestamp, clock: &dyn Fn() -> Timestamp) -> CyclePlan {
        let logged = tracing::enabled!(tracing::Level::DEBUG);
        let mut begin = clock();
        let (world, metrics) = (self.world.world_mut(), &mut self.measurements.metrics);
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

    /// A plan nominated the pod. False where it only renewed that.
    fn nominate(&mut self, pod: &ObjectName, node: &Text, now: Timestamp) -> bool {
        let is_news =
            self.workloads.pod(pod).is_some() && self.nominations.nominate(pod, node, now);
        if is_news {
            self.refresh_preference(pod);
        }
        is_news
    }

    /// Only the node that a pod prefers changed: no plan is due for that.
    fn refresh_preference(&mut self, pod: &ObjectName) {
        let was_dirty = self.world.is_dirty();
        self.refresh_pod(pod);
        self.world.restore_dirty(was_dirty);
    }

    /// The pod is kept off nodes on which its binds failed: why they failed says more than that no other node was found.
    fn avoids_nodes(&self, pod: &ObjectName) -> bool {
        let entry = self.workloads.pod(pod);
        entry.is_some_and(|entry| !self.backoffs.avoided(pod, &entry.base.uid).is_empty())
    }

    /// The pod needs nothing but its node.
    fn is_bound_at_once(&self, step: &Step) -> bool {
        if self.settings.bind_requests == BindRequests::Always {
            return false;
        }
        let entry = self.workloads.pod(&step.pod);
        entry.is_some_and(|entry| !self.binds.needs_preparation(step, &entry.base))
    }

    fn order_bind(&mut self, step: &Step, gang: Option<u32>) {
        let StepKind::Bind { node, numa_zones, .. } = &step.kind else { return };
        let pod = step.pod.clone();
        let Some(entry) = self.workloads.pod(&pod) else { return };
        let kind = received(&entry.base.request.gpu);
        self.binds.begin(pod.clone());
        if gang.is_none() && self.is_bound_at_once(step) {
            let mut annotations =
                BTreeMap::from([(gpu::RECEIVED_RESOURCE_TYPE.into(), kind.to_owned())]);
            if let Some(zones) = numa_zones {
                annotations.insert(scheduling::NUMA_PREDICTED.into(), zones.to_string());
            }
            let placement = entry.grouping_view().and_then(|view| {
                self.settings.signer().sign(&view.metadata, node, &[], &annotations)
            });
            annotations.extend(placement.map(|text| (scheduling::PLACEMENT.into(), text)));
            let (uid, node, labels) = (step.uid.clone(), node.clone(), BTreeMap::new());
            let bind = BindPod { pod, uid, node, labels, annotations };
            self.orders.push(Order::Bind(bind));
        } else {
            let source = BindRequestSource {
                entry,
                partition: &self.settings.partition,
                world: self.world.world(),
                devices: &self.devices,
            };
            let Some(request) = source.request(step, gang) else { return };
            if self.hands_over(&pod) {
                self.hand_over(pod, request);
            } else {
                self.orders.push(Order::RequestBind(pod, Box::new(request)));
            }
        }
    }

    /// Records starts, evictions and missing members on the groups, so that they survive the process.
    fn mark_groups(&mut self, made: &CyclePlan, now: Timestamp) {
        let gangs = self.gangs();
        let marks = marks_of(made, &self.workloads, |group| gangs.is_being_completed(group), now);
        for (group, marks) in marks {
            let is_started = marks.contains_key(scheduling::LAST_START);
            match self.workloads.mark_group(&group, marks) {
                Some(marks) if marks.is_empty() => {}
                Some(marks) => {
                    self.apply_group(&group);
                    let target = self.workloads.group(&group).map(|object| Target {
                        resource: Resource::POD_GROUPS,
                        identity: group_identity(object, false),
                        name: group,
                    });
                    self.orders.extend(target.map(|target| Order::MarkGroup(target, marks)));
                }
                None if is_started => self.start_own_group(&group, now),
                None => {}
            }
        }
    }

    /// Pods that are their own group and have waited long enough get an object of it.
    fn publish_waiting(&mut self, made: &CyclePlan, now: Timestamp) {
        let Publish::AfterWaiting(patience) = self.settings.publish else { return };
        for report in &made.waiting {
            match self.workloads.publish_after(&report.job, patience, now) {
                PublishDue::Now(publication) => self.orders.push(publish(publication)),
                PublishDue::At(due) => self.world.wake_by(due),
                PublishDue::Never => {}
            }
        }
    }

    /// Takes out binds, and starts of groups, of pods that await the objects of their groups.
    fn withhold_binds(&self, made: &mut CyclePlan) {
        made.steps.retain(|step| {
            let is_bind = matches!(step.kind, StepKind::Bind { .. });
            !(is_bind && self.awaits_its_group_object(&step.pod))
        });
        made.started.retain(|group| {
            let pod = self.workloads.own_pod(group);
            !pod.is_some_and(|pod| self.awaits_its_group_object(pod))
        });
    }

    /// The group of the pod is to be published as an object and is not one yet, or the pod does not name it yet. Such a pod is
    /// planned with all others, and bound by the first plan after both are observed.
    pub(super) fn awaits_its_group_object(&self, pod: &ObjectName) -> bool {
        self.settings.publish == Publish::Always && self.workloads.is_own_group(pod)
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
