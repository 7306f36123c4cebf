//! The signature of a job: a number that jobs share whose waiting pods have equal constraints. The search for victims does not
//! repeat what failed for a job with the same signature.

use std::hash::{Hash, Hasher};

use crate::ids::{JobId, TaskId};
use crate::world::World;

/// Constraints of the job's waiting pods and of the sets they are in.
pub(crate) fn signature(world: &World, job: JobId) -> u64 {
    let entry = world.job(job);
    let mut leaves: Vec<u64> = Vec::with_capacity(entry.leaves.len());
    for (at, leaf) in entry.leaves.iter().enumerate() {
        let mut pods: Vec<u64> = leaf
            .tasks
            .iter()
            .filter(|task| !world.task(**task).state.status.is_active_allocated())
            .map(|task| pod_signature(world, *task))
            .collect();
        if pods.is_empty() {
            continue;
        }
        pods.sort_unstable();
        let mut hasher = world.signing.hasher();
        entry.leaves[at].declared.topology.hash(&mut hasher);
        let mut set = Some(leaf.declared.parent);
        while let Some(at) = set {
            entry.tree.sets[at].topology.hash(&mut hasher);
            set = entry.tree.sets[at].parent;
        }
        pods.hash(&mut hasher);
        leaves.push(hasher.finish());
    }
    leaves.sort_unstable();
    let mut hasher = world.signing.hasher();
    leaves.hash(&mut hasher);
    hasher.finish()
}

fn pod_signature(world: &World, task: TaskId) -> u64 {
    let entry = world.task(task);
    let mut hasher = world.signing.hasher();
    world.shape_of(task).constraints.hash(&mut hasher);
    if !world.config.compatibility.is_kai() {
        entry.spec.labels.hash(&mut hasher);
        entry.spec.name.namespace.hash(&mut hasher);
        entry.spec.claims.hash(&mut hasher);
    }
    hasher.finish()
}
