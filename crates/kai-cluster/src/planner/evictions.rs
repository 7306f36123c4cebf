//! Victims that are told to go: in the order of the plan, so many per second, the pods of a gang together. Those who wait
//! for their turn are spared where nobody needs their place any more and nobody was bound who counted on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kai_core::input::{ObjectName, Text};
use kai_core::plan::{Step, StepKind};
use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::Planner;
use crate::orders::{EvictBy, Order, Victim};

/// How many pods are told to go per second on average; none: as many as there are.
pub const PER_SECOND: u32 = 50;

/// Who must go for one job. A refusal ends it.
#[derive(Clone, Debug)]
struct EvictionPlan {
    /// For whom; none: for nobody, a gang that lacks members.
    for_job: Option<ObjectName>,
    /// Gangs, or single pods, in the order in which they go.
    waiting: VecDeque<Vec<Victim>>,
    /// Pods that were told and of which it is not known yet.
    told: BTreeSet<ObjectName>,
    /// Somebody was bound since it was made, and may have what these pods counted for in their queues: they must go.
    is_counted_on: bool,
}

/// Eviction plans under way, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Evictions {
    plans: BTreeMap<u64, EvictionPlan>,
    begun: u64,
    pace: Pace,
}

/// Lets so many through per second, and a second's worth of them at once.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// When all that were let through are paid for.
    paid_at: Timestamp,
}

impl Pace {
    /// When the next may pass.
    fn opens_at(self) -> Timestamp {
        Timestamp { nanos: self.paid_at.nanos - seconds(1).nanos }
    }

    fn let_through(&mut self, pods: usize, per_second: Option<u32>, now: Timestamp) {
        let Some(per_second) = per_second else { return };
        let each = seconds(1).nanos / i64::from(per_second.max(1));
        let pods = i64::try_from(pods).unwrap_or(i64::MAX);
        self.paid_at = self.paid_at.max(now).plus(Span { nanos: each.saturating_mul(pods) });
    }
}

impl Evictions {
    fn add(&mut self, for_job: Option<ObjectName>, waiting: VecDeque<Vec<Victim>>) {
        self.begun += 1;
        let plan = EvictionPlan { for_job, waiting, told: BTreeSet::new(), is_counted_on: false };
        self.plans.insert(self.begun, plan);
    }

    /// The first plan that waits for nothing but its turn.
    fn next_plan(&self) -> Option<(u64, &EvictionPlan)> {
        let mut idle = self.plans.iter().filter(|(_, plan)| plan.told.is_empty());
        idle.next().map(|(number, plan)| (*number, plan))
    }

    /// When the next victims are to be told.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.next_plan().map(|_| self.pace.opens_at())
    }

    /// It is known of a pod that it was told; its plan goes on when it is known of all.
    fn told(&mut self, pod: &ObjectName) {
        let plan = self.plans.iter_mut().find(|(_, plan)| plan.told.contains(pod));
        let Some((number, plan)) = plan else { return };
        plan.told.remove(pod);
        if plan.told.is_empty() && plan.waiting.is_empty() {
            let number = *number;
            self.plans.remove(&number);
        }
    }

    /// A pod may not go: its plan ends. Those of it that were not told yet.
    fn refused(&mut self, pod: &ObjectName) -> Vec<ObjectName> {
        let plan = self.plans.iter().find(|(_, plan)| plan.told.contains(pod));
        let number = plan.map(|(number, _)| *number);
        number.map(|number| self.cancel(number)).unwrap_or_default()
    }

    fn cancel(&mut self, number: u64) -> Vec<ObjectName> {
        let waiting = self.plans.remove(&number).map(|plan| plan.waiting).unwrap_or_default();
        waiting.into_iter().flatten().map(|victim| victim.pod).collect()
    }

    /// Nobody is told to go any more. Those who were to be.
    pub(super) fn cancel_all(&mut self) -> Vec<ObjectName> {
        let numbers: Vec<u64> = self.plans.keys().copied().collect();
        numbers.into_iter().flat_map(|number| self.cancel(number)).collect()
    }
}

