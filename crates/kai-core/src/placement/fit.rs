//! Whether a pod fits a node by its amounts: now, or when releasing pods have ended.

use crate::ids::TaskId;
use crate::input::pod::PodRole;
use crate::plugins::predicates::volumes;
use crate::report::refusal::{Lacking, NodeRefusal, Shortage};
use crate::resources::{FIXED_SLOTS, GPU, ResourceVector};
use crate::status::Status;
use crate::world::World;
use crate::world::node::{DeviceDemand, Node};
use crate::world::shape::{GpuDemand, Shape};

/// When a pod is to fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// On what is free.
    Now,
    /// On what is free or releasing.
    Later,
}

impl World {
    /// Whether `task` fits `node` by its amounts.
    #[inline]
    pub(crate) fn fits(&self, task: TaskId, node: &Node, when: When) -> bool {
        let shape = self.shape_of(task);
        let repeated = self.repeated_gpus(task, node);
        amounts_fit(self, shape, node, when, repeated)
            && (!self.config.params.schedule_csi_storage || self.volumes_fit(task, node, when))
            && (when == When::Later
                || !self.claims_are_in_play()
                || self.claims_fit_now(task, node))
    }

    fn volumes_fit(&self, task: TaskId, node: &Node, when: When) -> bool {
        let id = self.nodes_by_rank[node.rank as usize];
        match when {
            When::Now => volumes::fits_now(self, task, id),
            When::Later => volumes::fits_later(self, task, id),
        }
    }

    /// GPUs of the pod's claims that another pod on the node already counts.
    fn repeated_gpus(&self, task: TaskId, node: &Node) -> i64 {
        if self.task(task).claims.is_empty() {
            return 0;
        }
        self.shared_gpus(task, self.nodes_by_rank[node.rank as usize])
    }

    /// What `node` lacks for `task` to start now.
    pub(crate) fn shortages(&self, task: TaskId, node: &Node) -> Option<NodeRefusal> {
        let shape = self.shape_of(task);
        let demand = node.demand(shape, self.config.compatibility);
        let mut found = Vec::new();
        let capacity = &node.allocatable;
        let lacks = |slot: usize, requested: i64| {
            slot != GPU
                && requested > usable(self, slot, node.amounts.idle.get(slot))
                && counts(self, shape, node, slot)
        };
        // Most nodes lack GPUs alone: the others are put in order only where one of them is short.
        let is_short = shape.request.amounts().any(|(slot, requested)| lacks(slot, requested));
        let mut request = if is_short { self.names.by_name(&shape.request) } else { Vec::new() };
        if is_short && self.config.compatibility.is_kai() {
            let unasked = (0..FIXED_SLOTS).filter(|slot| shape.request.get(*slot) == 0);
            request.extend(unasked.map(|slot| (slot, 0)));
        }
        for (slot, requested) in request {
            if !lacks(slot, requested) {
                continue;
            }
            let is_mig = matches!(&shape.gpu, GpuDemand::Mig { instances, .. }
                if instances.iter().any(|(mig, _)| *mig == slot));
            let what = if is_mig { Lacking::MigProfile(slot) } else { Lacking::Slot(slot) };
            found.push(Shortage {
                what,
                requested,
                used: node.amounts.used.get(slot),
                capacity: capacity.get(slot),
            });
        }
        found.extend(gpu_shortage(self, task, node, demand));
        (!found.is_empty()).then_some(NodeRefusal::Shortages(found))
    }
}

