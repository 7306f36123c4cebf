//! How a pod on a node is accounted: the vectors, and the shared devices behind them.
//!
//! Rule: a releasing pod is subtracted from idle and added to releasing; a nominated pod is subtracted from
//! releasing alone; every other pod is subtracted from idle. A shared device is idle while no pod holds a share of it,
//! and free later when no pod will: once releasing pods have ended and nominated pods have started. KAI
//! counts by transitions instead, and nominations as devices in use, so that a device whose pods are placed and then
//! made to wait with their gang is not idle again.

use crate::compatibility::Compatibility;
use crate::resources::{GPU, ResourceVector};
use crate::status::Status;
use crate::world::node::{DeviceDemand, GpuGroup, GroupId, GroupKind, Groups, Node};
use crate::world::shape::Shape;

/// What one pod takes from the vectors of `node`.
pub fn tracked(
    node: &Node,
    shape: &Shape,
    holds_gpus: bool,
    compatibility: Compatibility,
) -> ResourceVector {
    let mut vector = shape.request.clone();
    let shared = node.demand(shape, compatibility) != DeviceDemand::Vector;
    if shared || !holds_gpus {
        vector.set(GPU, if holds_gpus { shape.claimed_gpus } else { 0 });
    }
    vector.retain(|slot| node.allocatable.get(slot) != 0);
    vector
}

/// Adds a pod that takes `vector`, and `demand` of each of `groups`, to the node's accounts.
pub fn add(
    node: &mut Node,
    vector: &ResourceVector,
    demand: DeviceDemand,
    groups: &Groups,
    status: Status,
    compatibility: Compatibility,
) {
    node.amounts.used.add(vector);
    match status {
        Status::Releasing => {
            node.amounts.releasing.add(vector);
            node.amounts.idle.sub(vector);
        }
        Status::Pipelined => node.amounts.releasing.sub(vector),
        _ => node.amounts.idle.sub(vector),
    }
    if let DeviceDemand::Shared { mib, kind, .. } = demand {
        for group in groups {
            let at = group_slot(node, *group, kind);
            let mut device = SharedDevice { node, at };
            if compatibility.is_kai() {
                device.add_as_kai(mib, status);
            } else {
                device.change(mib, status);
            }
        }
    }
}

/// Takes a pod off the node's accounts; the mirror of [`add`].
pub fn remove(
    node: &mut Node,
    vector: &ResourceVector,
    demand: DeviceDemand,
    groups: &Groups,
    status: Status,
    compatibility: Compatibility,
) {
    node.amounts.used.sub(vector);
    match status {
        Status::Releasing => {
            node.amounts.releasing.sub(vector);
            node.amounts.idle.add(vector);
        }
        Status::Pipelined => node.amounts.releasing.add(vector),
        _ => node.amounts.idle.add(vector),
    }
    if let DeviceDemand::Shared { mib, .. } = demand {
        for group in groups {
            if let Some(at) = node.groups.iter().position(|known| known.id == *group) {
                let mut device = SharedDevice { node, at };
                if compatibility.is_kai() {
                    device.remove_as_kai(mib, status);
                } else {
                    device.change(-mib, status);
                }
            }
        }
    }
}

/// One shared device of a node whose accounts change.
struct SharedDevice<'a> {
    node: &'a mut Node,
    /// Position among the groups of the node.
    at: usize,
}

