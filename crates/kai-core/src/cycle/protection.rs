//! Who is spared as a victim: jobs that started a short while ago, and pods that a disruption budget protects.

use crate::config::ActionKind;
use crate::cycle::Cycle;
use crate::ids::JobId;

impl Cycle<'_> {
    /// The job has not run long enough to be a victim of `action` for `for_job`.
    pub(crate) fn is_too_young(&mut self, _: JobId, _: JobId, _: ActionKind) -> bool {
        false
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
