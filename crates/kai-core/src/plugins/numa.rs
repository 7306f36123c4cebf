//! numa: pods aligned to NUMA zones as the kubelet's Topology Manager will ask.

use crate::config::PluginSpec;
use crate::ids::{NodeId, TaskId};
use crate::input::NumaSpec;
use crate::plugins::{Filter, Policy, Score};
use crate::resources::{ResourceNames, ResourceVector};
use crate::world::World;

/// Arguments of the plugin.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments {}

/// Zones of one node.
#[derive(Clone, PartialEq, Debug)]
pub struct NumaState {
    available: ZoneAmounts,
}

/// Free amounts per zone.
pub type ZoneAmounts = Vec<ResourceVector>;

/// Where a pod's aligned amounts come from: per zone index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZonePlacement {
    /// `(zone index, amounts)`, zones ascending.
    pub zones: Vec<(usize, ResourceVector)>,
}

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.numa = Some(Arguments {});
    policy.filters.push(Filter::Numa);
    policy.scores.push(Score::Numa);
}

impl NumaState {
    /// The zones as reported.
    pub fn new(_spec: &NumaSpec, _names: &mut ResourceNames) -> Self {
        Self { available: Vec::new() }
    }

    pub(crate) fn restore(&mut self, available: ZoneAmounts) {
        self.available = available;
    }
}

impl World {
    /// The zones a pod on `node` was recorded on.
    pub(crate) fn recorded_zones(&self, _task: TaskId, _node: NodeId) -> ZonePlacement {
        ZonePlacement::default()
    }

    /// Free amounts of the zones from the pods on the node.
    pub(crate) fn reset_zones(&mut self, _node: NodeId) {}

    /// Draws the zones of a pod that was placed in a cycle.
    pub(crate) fn draw_zones(&mut self, _task: TaskId, _node: NodeId) {}

    /// Returns the zones of a pod that was told to go in a cycle.
    pub(crate) fn return_zones(&mut self, _task: TaskId, _node: NodeId) {}
}
pub(crate) fn place(_: &World, _: TaskId, _: NodeId) -> ZonePlacement { ZonePlacement::default() }
pub(crate) fn check_node(_: &World, _: TaskId, _: NodeId) -> Result<(), crate::report::refusal::NodeRefusal> { Ok(()) }
pub(crate) fn score(_: &World, _: TaskId, _: &crate::world::node::Node) -> f64 { 0.0 }
