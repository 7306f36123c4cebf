//! Who is spared as a victim: jobs that started a short while ago, and pods that a disruption budget protects.

use std::collections::BTreeMap;

use crate::cycle::{Cycle, DecisionKind};
use crate::ids::{JobId, TaskId};
use crate::input::BudgetSpec;
use crate::plugins::minruntime::{self, Cause};
use crate::status::Status;
use crate::world::World;

impl World {
    /// Some victim could be spared: there are budgets, or some queue lets jobs run for a while.
    pub(crate) fn may_protect_victims(&self) -> bool {
        let budgets = !self.config.compatibility.is_kai() && !self.budgets.is_empty();
        budgets
            || self.policy.min_runtime.as_ref().is_some_and(|arguments| {
                arguments.has_defaults()
                    || self.queue_ids.values().any(|queue| {
                        let spec = &self.queue_specs[queue.index()];
                        spec.preempt_min_runtime.is_some() || spec.reclaim_min_runtime.is_some()
                    })
            })
    }
}

impl Cycle<'_> {
    /// The victim has not run long enough to go for `taker`.
    pub(crate) fn is_too_young(&mut self, cause: Cause, taker: JobId, victim: JobId) -> bool {
        // Elastic jobs give what they do not need while they are young, and the rest when they are not.
        if let Some(until) = minruntime::protected_until(self.world, cause, taker, victim) {
            self.wake_at(until);
        }
        !minruntime::may_be_victim(self.world, self.now, cause, taker, victim)
    }

    /// Victims that are too young keep the pods they need, and no disruption budget is overdrawn.
    pub(crate) fn spares_the_protected(
        &self,
        cause: Cause,
        taker: JobId,
        victims: &[TaskId],
    ) -> bool {
        if !self.keeps_budgets(victims) {
            return false;
        }
        if !self.world.may_protect_victims() {
            return true;
        }
        let mut of_job: BTreeMap<JobId, Vec<TaskId>> = BTreeMap::new();
        for task in victims {
            if let Some(job) = self.world.task(*task).job {
                of_job.entry(job).or_default().push(*task);
            }
        }
        of_job.iter().all(|(victim, tasks)| {
            minruntime::allows_victims(self.world, self.now, cause, taker, *victim, tasks)
        })
    }

    /// A disruption budget does not allow the job to go: none is left for one of its pods, or, where the job goes
    /// only as a whole, fewer than it has pods. KAI ignores budgets.
    pub(crate) fn is_protected_by_budget(&self, victim: JobId) -> bool {
        if self.ignores_budgets() {
            return false;
        }
        let pods: Vec<TaskId> = self
            .world
            .job(victim)
            .tasks()
            .filter(|task| self.world.task(*task).state.status.is_active_allocated())
            .collect();
        let elastic = self.world.is_elastic(victim);
        self.world.budgets.values().any(|budget| {
            let covered = pods.iter().filter(|pod| self.covers(budget, **pod)).count() as u32;
            let left = self.disruptions_left(budget);
            covered > 0 && (left == 0 || (!elastic && covered > left))
        })
    }

    /// No disruption budget is overdrawn by the victims that go or move.
    pub(crate) fn keeps_budgets(&self, victims: &[TaskId]) -> bool {
        if self.ignores_budgets() {
            return true;
        }
        let mut disrupted: Vec<TaskId> = victims
            .iter()
            .copied()
            .filter(|task| {
                let status = self.world.task(*task).state.status;
                matches!(status, Status::Releasing | Status::Pipelined)
            })
            .collect();
        disrupted.sort_unstable();
        disrupted.dedup();
        self.world.budgets.values().all(|budget| {
            let covered = disrupted.iter().filter(|pod| self.covers(budget, **pod)).count() as u32;
            covered <= self.disruptions_left(budget)
        })
    }

    fn ignores_budgets(&self) -> bool {
        self.world.config.compatibility.is_kai() || self.world.budgets.is_empty()
    }

    /// What is left of a budget after the evictions that this cycle has decided.
    fn disruptions_left(&self, budget: &BudgetSpec) -> u32 {
        let evictions = self.decisions.iter().filter(|decision| {
            matches!(decision.kind, DecisionKind::Evict { .. })
                && self.covers(budget, decision.task)
        });
        budget.allowed.saturating_sub(evictions.count() as u32)
    }

    fn covers(&self, budget: &BudgetSpec, pod: TaskId) -> bool {
        let spec = &self.world.task(pod).spec;
        budget.name.namespace == spec.name.namespace && budget.selector.matches(&spec.labels)
    }
}
