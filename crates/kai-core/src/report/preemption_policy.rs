//! Jobs for which no pod is evicted, because their priority class says so.

use crate::ids::JobId;
use crate::input::Text;
use crate::world::World;

const NEVER_PREEMPTS: &str =
    "its priority class has preemptionPolicy: Never, so no pod is evicted or moved for it";

/// Why no pod is evicted for the job; none: pods may be. KAI ignores the policy.
pub(crate) fn never_preempts(world: &World, job: JobId) -> Option<Text> {
    let is_polite = world.job(job).spec.never_preempts && !world.config.compatibility.is_kai();
    is_polite.then(|| NEVER_PREEMPTS.into())
}

#[cfg(test)]
mod tests {
    use crate::compatibility::Compatibility;
    use crate::input::Object;
    use crate::plan::plan;
    use crate::plugins::predicates::testing::{Cluster, gpu_node, group, pod, queue};
    use crate::report::explain::job;
    use crate::time::Timestamp;

    /// What is said of a job that waits behind another of lower priority.
    fn explained(never_preempts: bool, compatibility: Compatibility) -> String {
        let mut cluster = Cluster::with(compatibility);
        cluster.node(gpu_node("n", 1));
        cluster.queue(queue("q"));
        cluster.set(Object::PodGroup(Box::new(group("low", "q", &[("default", 1)]))));
        cluster.pod(pod("holder").of("low").gpus(1).on("n"));
        let mut waiting = group("waiting", "q", &[("default", 1)]);
        (waiting.priority, waiting.never_preempts) = (40, never_preempts);
        cluster.set(Object::PodGroup(Box::new(waiting)));
        cluster.pod(pod("waits").of("waiting").gpus(1));
        let made = plan(&mut cluster.world, Timestamp::default());
        let report = made.waiting.iter().find(|report| &*report.job.name == "waiting");
        job(report.expect("it waits"))
    }

    #[test]
    fn the_policy_is_named_where_it_counts() {
        let text = "preemptionPolicy: Never";
        let explanation = explained(true, Compatibility::Right);
        assert!(explanation.contains(text), "{explanation}");
        assert!(!explained(false, Compatibility::Right).contains(text));
        assert!(!explained(true, Compatibility::Kai).contains(text));
    }
}