fn gpu_shortage(
    world: &World,
    task: TaskId,
    node: &Node,
    demand: DeviceDemand,
) -> Option<Shortage> {
    let shape = world.shape_of(task);
    let shared = node.groups.iter().filter(|group| group.used_mib > 0).count() as i64;
    let used = (node.amounts.used.get(GPU) + shared) * 100;
    let capacity = node.allocatable.get(GPU) * 100;
    match demand {
        DeviceDemand::Vector => {
            let requested = shape.request.get(GPU) - world.repeated_gpus(task, node);
            let idle = usable(world, GPU, node.amounts.idle.get(GPU));
            let plugin = plugin_gpus(world, shape, node, When::Now);
            let lacks_plugin = plugin.is_some_and(|free| plain_gpus(shape) > free);
            (requested > idle || lacks_plugin).then_some(Shortage {
                what: Lacking::Gpus,
                requested: shape.quota_centi(),
                used,
                capacity: if lacks_plugin { node.gpus.physical * 100 } else { capacity },
            })
        }
        DeviceDemand::Shared { mib, devices, kind } => {
            let ready = node
                .groups
                .iter()
                .filter(|group| {
                    group.fits(mib, kind, &node.gpus) && group.fits_now(mib, &node.gpus)
                })
                .count() as i64;
            let idle = node.amounts.idle.get(GPU);
            let whole = plugin_gpus(world, shape, node, When::Now).map_or(idle, |of| of.min(idle));
            if whole + ready >= devices && mib <= node.gpus.memory_mib {
                return None;
            }
            let by_memory = matches!(shape.gpu, GpuDemand::Memory { .. });
            // KAI is silent about devices that are in use; it only reports devices that are too small.
            if by_memory && mib <= node.gpus.memory_mib && world.config.compatibility.is_kai() {
                return None;
            }
            // The memory of its devices is unknown: a rule reports that.
            let reports_no_memory = node.gpus.advertised > 0 && !node.gpus.memory_known;
            if by_memory && reports_no_memory && !world.config.compatibility.is_kai() {
                return None;
            }
            Some(Shortage {
                what: if by_memory { Lacking::GpuMemory } else { Lacking::Gpus },
                requested: if by_memory { mib } else { shape.quota_centi() },
                used: if by_memory { used_mib(node) } else { used },
                capacity: if by_memory { node.gpus.memory_mib } else { capacity },
            })
        }
    }
}

fn used_mib(node: &Node) -> i64 {
    node.groups.iter().map(|group| group.used_mib).sum()
}

/// A pod that requests nothing of a resource fits although others hold more of it than there is. For KAI it does not,
/// except that its GPUs cannot be given away twice by the replicas of a device that it takes for devices.
#[inline]
fn usable(world: &World, slot: usize, free: i64) -> i64 {
    if slot != GPU && world.config.compatibility.is_kai() { free } else { free.max(0) }
}

/// The slots that are compared. Under `kai` also those of which the pod requests nothing and others hold more than there is.
#[inline]
fn compared_slots<'a>(
    world: &World,
    shape: &'a Shape,
    node: &'a Node,
) -> impl Iterator<Item = usize> + 'a {
    let of_node = world.config.compatibility.is_kai().then_some(&node.amounts).into_iter();
    let of_node = of_node.flat_map(|amounts| amounts.idle.named().chain(amounts.releasing.named()));
    shape.request.amounts().chain(of_node).map(|(slot, _)| slot)
}

#[inline]
fn amounts_fit(world: &World, shape: &Shape, node: &Node, when: When, repeated: i64) -> bool {
    let amounts = &node.amounts;
    let available = |slot: usize| match when {
        When::Now => amounts.idle.get(slot),
        When::Later => amounts.idle.get(slot) + amounts.releasing.get(slot),
    };
    for slot in compared_slots(world, shape, node) {
        if slot == GPU {
            continue;
        }
        let free = usable(world, slot, available(slot));
        if shape.request.get(slot) > free && counts(world, shape, node, slot) {
            return false;
        }
    }
    match node.demand(shape, world.config.compatibility) {
        DeviceDemand::Vector => {
            shape.request.get(GPU) - repeated <= usable(world, GPU, available(GPU))
                && plugin_gpus(world, shape, node, when).is_none_or(|of| plain_gpus(shape) <= of)
        }
        DeviceDemand::Shared { mib, devices, kind } => {
            if mib > node.gpus.memory_mib {
                return false;
            }
            let whole = available(GPU);
            let whole = plugin_gpus(world, shape, node, when).map_or(whole, |of| of.min(whole));
            if whole >= devices {
                return true;
            }
            let groups = node.groups.iter();
            let fitting = groups.filter(|group| group.fits(mib, kind, &node.gpus)).count() as i64;
            whole + fitting >= devices
        }
    }
}