impl Planner {
    /// Takes over whom a plan wants to go: one eviction plan per job that needs their places. Whom it binds counts on all
    /// who are on their way out.
    pub(super) fn plan_evictions(&mut self, steps: &[Step]) {
        let evictions = steps.iter().filter_map(|step| match &step.kind {
            StepKind::Evict { for_job, message, .. } => Some((step, for_job, message)),
            StepKind::Bind { .. } | StepKind::Nominate { .. } => None,
        });
        let evictions: Vec<(&Step, &Option<ObjectName>, &Text)> = evictions.collect();
        for of_one_job in evictions.chunk_by(|left, right| left.1 == right.1) {
            let gangs = of_one_job
                .chunk_by(|left, right| left.0.group.is_some() && left.0.group == right.0.group);
            let gangs = gangs.map(|gang| {
                let victims = gang.iter().map(|(step, _, message)| Victim {
                    pod: step.pod.clone(),
                    uid: step.uid.clone(),
                    message: (*message).clone(),
                });
                victims.collect::<Vec<_>>()
            });
            let waiting = gangs.collect();
            self.evictions.add(of_one_job[0].1.clone(), waiting);
        }
        if steps.iter().any(|step| matches!(step.kind, StepKind::Bind { .. })) {
            self.evictions.plans.values_mut().for_each(|plan| plan.is_counted_on = true);
        }
    }

    /// Orders the evictions whose turn it is.
    pub fn order_evictions(&mut self, now: Timestamp) {
        while let Some((number, plan)) = self.evictions.next_plan() {
            let is_wanted = plan.is_counted_on || self.is_wanted(plan.for_job.as_ref());
            if !self.schedules() || !is_wanted {
                let spared = self.evictions.cancel(number);
                tracing::info!(pods = spared.len(), "nobody needs their places any more");
                self.spare(&spared);
                continue;
            }
            if self.evictions.pace.opens_at() > now {
                return;
            }
            let by = match self.settings.evict_by {
                EvictBy::Delete if self.settings.mark_victims => EvictBy::MarkedDelete,
                by => by,
            };
            let victims = self.next_victims(number);
            if victims.is_empty() {
                continue;
            }
            self.evictions.pace.let_through(victims.len(), self.settings.evictions_per_second, now);
            self.orders.push(Order::Evict(by, victims));
        }
    }

    /// The next victims of a plan that are still there; a plan without any ends.
    fn next_victims(&mut self, number: u64) -> Vec<Victim> {
        let Some(plan) = self.evictions.plans.get_mut(&number) else { return Vec::new() };
        let Some(mut victims) = plan.waiting.pop_front() else {
            self.evictions.plans.remove(&number);
            return Vec::new();
        };
        victims.retain(|victim| {
            self.pods.get(&victim.pod).is_some_and(|entry| entry.base.uid == victim.uid)
        });
        plan.told = victims.iter().map(|victim| victim.pod.clone()).collect();
        victims
    }

    /// Somebody of the job still waits for a place; a job that is none waits for nothing.
    fn is_wanted(&self, for_job: Option<&ObjectName>) -> bool {
        let Some(job) = for_job else { return true };
        let mut pods = self.members.get(job).into_iter().flatten().chain(self.own_groups.get(job));
        pods.any(|pod| {
            let entry = self.pods.get(pod);
            entry.is_some_and(|entry| {
                matches!(entry.base.status, Status::Pending | Status::Gated)
                    && entry.base.node.is_none()
            })
        })
    }

    /// Pods that were to go stay.
    fn spare(&mut self, pods: &[ObjectName]) {
        for pod in pods {
            self.world.forget(pod);
            self.statuses.note_spared(pod);
        }
        self.dirty |= !pods.is_empty();
    }

    /// A pod was told to go.
    pub(super) fn evicted(&mut self, pod: &ObjectName, now: Timestamp) {
        self.statuses.note_evicted(pod, now);
        self.evictions.told(pod);
    }

    /// A pod may not go now: neither do those who were to follow.
    pub(super) fn eviction_refused(
        &mut self,
        victim: &ObjectName,
        mut spared: Vec<ObjectName>,
        now: Timestamp,
    ) {
        spared.extend(self.evictions.refused(victim));
        spared.push(victim.clone());
        self.spare(&spared);
        self.wait_after_eviction(victim, now);
    }

    /// Somebody else plans from now on: who was to go and was not told stays.
    pub(super) fn cancel_evictions(&mut self) {
        let spared = self.evictions.cancel_all();
        self.spare(&spared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp { nanos: millis * 1_000_000 }
    }

    #[test]
    fn a_seconds_worth_passes_at_once_and_the_rest_one_by_one() {
        let mut pace = Pace::default();
        let mut passed = 0;
        while pace.opens_at() <= at(5000) {
            pace.let_through(1, Some(50), at(5000));
            passed += 1;
        }
        assert_eq!(passed, 51, "one more than is paid for");
        assert_eq!(pace.opens_at(), at(5020));
        pace.let_through(100, Some(50), at(5020));
        assert_eq!(pace.opens_at(), at(7020), "a gang passes whole and is paid for afterwards");
        let mut open = Pace::default();
        open.let_through(1000, None, at(5000));
        assert!(open.opens_at() <= at(5000));
    }
}
