//! Sums and extremes over all nodes, kept up to date change by change.

use std::collections::BTreeMap;

use crate::input::node::WholeGpuPolicy;
use crate::resources::{GPU, ResourceVector};
use crate::world::gpu_facts::UNKNOWN_GPU_MEMORY_MIB;
use crate::world::node::Node;

/// Sums and extremes over all nodes.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// What ready nodes offer.
    ready: ResourceVector,
    /// What pods of other schedulers take of ready nodes.
    foreign: ResourceVector,
    /// Allocatable amounts per slot, with how many nodes have each.
    by_slot: Vec<Multiset>,
    /// Memory of devices, over nodes whose memory is known to be more than the placeholder.
    gpu_memory: Multiset,
    /// Nodes with devices of which no more than the placeholder is known.
    unmeasured_nodes: u32,
    /// Nodes that give replicas for whole GPUs.
    replica_nodes: u32,
}

/// Numbers with how often each occurs.
#[derive(Clone, Debug, Default)]
struct Multiset(BTreeMap<i64, u32>);

impl Multiset {
    fn add(&mut self, number: i64) {
        *self.0.entry(number).or_insert(0) += 1;
    }

    fn remove(&mut self, number: i64) {
        if let Some(times) = self.0.get_mut(&number) {
            *times -= 1;
            if *times == 0 {
                self.0.remove(&number);
            }
        }
    }

    fn min(&self) -> Option<i64> {
        self.0.first_key_value().map(|(number, _)| *number)
    }

    fn max(&self) -> Option<i64> {
        self.0.last_key_value().map(|(number, _)| *number)
    }
}

impl Totals {
    /// Counts `node` in; `gpus_count` is false where its GPUs may not be used.
    pub(crate) fn add(&mut self, node: &Node, gpus_count: bool) {
        if node.unusable.is_none() {
            self.ready.add(&counted(node, gpus_count));
        }
        for (slot, amount) in node.allocatable.non_zero() {
            if self.by_slot.len() <= slot {
                self.by_slot.resize_with(slot + 1, Multiset::default);
            }
            self.by_slot[slot].add(amount);
        }
        if node.gpus.memory_mib > UNKNOWN_GPU_MEMORY_MIB {
            self.gpu_memory.add(node.gpus.memory_mib);
        }
        self.unmeasured_nodes += u32::from(is_unmeasured(node));
        self.replica_nodes += u32::from(gives_replicas(node));
    }

    /// Counts `node` out; it must look as it did when it was counted in.
    pub(crate) fn remove(&mut self, node: &Node, gpus_count: bool) {
        if node.unusable.is_none() {
            self.ready.sub(&counted(node, gpus_count));
        }
        for (slot, amount) in node.allocatable.non_zero() {
            self.by_slot[slot].remove(amount);
        }
        if node.gpus.memory_mib > UNKNOWN_GPU_MEMORY_MIB {
            self.gpu_memory.remove(node.gpus.memory_mib);
        }
        self.unmeasured_nodes -= u32::from(is_unmeasured(node));
        self.replica_nodes -= u32::from(gives_replicas(node));
    }

    /// Counts the request of a foreign pod on a ready node.
    pub(crate) fn add_foreign(&mut self, request: &ResourceVector) {
        self.foreign.add(request);
    }

    /// Reverts [`Self::add_foreign`] of the same request.
    pub(crate) fn remove_foreign(&mut self, request: &ResourceVector) {
        self.foreign.sub(request);
    }

    /// What ready nodes offer to our pods.
    pub fn available(&self) -> ResourceVector {
        let mut available = self.ready.clone();
        available.sub(&self.foreign);
        available
    }

    /// The most any node offers of `slot`.
    pub fn most_of(&self, slot: usize) -> i64 {
        self.by_slot.get(slot).and_then(Multiset::max).unwrap_or(0).max(0)
    }

    /// How many nodes give replicas for whole GPUs.
    pub fn replica_nodes(&self) -> u32 {
        self.replica_nodes
    }

    /// How many nodes have devices of which no more than the placeholder is known.
    pub fn unmeasured_nodes(&self) -> u32 {
        self.unmeasured_nodes
    }

    /// Memory of the smallest device; none when no memory is known.
    pub fn smallest_gpu_mib(&self) -> Option<i64> {
        self.gpu_memory.min()
    }

    /// Memory of the largest device; none when no memory is known.
    pub fn largest_gpu_mib(&self) -> Option<i64> {
        self.gpu_memory.max()
    }
}

fn gives_replicas(node: &Node) -> bool {
    node.gpus.whole_gpu_policy == WholeGpuPolicy::Replica
}

fn is_unmeasured(node: &Node) -> bool {
    node.gpus.physical > 0 && node.gpus.memory_mib <= UNKNOWN_GPU_MEMORY_MIB
}

fn counted(node: &Node, gpus_count: bool) -> ResourceVector {
    let mut vector = node.allocatable.clone();
    if !gpus_count {
        vector.set(GPU, 0);
    }
    vector
}
