//! What the pods of a sub-group ask for together, and how many of them one node can hold.
//!
//! Rule: pods are alike when all or none of them ask for GPUs and all or none for each further resource. Of
//! pods that are alike a node holds as many as its free amounts, by what the hungriest pod asks of each
//! resource. Resources that devices of a class stand behind are left to the allocation of devices.

use std::collections::BTreeSet;

use crate::ids::TaskId;
use crate::input::node::WholeGpuPolicy;
use crate::resources::{FIXED_SLOTS, GPU, PODS, ResourceVector};
use crate::world::World;
use crate::world::node::{GroupKind, Node};
use crate::world::shape::{GpuDemand, Shape, ShapeId};

/// Hundredths of a GPU, the unit of GPU fractions.
pub(super) const CENTI: i64 = 100;

/// What pods ask for together.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Number of pods that must fit one domain.
    pub(super) pods: i64,
    /// Resources that some pod asks for, pod slots left out.
    pub(super) entries: Vec<Entry>,
    /// The pods are alike: counted by pods, not by sums.
    pub(super) alike: bool,
    /// Some pod asks for whole GPUs.
    whole_gpus: bool,
}

/// What pods ask of one resource; GPUs in hundredths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slot: usize,
    /// Sum over all pods of the sub-group.
    pub(super) sum: i64,
    /// Of one pod at most.
    most: i64,
}

impl Demand {
    pub(super) fn of(world: &World, tasks: &[TaskId]) -> Self {
        let shapes = count_shapes(world, tasks);
        let left_to_devices = world.claims.backed_slots(&world.names);
        let mut demand =
            Self { pods: tasks.len() as i64, entries: Vec::new(), alike: true, whole_gpus: false };
        for slot in slots(world, &shapes) {
            if slot == PODS || left_to_devices.contains(&slot) {
                continue;
            }
            let mut entry = Entry { slot, sum: 0, most: 0 };
            let mut asking = 0;
            for (shape, count) in &shapes {
                let amount = amount(&world.shapes[*shape], slot);
                entry.sum = entry.sum.saturating_add(amount.saturating_mul(*count));
                entry.most = entry.most.max(amount);
                asking += if amount > 0 { *count } else { 0 };
            }
            if asking > 0 {
                demand.entries.push(entry);
            }
            let decides_kind = slot == GPU || slot >= FIXED_SLOTS;
            demand.alike &= !decides_kind || asking == 0 || asking == demand.pods;
        }
        demand.whole_gpus = shapes
            .iter()
            .any(|(shape, _)| matches!(world.shapes[*shape].gpu, GpuDemand::Whole { .. }));
        demand
    }

    /// Free or becoming free on a node, in the unit of the entry.
    #[inline]
    pub(super) fn free(&self, node: &Node, slot: usize) -> i64 {
        if slot != GPU {
            return node.available(slot);
        }
        if self.whole_gpus && node.gpus.whole_gpu_policy == WholeGpuPolicy::Replica {
            return free_replicas(node) * CENTI;
        }
        node.available(GPU) * CENTI
    }

    /// How many pods a node can hold.
    pub(super) fn capacity(&self, node: &Node) -> i64 {
        if self.entries.is_empty() {
            return self.pods;
        }
        let mut capacity = node.available(PODS);
        for entry in &self.entries {
            let mut free = self.free(node, entry.slot);
            if entry.slot == GPU && entry.most < CENTI {
                free += free_parts_centi(node);
            }
            capacity = capacity.min(free / entry.most);
        }
        capacity.max(0)
    }
}

/// Pods of each shape, shapes in no order that reaches a result: only sums and maxima are taken over them.
fn count_shapes(world: &World, tasks: &[TaskId]) -> Vec<(ShapeId, i64)> {
    let mut shapes: Vec<(ShapeId, i64)> = Vec::new();
    for task in tasks {
        let shape = world.task(*task).shape;
        match shapes.iter_mut().rev().find(|(known, _)| *known == shape) {
            Some((_, count)) => *count += 1,
            None => shapes.push((shape, 1)),
        }
    }
    shapes
}

/// The fixed slots, and those of the other resources that some pod asks for.
fn slots(world: &World, shapes: &[(ShapeId, i64)]) -> BTreeSet<usize> {
    let requests = shapes.iter().map(|(shape, _)| &world.shapes[*shape].request);
    requests.flat_map(ResourceVector::amounts).map(|(slot, _)| slot).collect()
}

fn amount(shape: &Shape, slot: usize) -> i64 {
    if slot == GPU {
        shape.device_centi() + shape.claimed_gpus.saturating_mul(CENTI)
    } else {
        shape.request.get(slot)
    }
}

/// Hundredths of shared devices that are free or releasing.
fn free_parts_centi(node: &Node) -> i64 {
    let mut sum = 0;
    for group in &node.groups {
        if group.allocated_mib > 0 {
            sum += CENTI - node.gpus.centi_of_memory(group.allocated_mib);
        }
        if group.releasing_mib > 0 && group.releasing_mib != group.used_mib {
            sum += node.gpus.centi_of_memory(group.releasing_mib);
        }
    }
    sum
}

/// Replicas that are free or becoming free on a node whose whole GPUs are replicas.
fn free_replicas(node: &Node) -> i64 {
    let replicas = node.gpus.replicas();
    let mib = node.gpus.replica_mib();
    let open = node.groups.iter().filter(|group| group.fits(mib, GroupKind::Replicas, &node.gpus));
    let beside: i64 = open
        .map(|group| {
            (node.gpus.usable_mib(GroupKind::Replicas) - group.allocated_mib + group.releasing_mib)
                / mib
        })
        .sum();
    node.available(GPU) * replicas + beside
}
