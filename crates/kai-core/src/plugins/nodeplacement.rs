//! nodeplacement: pack pods on few nodes or spread them over many. GPU pods look at whole GPUs, others at CPU.
//!
//! Pack: of all nodes tried that have the resource, the one with the least of it free or becoming free scores 9,
//! the one with the most scores 0; all score 9 when they are equal, 0 when nothing is free. Spread: the free part.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};
use crate::resources::{CPU, GPU};
use crate::world::node::Node;
use crate::world::shape::Shape;

const HIGHEST: f64 = 9.0;

/// How pods are distributed over nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// The node with the least of the resource free scores highest.
    Pack,
    /// The node with the largest free part of the resource scores highest.
    Spread,
}

/// One strategy per kind of pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strategies {
    /// Of pods without GPUs.
    pub cpu: Strategy,
    /// Of pods with GPUs.
    pub gpu: Strategy,
}

/// The least and the most that is free on any node tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FreeRange {
    least: i64,
    most: i64,
}

pub(super) fn register(policy: &mut Policy, plugin: &PluginSpec) {
    let strategy = |key: &str| match plugin.argument(key) {
        Some("spread") => Strategy::Spread,
        _ => Strategy::Pack,
    };
    let strategies = Strategies { cpu: strategy("cpu"), gpu: strategy("gpu") };
    policy.scores.push(Score::Placement(strategies));
}

/// The slot that matters for pods of `shape`.
pub(crate) fn slot(shape: &Shape) -> usize {
    if shape.is_cpu_only() { CPU } else { GPU }
}

impl Strategies {
    /// The strategy for pods of `shape`.
    pub(crate) fn of(self, shape: &Shape) -> Strategy {
        if shape.is_cpu_only() { self.cpu } else { self.gpu }
    }
}

impl FreeRange {
    /// The range over `nodes`.
    pub(crate) fn over<'a>(nodes: impl Iterator<Item = &'a Node>, slot: usize) -> Self {
        let mut range = Self { least: i64::MAX, most: 0 };
        for node in nodes.filter(|node| node.allocatable.get(slot) != 0) {
            let free = node.available(slot);
            range.least = range.least.min(free);
            range.most = range.most.max(free);
        }
        range
    }
}

/// Score of `node` under packing.
pub(crate) fn pack(node: &Node, slot: usize, range: FreeRange) -> f64 {
    if node.allocatable.get(slot) == 0 || range.most == 0 {
        return 0.0;
    }
    if range.least == range.most {
        return HIGHEST;
    }
    let above_least = (node.available(slot) - range.least) as f64;
    HIGHEST * (1.0 - above_least / (range.most - range.least) as f64)
}

/// Score of `node` under spreading.
pub(crate) fn spread(node: &Node, slot: usize) -> f64 {
    let count = node.allocatable.get(slot);
    if count == 0 { 0.0 } else { node.available(slot) as f64 / count as f64 }
}
