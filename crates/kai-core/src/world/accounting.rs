//! How a pod on a node is accounted: the vectors, and the shared devices behind them.
//!
//! Rule: a pod on its way out is subtracted from idle and added to releasing; a promise is subtracted from
//! releasing alone; everything else is subtracted from idle. A shared device leaves the idle devices when its
//! first pod comes and returns when its last pod goes; while all of it is on its way out it counts as one
//! releasing device. Devices never exceed what physically exists. A promise holds no device: KAI counts promises as
//! devices in use when it decides whether a device is idle again.

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
    for slot in 0..vector.len() {
        if node.allocatable.get(slot) == 0 {
            vector.set(slot, 0);
        }
    }
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
        Status::Pipelined => {
            node.amounts.releasing.sub(vector);
            node.amounts.promised_gpus += vector.get(GPU);
        }
        _ => node.amounts.idle.sub(vector),
    }
    if let DeviceDemand::Shared { mib, kind, .. } = demand {
        for group in groups {
            let at = group_slot(node, *group, kind);
            SharedDevice { node, at, compatibility }.add(mib, status);
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
        Status::Pipelined => {
            node.amounts.releasing.add(vector);
            node.amounts.promised_gpus -= vector.get(GPU);
        }
        _ => node.amounts.idle.add(vector),
    }
    if let DeviceDemand::Shared { mib, .. } = demand {
        for group in groups {
            if let Some(at) = node.groups.iter().position(|known| known.id == *group) {
                SharedDevice { node, at, compatibility }.remove(mib, status);
            }
        }
    }
}

/// One shared device of a node whose accounts change.
struct SharedDevice<'a> {
    node: &'a mut Node,
    /// Position among the groups of the node.
    at: usize,
    compatibility: Compatibility,
}

impl SharedDevice<'_> {
    fn group(&mut self) -> &mut GpuGroup {
        &mut self.node.groups[self.at]
    }

    fn add(&mut self, mib: i64, status: Status) {
        let before = *self.group();
        let as_kai = self.compatibility.is_kai();
        self.group().used_mib += mib;
        match status {
            Status::Releasing => {
                self.group().releasing_mib += mib;
                self.group().allocated_mib += mib;
                let all_on_its_way_out = self.group().used_mib == self.group().releasing_mib;
                if all_on_its_way_out {
                    self.count_as_releasing();
                }
                let is_first = if as_kai { all_on_its_way_out } else { before.allocated_mib <= 0 };
                if is_first {
                    self.take_idle_device();
                }
            }
            Status::Pipelined => {
                self.group().releasing_mib -= mib;
                if before.used_mib == before.releasing_mib {
                    self.node.amounts.releasing.add_at(GPU, -1);
                }
            }
            _ => {
                self.group().allocated_mib += mib;
                let is_first =
                    if as_kai { before.used_mib <= 0 } else { before.allocated_mib <= 0 };
                if is_first {
                    self.take_idle_device();
                }
                self.stop_counting_as_releasing();
            }
        }
    }

    fn remove(&mut self, mib: i64, status: Status) {
        let before = *self.group();
        self.group().used_mib -= mib;
        match status {
            Status::Releasing => {
                self.group().releasing_mib -= mib;
                self.group().allocated_mib -= mib;
                if self.is_free() {
                    self.give_idle_device();
                }
                if self.group().used_mib <= 0 {
                    self.stop_counting_as_releasing();
                }
            }
            Status::Pipelined => {
                let group = self.group();
                group.releasing_mib += mib;
                let promised_a_free_device = group.used_mib == 0 && group.releasing_mib == 0;
                if before.used_mib == before.releasing_mib || promised_a_free_device {
                    self.node.amounts.releasing.add_at(GPU, 1);
                }
            }
            _ => {
                self.group().allocated_mib -= mib;
                if self.is_free() {
                    self.give_idle_device();
                }
                let group = self.group();
                if group.used_mib != 0 && group.used_mib == group.releasing_mib {
                    self.count_as_releasing();
                }
            }
        }
    }

    /// No pod holds a part of the device. KAI asks whether no pod holds or was promised one.
    fn is_free(&mut self) -> bool {
        let as_kai = self.compatibility.is_kai();
        if as_kai { self.group().used_mib <= 0 } else { self.group().allocated_mib <= 0 }
    }

    fn take_idle_device(&mut self) {
        if self.device_count() < self.node.amounts.idle.get(GPU) + self.devices_in_use() {
            self.node.amounts.idle.add_at(GPU, -1);
        }
    }

    fn give_idle_device(&mut self) {
        let known = self.node.amounts.idle.get(GPU) + self.devices_in_use();
        let is_missing = if self.compatibility.is_kai() {
            self.device_count() >= known
        } else {
            self.device_count() > known
        };
        if is_missing {
            self.node.amounts.idle.add_at(GPU, 1);
        }
    }

    /// Devices held whole plus devices of which a part is held; KAI adds devices that are promised.
    fn devices_in_use(&self) -> i64 {
        let as_kai = self.compatibility.is_kai();
        let is_shared = |group: &&GpuGroup| {
            if as_kai { group.used_mib > 0 } else { group.allocated_mib > 0 }
        };
        let shared = self.node.groups.iter().filter(is_shared).count() as i64;
        let promised = if as_kai { 0 } else { self.node.amounts.promised_gpus };
        self.node.amounts.used.get(GPU) - promised + shared
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
