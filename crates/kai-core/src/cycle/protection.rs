//! Jobs that are spared as victims: jobs that started a short while ago, and pods that a disruption budget protects.

use std::collections::BTreeMap;

use crate::cycle::{Cycle, DecisionKind};
use crate::ids::{JobId, TaskId};
use crate::input::{BudgetSpec, ObjectName};
use crate::plugins::minruntime::{self, Cause};
use crate::report::victims::{VictimVerdict, VictimsConsidered};
use crate::status::Status;
use crate::time::Timestamp;
use crate::world::World;

impl World {
    /// Some victim could be spared: there are budgets or pods that may not be evicted now, or some queue lets jobs run for a
    /// while.
    pub(crate) fn may_protect_victims(&self) -> bool {
        let budgets = !self.config.compatibility.is_kai() && !self.budgets.is_empty();
        budgets
            || !self.protected_pods.is_empty()
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
    /// The victim has not run long enough to be evicted for `taker`.
    pub(crate) fn is_too_young(&mut self, cause: Cause, taker: JobId, victim: JobId) -> bool {
        // Elastic jobs give what they do not need while they are young, and the rest when they are not.
        if let Some(until) = minruntime::protected_until(self.world, cause, taker, victim) {
            self.wake_at(until);
        }
        !minruntime::may_be_victim(self.world, self.now, cause, taker, victim)
    }

    /// Victims that are too young keep the pods they need.
    pub(crate) fn spares_the_young(&self, cause: Cause, taker: JobId, victims: &[TaskId]) -> bool {
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

    /// A pod of the job may not be evicted now: the API server refused it a moment ago.
    fn is_eviction_refused(&self, victim: JobId) -> bool {
        !self.world.protected_pods.is_empty()
            && self.world.job(victim).tasks().any(|task| {
                let task = self.world.task(task);
                task.spec.backoff.protected_until.is_some()
                    && task.state.status.is_active_allocated()
            })
    }

    /// Why the job may not be evicted now; none: it may. A budget in the way is noted in the report.
    pub(crate) fn eviction_obstacle(
        &self,
        victim: JobId,
        overrides_budgets: bool,
        report: &mut VictimsConsidered,
    ) -> Option<VictimVerdict> {
        if self.is_eviction_refused(victim) {
            return Some(VictimVerdict::EvictionRefused);
        }
        let budget = if overrides_budgets { None } else { self.protecting_budget(victim) };
        report.budgets.insert(budget?);
        Some(VictimVerdict::DisruptionBudget)
    }

    /// The disruption budget that does not allow the eviction of the job: none is left for one of its pods, or, where the
    /// job is evicted only as a whole, fewer than it has pods. KAI ignores budgets.
    fn protecting_budget(&self, victim: JobId) -> Option<ObjectName> {
        if self.ignores_budgets() {
            return None;
        }
        let pods: Vec<TaskId> = self
            .world
            .job(victim)
            .tasks()
            .filter(|task| self.world.task(*task).state.status.is_active_allocated())
            .collect();
        let elastic = self.world.is_elastic(victim);
        let protects = |budget: &&BudgetSpec| {
            let covered = pods.iter().filter(|pod| self.covers(budget, **pod)).count() as u32;
            let left = self.disruptions_left(budget);
            covered > 0 && (left == 0 || (!elastic && covered > left))
        };
        self.world.budgets.values().find(protects).map(|budget| budget.name.clone())
    }

    /// The first disruption budget that is overdrawn by the victims that are evicted or move.
    pub(crate) fn overdrawn_budget(&self, victims: &[TaskId]) -> Option<ObjectName> {
        if self.ignores_budgets() {
            return None;
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
        let is_overdrawn = |budget: &&BudgetSpec| {
            let covered = disrupted.iter().filter(|pod| self.covers(budget, **pod)).count() as u32;
            covered > self.disruptions_left(budget)
        };
        self.world.budgets.values().find(is_overdrawn).map(|budget| budget.name.clone())
    }

    /// Disruption budgets are in the way of a reclaimer: until when; none: forever. The clock starts now where it does
    /// not run yet; it belongs to the reclaimer, so that other budgets do not start it anew.
    pub(crate) fn delay_reclaim(&mut self, job: JobId) -> Option<Timestamp> {
        let delay = self.world.config.params.disruption_budget_delay?;
        let known = self.world.job(job).spec.reclaim_delayed_since;
        let since = known.map_or(self.now, |since| since.min(self.now));
        self.reclaim_delays.insert(job, since);
        self.wake_at(since.plus(delay));
        Some(since.plus(delay))
    }

    /// Disruption budgets have delayed the reclaimer as long as they may.
    pub(crate) fn outwaited_budgets(&self, job: JobId) -> bool {
        let since = self.world.job(job).spec.reclaim_delayed_since;
        let delay = self.world.config.params.disruption_budget_delay;
        let until = since.zip(delay).map(|(since, delay)| since.plus(delay));
        !self.ignores_budgets() && until.is_some_and(|until| until <= self.now)
    }

    /// The disruption budget that would not have allowed the eviction, where a reclaimer has waited long enough for it.
    pub(crate) fn overridden_budget(
        &self,
        task: TaskId,
        for_job: Option<JobId>,
    ) -> Option<ObjectName> {
        if !for_job.is_some_and(|job| self.budget_overrides.contains(&job)) {
            return None;
        }
        let is_overdrawn = |budget: &&BudgetSpec| {
            self.covers(budget, task) && self.evictions_of(budget) > budget.allowed
        };
        self.world.budgets.values().find(is_overdrawn).map(|budget| budget.name.clone())
    }

    fn ignores_budgets(&self) -> bool {
        self.world.config.compatibility.is_kai() || self.world.budgets.is_empty()
    }

    /// What is left of a budget after the evictions that this cycle has decided.
    fn disruptions_left(&self, budget: &BudgetSpec) -> u32 {
        budget.allowed.saturating_sub(self.evictions_of(budget))
    }

    /// Evictions that this cycle has decided of pods that the budget covers.
    fn evictions_of(&self, budget: &BudgetSpec) -> u32 {
        let evictions = self.decisions.iter().filter(|decision| {
            matches!(decision.kind, DecisionKind::Evict { .. })
                && self.covers(budget, decision.task)
        });
        evictions.count() as u32
    }

    fn covers(&self, budget: &BudgetSpec, pod: TaskId) -> bool {
        let spec = &self.world.task(pod).spec;
        budget.name.namespace == spec.name.namespace && budget.selector.matches(&spec.labels)
    }
}
