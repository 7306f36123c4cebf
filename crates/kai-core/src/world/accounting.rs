//! How a pod on a node is accounted: the vectors, and the shared devices behind them.
//!
//! Rule: a pod on its way out is subtracted from idle and added to releasing; a promise is subtracted from
//! releasing alone; everything else is subtracted from idle. A shared device leaves the idle devices when its
//! first pod comes and returns when its last pod goes; while all of it is on its way out it counts as one
//! releasing device. Devices never exceed what physically exists.

use crate::compatibility::Compatibility;
use crate::resources::{GPU, ResourceVector};
use crate::status::Status;
use crate::world::node::{DeviceDemand, GpuGroup, GroupId, Groups, Node};
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
    if let DeviceDemand::Shared { mib, replica, .. } = demand {
        for group in groups {
            add_to_group(node, *group, mib, replica, status);
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
            remove_from_group(node, *group, mib, status);
        }
    }
}

fn add_to_group(node: &mut Node, id: GroupId, mib: i64, replica: bool, status: Status) {
    let at = group_slot(node, id, replica);
    let before = node.groups[at];
    node.groups[at].used_mib += mib;
    match status {
        Status::Releasing => {
            let group = &mut node.groups[at];
            group.releasing_mib += mib;
            group.allocated_mib += mib;
            if group.used_mib == group.releasing_mib {
                if !group.counted_as_releasing {
                    group.counted_as_releasing = true;
                    node.amounts.releasing.add_at(GPU, 1);
                }
                take_idle_device(node);
            }
        }
        Status::Pipelined => {
            node.groups[at].releasing_mib -= mib;
            if before.used_mib == before.releasing_mib {
                node.amounts.releasing.add_at(GPU, -1);
            }
        }
        _ => {
            node.groups[at].allocated_mib += mib;
            if node.groups[at].used_mib <= mib {
                take_idle_device(node);
            }
            stop_counting_as_releasing(node, at);
        }
    }
}

fn remove_from_group(node: &mut Node, id: GroupId, mib: i64, status: Status) {
    let Some(at) = node.groups.iter().position(|group| group.id == id) else {
        return;
    };
    let before = node.groups[at];
    node.groups[at].used_mib -= mib;
    match status {
        Status::Releasing => {
            let group = &mut node.groups[at];
            group.releasing_mib -= mib;
            group.allocated_mib -= mib;
            if group.used_mib <= 0 {
                give_idle_device(node);
                stop_counting_as_releasing(node, at);
            }
        }
        Status::Pipelined => {
            let group = &mut node.groups[at];
            group.releasing_mib += mib;
            let promised_a_free_device = group.used_mib == 0 && group.releasing_mib == 0;
            if before.used_mib == before.releasing_mib || promised_a_free_device {
                node.amounts.releasing.add_at(GPU, 1);
            }
        }
        _ => {
            let group = &mut node.groups[at];
            group.allocated_mib -= mib;
            let all_on_its_way_out = group.used_mib != 0 && group.used_mib == group.releasing_mib;
            let nothing_left = group.used_mib <= 0;
            if nothing_left {
                give_idle_device(node);
            }
            if all_on_its_way_out && !node.groups[at].counted_as_releasing {
                node.groups[at].counted_as_releasing = true;
                node.amounts.releasing.add_at(GPU, 1);
            }
        }
    }
}

fn group_slot(node: &mut Node, id: GroupId, of_replicas: bool) -> usize {
    node.groups.iter().position(|group| group.id == id).unwrap_or_else(|| {
        node.groups.push(GpuGroup {
            id,
            used_mib: 0,
            releasing_mib: 0,
            allocated_mib: 0,
            counted_as_releasing: false,
            of_replicas,
        });
        node.groups.len() - 1
    })
}

/// Devices held whole plus devices shared by somebody.
fn devices_in_use(node: &Node) -> i64 {
    let shared = node.groups.iter().filter(|group| group.used_mib > 0).count() as i64;
    node.amounts.used.get(GPU) + shared
}

fn device_count(node: &Node) -> i64 {
    node.allocatable.get(GPU)
}

fn take_idle_device(node: &mut Node) {
    if device_count(node) < node.amounts.idle.get(GPU) + devices_in_use(node) {
        node.amounts.idle.add_at(GPU, -1);
    }
}

fn give_idle_device(node: &mut Node) {
    if device_count(node) > node.amounts.idle.get(GPU) + devices_in_use(node) {
        node.amounts.idle.add_at(GPU, 1);
    }
}

fn stop_counting_as_releasing(node: &mut Node, at: usize) {
    if node.groups[at].counted_as_releasing {
        node.groups[at].counted_as_releasing = false;
        node.amounts.releasing.add_at(GPU, -1);
    }
}
