//! Why a pod found no node: the refusals of nodes, and which pods share them.

use std::cell::OnceCell;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cycle::Cycle;
use crate::ids::{NodeId, TaskId};
use crate::input::node::WholeGpuPolicy;
use crate::input::pod::PodRole;
use crate::placement::choose::{NodeSearch, TaskFilter};
use crate::placement::refusal_table::{self, Answer};
use crate::report::refusal::{Lacking, NodeRefusal, Rule};
use crate::report::task_fit::{DeviceUse, MOST_DEVICES_NAMED, NodeReason, SlicedNode, TaskFit};
use crate::world::World;
use crate::world::node::{Node, Resident};
use crate::world::shape::GpuDemand;

/// Refusals are the same for all pods of a shape unless the pod's own labels, claims or queue matter.
pub(super) fn has_shareable_refusals(cycle: &Cycle<'_>, task: TaskId) -> bool {
    let world = &cycle.world;
    let shape = world.shape_of(task);
    let constraints = &shape.constraints;
    // The whole attempt fits the queue, so one pod of it does, unless its cost depends on the node.
    let own_queue = matches!(shape.gpu, GpuDemand::Memory { .. }) || world.has_replica_nodes();
    world.task(task).claims.is_empty()
        && world.task(task).spec.nominated_node.is_none()
        && constraints.pod_affinity.is_empty()
        && constraints.pod_anti_affinity.is_empty()
        && constraints.volume_claims.is_empty()
        && constraints.config_maps.is_empty()
        && !world.some_pod_repels()
        && world.policy.numa.is_none()
        && !own_queue
}

/// Some texts name the pod itself, or its queue.
pub(crate) fn names_the_pod(fit: &TaskFit) -> bool {
    fit.counts.iter().any(|(reason, _)| {
        matches!(
            reason,
            NodeReason::Rule(Rule::GpuMemoryUnknown | Rule::WorkerKind | Rule::GpuTypeBound, _)
                | NodeReason::QueueCapacity(_)
        )
    })
}

/// Refusals of all nodes, of which only those that changed since the last cycle are asked; none where more decides than
/// the nodes and the shape of the pod, or where nodes and devices are named.
pub(super) fn kept_refusals(cycle: &mut Cycle<'_>, task: TaskId) -> Option<Arc<TaskFit>> {
    let world = &mut *cycle.world;
    let by_node_alone = !world.naive
        && !world.config.params.detailed_fit_errors
        && !world.shape_of(task).is_shared()
        && world.gpu_types.is_empty()
        && !world.claims_are_in_play();
    if !by_node_alone {
        return None;
    }
    let filter: OnceCell<TaskFilter> = OnceCell::new();
    refusal_table::look_up(world, task, |world, rank| {
        let filter = filter.get_or_init(|| TaskFilter::new(world, task));
        answer(world, task, filter, world.nodes_by_rank[rank])
    })
}

/// What a node says to a pod; none where more than node and shape decide, or where the node is named.
fn answer(world: &World, task: TaskId, filter: &TaskFilter, id: NodeId) -> Option<Answer> {
    let node = world.node(id);
    let Some(refusal) = filter.refusal_of(world, id) else {
        return Some(Answer { class: node.class, reasons: None });
    };
    let mut fit = TaskFit::default();
    let reasons = reasons_of(world, task, node, &refusal);
    fit.count_many(node.class, &reasons, 1);
    name_devices(world, task, node, &refusal, &mut fit);
    let names_more = names_the_pod(&fit) || !fit.devices.is_empty() || !fit.sliced.is_empty();
    (!names_more).then(|| Answer { class: node.class, reasons: Some(reasons.into_vec()) })
}

fn reasons_of(
    world: &World,
    task: TaskId,
    node: &Node,
    refusal: &NodeRefusal,
) -> SmallVec<[NodeReason; 1]> {
    let decides = overhead_decides(world, task, node, refusal);
    let overhead = &world.task(task).spec.request.overhead;
    NodeReason::all_of(refusal, if decides { overhead } else { &[] })
}

/// Refusals of the nodes that were tried.
pub(super) fn refusals(cycle: &Cycle<'_>, search: &NodeSearch<'_>) -> TaskFit {
    let world = &cycle.world;
    let job = world.task(search.task).job;
    let detailed = world.config.params.detailed_fit_errors || cycle.is_asked_about(job);
    let mut fit = TaskFit::default();
    search.refusals(world, |node, refusal| {
        fit.count_many(node.class, &reasons_of(world, search.task, node, &refusal), 1);
        name_devices(world, search.task, node, &refusal, &mut fit);
        if detailed {
            fit.per_node.push((node.name().clone(), refusal));
        }
    });
    fit
}

/// Only the pod's overhead prevents the fit.
fn overhead_decides(world: &World, task: TaskId, node: &Node, refusal: &NodeRefusal) -> bool {
    let shape = world.shape_of(task);
    let NodeRefusal::Shortages(shortages) = refusal else { return false };
    !shape.overhead.is_empty()
        && shortages.iter().all(|shortage| match shortage.what {
            Lacking::Slot(slot) => {
                shortage.requested - shape.overhead.get(slot) <= node.amounts.idle.get(slot)
            }
            Lacking::Gpus | Lacking::GpuMemory | Lacking::MigProfile(_) => false,
        })
}

/// Names a node that advertises GPUs which are replicas of fewer devices.
fn name_sliced_node(node: &Node, fit: &mut TaskFit) {
    let gpus = &node.gpus;
    if gpus.is_time_sliced()
        && gpus.whole_gpu_policy == WholeGpuPolicy::Physical
        && fit.sliced.len() < MOST_DEVICES_NAMED
    {
        let node = node.name().clone();
        let (advertised, physical) = (gpus.advertised, gpus.physical);
        fit.sliced.push(SlicedNode { node, advertised, physical });
    }
}

/// Names the devices of a node that has too little GPU memory, with the pods that use them.
fn name_devices(
    world: &World,
    task: TaskId,
    node: &Node,
    refusal: &NodeRefusal,
    fit: &mut TaskFit,
) {
    let shape = world.shape_of(task);
    let lacks_devices = matches!(refusal, NodeRefusal::Shortages(shortages)
        if shortages.iter().any(|shortage| matches!(shortage.what, Lacking::Gpus | Lacking::GpuMemory)));
    if !lacks_devices {
        return;
    }
    if matches!(shape.gpu, GpuDemand::Whole { count } if count <= node.gpus.advertised) {
        name_sliced_node(node, fit);
    }
    if !shape.is_shared() {
        return;
    }
    for group in node.groups.iter().filter(|group| group.used_mib > 0) {
        if fit.devices.len() >= MOST_DEVICES_NAMED {
            return;
        }
        // A reservation pod holds the device for others and uses nothing of it.
        let uses = |resident: &&Resident| {
            resident.groups.contains(&group.id)
                && world.task(resident.task).spec.role != PodRole::Reservation
        };
        let pods = node.residents.iter().filter(uses).count();
        fit.devices.push(DeviceUse {
            node: node.name().clone(),
            device: world.group_name(group.id).clone(),
            used_mib: group.used_mib,
            total_mib: node.gpus.memory_mib,
            pods: pods as u32,
            requested_mib: node.device_mib(shape, world.config.compatibility),
        });
    }
}
