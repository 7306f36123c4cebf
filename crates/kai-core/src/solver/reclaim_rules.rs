//! What reclaim accepts: victims are judged in units, each by the fair shares and quotas of the queues on both sides.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::cycle::Cycle;
use crate::fairness::{
    Amounts, QueueResource, ReclaimRefusal, ReclaimValidator, ResourceSet, involved_resources,
};
use crate::ids::{JobId, QueueId, TaskId};
use crate::status::Status;
use crate::world::World;
use crate::world::node::Accepted;
use crate::world::shape::GpuDemand;

/// What `tasks` ask for, and the resources whose saturation that makes comparable.
pub(crate) fn required(cycle: &Cycle<'_>, tasks: &[TaskId]) -> (Amounts, ResourceSet) {
    let required = cycle.requested(tasks, cycle.world.smallest_gpu_mib());
    let slices: i64 = tasks
        .iter()
        .map(|task| match cycle.world.shape_of(*task).gpu {
            GpuDemand::Mig { slices, .. } => slices,
            _ => 0,
        })
        .sum();
    let plain = required[QueueResource::Gpu] - slices as f64;
    (required, involved_resources(&required, plain, cycle.world.config.compatibility))
}

/// Whether fair shares and quotas hold without these victims, whose queues were charged `charged` for them. Victims
/// that found another place do not count where the configuration says so.
pub(crate) fn validate(
    cycle: &Cycle<'_>,
    validator: &mut ReclaimValidator,
    (required, involved): (Amounts, ResourceSet),
    victims: &[TaskId],
    charged: &[Accepted],
) -> Result<(), ReclaimRefusal> {
    validator.restart_for(&cycle.world.tree, required, involved);
    for (queue, unit) in units(cycle, victims, charged) {
        let amounts = unit.amounts();
        let plain = (unit.gpu_centi - unit.mig_centi) as f64;
        let involved = involved_resources(&amounts, plain, cycle.world.config.compatibility);
        validator.try_unit(&cycle.world.tree, queue, &amounts, involved)?;
    }
    validator.finish(&cycle.world.tree)
}

/// The victim keeps a place that counts: its own, or another where moving does not count as loss. Where it does, KAI
/// counts also victims that keep their own place (fault 26).
fn stays(world: &World, victim: TaskId) -> bool {
    let status = world.task(victim).state.status;
    let unmoved = status.is_active_allocated() && status != Status::Pipelined;
    let as_kai = world.config.compatibility.is_kai();
    if world.config.params.allow_consolidating_reclaim {
        status.is_active_allocated()
    } else {
        unmoved && !as_kai
    }
}

/// Units of eviction, job by job: pods beyond a leaf's minimum one by one, then the rest of the job as one. A pod that
/// was moved may cost less where it is now; what counts is what its queue was charged before.
fn units(cycle: &Cycle<'_>, victims: &[TaskId], charged: &[Accepted]) -> Vec<(QueueId, Accepted)> {
    let world = &cycle.world;
    let mut jobs: Vec<JobId> = Vec::new();
    let mut tasks_of: BTreeMap<JobId, Vec<(TaskId, Accepted)>> = BTreeMap::new();
    for (task, charged) in victims.iter().zip(charged) {
        let Some(job) = world.task(*task).job else { continue };
        let tasks = tasks_of.entry(job).or_insert_with(|| {
            jobs.push(job);
            Vec::new()
        });
        tasks.push((*task, *charged));
    }
    let as_kai = world.config.compatibility.is_kai();
    let mut units = Vec::new();
    for job in jobs {
        let entry = world.job(job);
        let Some(queue) = entry.queue else { continue };
        let tasks = &tasks_of[&job];
        let mut core: Option<Accepted> = None;
        for (at, leaf) in entry.leaves.iter().enumerate() {
            let of_leaf: SmallVec<[_; 8]> = tasks
                .iter()
                .filter(|(task, _)| world.task(*task).leaf == Some(at as u32))
                .collect();
            let kept = of_leaf.iter().filter(|(task, _)| stays(world, *task)).count();
            let mut gone = 0;
            for (position, (task, charged)) in of_leaf.into_iter().enumerate() {
                if stays(world, *task) {
                    continue;
                }
                // Pods that stay fill the minimum first. KAI uses the order of the list (fault 26).
                let position = if as_kai { position } else { kept + gone };
                gone += 1;
                if position < leaf.declared.min_available as usize {
                    core.get_or_insert_default().add(charged);
                } else {
                    units.push((queue, *charged));
                }
            }
        }
        units.extend(core.map(|unit| (queue, unit)));
    }
    units
}