impl SharedDevice<'_> {
    fn group(&mut self) -> &mut GpuGroup {
        &mut self.node.groups[self.at]
    }

    /// Counts `mib` more, or fewer, of a pod in `status`.
    fn change(&mut self, mib: i64, status: Status) {
        let before = *self.group();
        self.group().change(mib, status);
        let after = *self.group();
        let idle = i64::from(before.is_in_use()) - i64::from(after.is_in_use());
        let later = i64::from(before.is_in_use_later()) - i64::from(after.is_in_use_later());
        self.node.amounts.idle.add_at(GPU, idle);
        self.node.amounts.releasing.add_at(GPU, later - idle);
    }

    fn add_as_kai(&mut self, mib: i64, status: Status) {
        let before = *self.group();
        self.group().change(mib, status);
        match status {
            Status::Releasing => {
                if self.group().used_mib == self.group().releasing_mib {
                    self.count_as_releasing();
                    self.take_idle_device();
                }
            }
            Status::Pipelined => {
                if before.used_mib == before.releasing_mib {
                    self.node.amounts.releasing.add_at(GPU, -1);
                }
            }
            _ => {
                if before.used_mib <= 0 {
                    self.take_idle_device();
                }
                self.stop_counting_as_releasing();
            }
        }
    }

    fn remove_as_kai(&mut self, mib: i64, status: Status) {
        let before = *self.group();
        self.group().change(-mib, status);
        let group = *self.group();
        match status {
            Status::Releasing => {
                if group.used_mib <= 0 {
                    self.give_idle_device();
                    self.stop_counting_as_releasing();
                }
            }
            Status::Pipelined => {
                let nominated_to_free_device = group.used_mib == 0 && group.releasing_mib == 0;
                if before.used_mib == before.releasing_mib || nominated_to_free_device {
                    self.node.amounts.releasing.add_at(GPU, 1);
                }
            }
            _ => {
                if group.used_mib <= 0 {
                    self.give_idle_device();
                }
                if group.used_mib != 0 && group.used_mib == group.releasing_mib {
                    self.count_as_releasing();
                }
            }
        }
    }

    fn take_idle_device(&mut self) {
        if self.device_count() < self.known_devices() {
            self.node.amounts.idle.add_at(GPU, -1);
        }
    }

    fn give_idle_device(&mut self) {
        if self.device_count() >= self.known_devices() {
            self.node.amounts.idle.add_at(GPU, 1);
        }
    }

    /// Idle devices, devices allocated whole, and devices of which a fraction is allocated or nominated.
    fn known_devices(&self) -> i64 {
        let shared = self.node.groups.iter().filter(|group| group.used_mib > 0).count() as i64;
        self.node.amounts.idle.get(GPU) + self.node.amounts.used.get(GPU) + shared
    }

    fn device_count(&self) -> i64 {
        self.node.allocatable.get(GPU)
    }

    fn count_as_releasing(&mut self) {
        if !self.group().counted_as_releasing {
            self.group().counted_as_releasing = true;
            self.node.amounts.releasing.add_at(GPU, 1);
        }
    }

    fn stop_counting_as_releasing(&mut self) {
        if self.group().counted_as_releasing {
            self.group().counted_as_releasing = false;
            self.node.amounts.releasing.add_at(GPU, -1);
        }
    }
}

fn group_slot(node: &mut Node, id: GroupId, kind: GroupKind) -> usize {
    node.groups.iter().position(|group| group.id == id).unwrap_or_else(|| {
        node.groups.push(GpuGroup {
            id,
            used_mib: 0,
            releasing_mib: 0,
            allocated_mib: 0,
            counted_as_releasing: false,
            kind,
        });
        node.groups.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use crate::compatibility::Compatibility;
    use crate::input::Object;
    use crate::input::pod::GpuRequest;
    use crate::plugins::numa::ZonePlacement;
    use crate::plugins::testing::{node, node_id, pod, set, task_id, world};
    use crate::resources::GPU;
    use crate::status::Status;
    use crate::world::ledger::Place;

    /// Devices that are idle, and free later, once two pods placed on one of two are made to wait with their gang.
    fn idle_and_free_later(compatibility: Compatibility) -> (i64, i64) {
        let mut world = world(compatibility, &[]);
        let host = node("node", 2, &[("nvidia.com/gpu.memory", "32768")]);
        set(&mut world, Object::Node(Box::new(host)));
        for name in ["first", "second"] {
            let mut part = pod(name, "group", 0);
            part.request.gpu = GpuRequest::Fraction { portion: 0.3, devices: 1 };
            set(&mut world, Object::Pod(Box::new(part)));
        }
        let host = node_id(&world, "node");
        let groups = smallvec![world.groups.intern("device")];
        let place = Place { node: host, groups, zones: ZonePlacement::default() };
        let tasks = ["first", "second"].map(|name| task_id(&world, name));
        for task in tasks {
            world.put(task, &place, Status::Allocated);
        }
        for task in tasks {
            world.turn_into_nomination(task);
        }
        let host = world.node(host);
        (host.amounts.idle.get(GPU), host.available(GPU))
    }

    #[test]
    fn device_of_pods_turned_into_nominations_is_idle_and_for_kai_in_use() {
        assert_eq!(idle_and_free_later(Compatibility::Right), (2, 1));
        assert_eq!(idle_and_free_later(Compatibility::Kai), (1, 1));
    }
}
