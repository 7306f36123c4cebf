//! Who is spared as a victim: jobs that started a short while ago, and pods that a disruption budget protects.

use std::collections::BTreeMap;

use crate::cycle::Cycle;
use crate::ids::{JobId, TaskId};
use crate::plugins::minruntime::{self, Cause};
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

    /// Victims that are too young keep the pods they need.
    pub(crate) fn leaves_the_young_alone(
        &self,
        cause: Cause,
        taker: JobId,
        victims: &[TaskId],
    ) -> bool {
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

    /// A disruption budget has no disruption left for some pod of the job. KAI ignores budgets.
    pub(crate) fn is_protected_by_budget(&self, victim: JobId) -> bool {
        if self.world.config.compatibility.is_kai() || self.world.budgets.is_empty() {
            return false;
        }
        self.world.job(victim).tasks().any(|task| {
            let spec = &self.world.task(task).spec;
            self.world.budgets.values().any(|budget| {
                budget.allowed == 0
                    && budget.name.namespace == spec.name.namespace
                    && budget.selector.matches(&spec.labels)
            })
        })
    }
}
