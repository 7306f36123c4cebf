//! Victims of plans into eviction orders, answers back into the world. A victim that was not sent yet stays when its
//! preemptor no longer needs its capacity and no pod was bound that depends on it.

use kai_client::request::EvictBy;
use kai_core::input::{ObjectName, PodSpec};
use kai_core::plan::{Step, StepKind};
use kai_core::status::Status;
use kai_core::time::Timestamp;

use super::Planner;
use crate::orders::{Order, Victim};

impl Planner {
    /// Queues the victims of a plan, one eviction plan per preemptor. A pod that the plan binds may depend on every victim
    /// that is still to go.
    pub(super) fn plan_evictions(&mut self, steps: &[Step]) {
        let evictions = steps.iter().filter_map(|step| match &step.kind {
            StepKind::Evict { for_job, message, overrides_budget, .. } => {
                let victim = Victim {
                    pod: step.pod.clone(),
                    uid: step.uid.clone(),
                    message: message.clone(),
                    overrides_budget: overrides_budget.is_some(),
                };
                Some((step, for_job, victim))
            }
            StepKind::Bind { .. } | StepKind::Nominate { .. } => None,
        });
        let evictions: Vec<(&Step, &Option<ObjectName>, Victim)> = evictions.collect();
        for of_one_job in evictions.chunk_by(|left, right| left.1 == right.1) {
            let gangs = of_one_job
                .chunk_by(|left, right| left.0.group.is_some() && left.0.group == right.0.group);
            let victims = |gang: &[(&Step, &Option<ObjectName>, Victim)]| {
                gang.iter().map(|(_, _, victim)| victim.clone()).collect()
            };
            let gangs = gangs.map(victims).collect();
            self.evictions.add(of_one_job[0].1.clone(), gangs);
        }
        if steps.iter().any(|step| matches!(step.kind, StepKind::Bind { .. })) {
            self.evictions.count_on_all();
        }
    }

    /// How pods are evicted, by the settings.
    pub(super) fn evict_by(&self) -> EvictBy {
        match self.settings.evict_by {
            EvictBy::Delete if self.settings.mark_victims => EvictBy::MarkedDelete,
            by => by,
        }
    }

    /// Orders the evictions that may be sent now.
    pub fn order_evictions(&mut self, now: Timestamp) {
        let by = self.evict_by();
        while let Some((number, plan)) = self.evictions.next_plan() {
            let is_needed = plan.is_counted_on || self.is_pending(plan.for_job.as_ref());
            if !self.schedules() || !is_needed {
                let preemptor = plan.for_job.as_ref().map(ToString::to_string).unwrap_or_default();
                let spared = self.evictions.cancel(number);
                tracing::info!(preemptor, pods = spared.len(), "spared victims");
                self.spare(&spared);
                continue;
            }
            if !self.evictions.is_open(now) {
                return;
            }
            let per_second = self.settings.evictions_per_second;
            let pods = &self.pods;
            let gang = self.evictions.send_next(number, per_second, now, |victim| {
                pods.get(&victim.pod).is_some_and(|entry| entry.base.uid == victim.uid)
            });
            self.orders.extend(gang.into_iter().map(|victim| {
                let by = if victim.overrides_budget { EvictBy::MarkedDelete } else { by };
                Order::Evict(by, victim)
            }));
        }
    }

    /// A pod of the job still waits for a node. Without a preemptor the victims are evicted for their own sake.
    fn is_pending(&self, for_job: Option<&ObjectName>) -> bool {
        let Some(job) = for_job else { return true };
        let mut pods = self.members.get(job).into_iter().flatten().chain(self.own_groups.get(job));
        pods.any(|pod| {
            let entry = self.pods.get(pod);
            entry.is_some_and(|entry| entry.base.status.is_waiting() && entry.base.node.is_none())
        })
    }

    /// Victims stay: they count as running again.
    fn spare(&mut self, pods: &[ObjectName]) {
        for pod in pods {
            self.world.forget(pod);
            self.statuses.note_spared(pod);
        }
        self.dirty |= !pods.is_empty();
    }

    /// The API server accepted an eviction.
    pub(super) fn eviction_accepted(&mut self, pod: &ObjectName, now: Timestamp) {
        self.statuses.note_evicted(pod, now);
        self.evictions.accept(pod);
    }

    /// The API server refused an eviction: the rest of its plan that was not sent stays too.
    pub(super) fn eviction_refused(&mut self, victim: &ObjectName, now: Timestamp) {
        let spared = self.evictions.refuse(victim);
        self.spare(&spared);
        self.wait_after_eviction(victim, now);
    }

    /// Another process plans from now on: victims that were not sent stay.
    pub(super) fn cancel_evictions(&mut self) {
        let spared = self.evictions.cancel_all();
        self.spare(&spared);
    }

    /// The pod ends because we evicted it, and nothing else about it changed: the world has counted it as ending since the
    /// plan was made, so no new plan is due for that.
    pub(super) fn confirms_eviction(&self, observed: &PodSpec) -> bool {
        let known = self.pods.get(&observed.name).map(|entry| &entry.base);
        let Some(known) = known.filter(|known| known.status.is_alive()) else { return false };
        let is_ours = self.evictions.is_assumed(&observed.name, &observed.uid);
        if !is_ours || observed.status != Status::Releasing {
            return false;
        }
        let mut before = observed.clone();
        before.status = known.status;
        before.stuck_at = known.stuck_at;
        before == *known
    }

    /// The watch shows that a victim ends. `was_dirty` is whether a plan was due before. The last victim makes one due: the
    /// preemptor may fit beside victims that still end, where they held quota and not its device.
    pub(super) fn confirm_eviction(&mut self, pod: &PodSpec, was_dirty: bool) {
        self.evictions.forget(&pod.name);
        self.dirty = was_dirty || self.evictions.all_are_shown();
        self.wake_at = [self.wake_at, pod.stuck_at].into_iter().flatten().min();
    }
}