/// GPUs that a pod asks for beside its claims.
fn plain_gpus(shape: &Shape) -> i64 {
    shape.request.get(GPU) - shape.claimed_gpus
}

/// GPUs of the device plugin that are free, where they are not the only ones: the kubelet serves requests for GPUs from
/// them alone, whatever devices the node offers through claims. None where the vector says all, or where devices of a
/// class stand behind the request. KAI does not distinguish them.
#[inline]
fn plugin_gpus(world: &World, shape: &Shape, node: &Node, when: When) -> Option<i64> {
    let distinguishes = node.claimable_gpus > 0 && !world.config.compatibility.is_kai();
    // A rule of its own keeps shared devices off nodes without GPUs of a device plugin.
    let shares = shape.is_shared() && node.gpus.physical > 0;
    if !distinguishes || (plain_gpus(shape) <= 0 && !shares) {
        return None;
    }
    if node.spec.allocatable.gpus == 0 && world.gpus_are_served_by_devices() {
        return None;
    }
    let holders = node.residents.iter().filter(|resident| match when {
        When::Now => resident.status != Status::Pipelined,
        When::Later => resident.status != Status::Releasing,
    });
    let is_plain = |demand: DeviceDemand| demand == DeviceDemand::Vector;
    let whole = holders.map(|resident| {
        let (task, shape) = (world.task(resident.task), world.shape_of(resident.task));
        let counts = task.spec.role != PodRole::Reservation
            && is_plain(node.demand_of(task, shape, world.config.compatibility));
        if counts { plain_gpus(shape).max(0) } else { 0 }
    });
    let shared = node.groups.iter().filter(|group| match when {
        When::Now => group.allocated_mib > 0,
        When::Later => group.used_mib > group.releasing_mib,
    });
    Some((node.gpus.physical - whole.sum::<i64>() - shared.count() as i64).max(0))
}

/// Resources that a node does not have itself may be served by devices of a class: the allocator of claims decides.
#[inline]
fn counts(world: &World, shape: &Shape, node: &Node, slot: usize) -> bool {
    slot < FIXED_SLOTS
        || shape.request.get(slot) == 0
        || !world.is_left_to_devices(shape, node, slot)
}

/// Whether `have` does not reach some amount of `request`.
pub(crate) fn exceeds(request: &ResourceVector, have: &ResourceVector) -> bool {
    request.amounts().any(|(slot, amount)| amount > have.get(slot))
}

#[cfg(test)]
mod tests {
    use super::When;
    use crate::compatibility::Compatibility;
    use crate::input::Object;
    use crate::input::pod::GpuRequest;
    use crate::plugins::testing::{node, node_id, pod, running, set, task_id, world};

    const MIG: &str = "nvidia.com/mig-1g.5gb";
    const NIC: &str = "example.com/nic";

    /// Whether a pod that wants an instance fits beside two that share the one NIC of the node.
    fn instance_fits(compatibility: Compatibility, node_comes_first: bool) -> bool {
        let mut world = world(compatibility, &[]);
        let mut host = node("node", 0, &[]);
        host.allocatable.mig.push((MIG.into(), 1));
        host.allocatable.other.push((NIC.into(), 1_000));
        let mut objects = vec![Object::Node(Box::new(host))];
        for name in ["first", "second"] {
            let mut holder = running(pod(name, "group", 0), "node");
            holder.request.other.push((NIC.into(), 1_000));
            objects.push(Object::Pod(Box::new(holder)));
        }
        let mut waiting = pod("waiting", "group", 0);
        waiting.request.gpu = GpuRequest::Mig(vec![(MIG.into(), 1)]);
        objects.push(Object::Pod(Box::new(waiting)));
        if !node_comes_first {
            objects.reverse();
        }
        for object in objects {
            set(&mut world, object);
        }
        let host = world.node(node_id(&world, "node"));
        world.fits(task_id(&world, "waiting"), host, When::Now)
    }

    #[test]
    fn pod_that_asks_for_nothing_of_what_is_given_away_twice_fits_and_for_kai_does_not() {
        for node_comes_first in [true, false] {
            assert!(instance_fits(Compatibility::Right, node_comes_first));
            assert!(!instance_fits(Compatibility::Kai, node_comes_first));
        }
    }
}
