//! reflectjoborder: the order in which jobs would be tried is part of the plan, for users who ask why their job is pending.
//! It is the order of `allocate` when the cycle begins, as if no job found a place.

use crate::config::{ActionKind, PluginSpec};
use crate::cycle::Cycle;
use crate::cycle::order::{Eligible, JobQueue};
use crate::plan::OrderedJob;
use crate::plugins::Policy;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.reflects_job_order = true;
}

/// Waiting jobs in the order they would be tried.
pub(crate) fn job_order(cycle: &mut Cycle<'_>) -> Vec<OrderedJob> {
    let all_jobs = Eligible { preemptible_only: false, past_delay_only: false };
    let mut queue = JobQueue::new(cycle, ActionKind::Allocate, all_jobs);
    let jobs = std::iter::from_fn(|| queue.pop(cycle));
    let ordered = |job| {
        let spec = &cycle.world.job(job).spec;
        OrderedJob { job: spec.name.clone(), queue: spec.queue.clone(), priority: spec.priority }
    };
    jobs.map(ordered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatibility::Compatibility;
    use crate::input::Object;
    use crate::plan::plan;
    use crate::plugins::testing::{group, one_leaf, pod, queue, set, world};
    use crate::time::Timestamp;

    fn ordered(plugins: &[PluginSpec]) -> Vec<String> {
        let mut world = world(Compatibility::Right, plugins);
        set(&mut world, Object::Queue(queue("queue")));
        for (name, priority) in [("low", 40), ("high", 60), ("middle", 50)] {
            let group = group(name, one_leaf(1, None));
            set(
                &mut world,
                Object::PodGroup(Box::new(crate::input::PodGroupSpec { priority, ..group })),
            );
            set(&mut world, Object::Pod(Box::new(pod(name, name, 1))));
        }
        let order = plan(&mut world, Timestamp::default()).job_order;
        order.iter().map(|entry| format!("{} {}", entry.job.name, entry.priority)).collect()
    }

    #[test]
    fn jobs_come_in_the_order_they_would_be_tried() {
        let listed = [PluginSpec::named("reflectjoborder")];
        assert_eq!(ordered(&listed), ["high 60", "middle 50", "low 40"]);
        assert!(ordered(&[]).is_empty(), "a plugin that is not listed has no influence");
    }
}
