//! numa: pods aligned to NUMA zones as the kubelet's Topology Manager will ask.
//!
//! Rule: a node that refuses pods it cannot align is only offered to pods that can be aligned on what its zones
//! have free. Guaranteed pods are aligned by CPU, memory and huge pages, all pods by the devices that zones
//! report. Nodes on which a pod spans few zones score high. What a pod will take of each zone is drawn when it
//! is placed, returned when it is evicted, and written in its bind request.

mod demand;
mod evaluate;
mod notation;
mod state;

#[cfg(test)]
mod tests;

pub use notation::{PredictedZone, write as write_zones};
pub use state::{NumaState, ZoneAmounts, ZonePlacement};

use crate::config::PluginSpec;
use crate::ids::{NodeId, TaskId};
use crate::input::Text;
use crate::input::node::NumaPolicy;
use crate::plugins::numa::demand::Demand;
use crate::plugins::{Filter, Policy, Score};
use crate::report::refusal::{NodeRefusal, Rule};
use crate::world::World;
use crate::world::node::Node;
use crate::world::undo::Undo;

/// Score of a pod that stays in one zone.
const ONE_ZONE: f64 = 100.0;

/// Arguments of the plugin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// Resources that are not aligned.
    pub ignored: Vec<Text>,
    /// Free amounts of zones are what they have less what pods on the node take; false: as reported.
    pub reconstruct_available: bool,
}

pub(super) fn register(policy: &mut Policy, spec: &PluginSpec) {
    let ignored = spec.argument("ignoreList").unwrap_or_default().split(',').map(str::trim);
    let reconstruct = spec.argument("reconstructAvailable").unwrap_or("true");
    policy.numa = Some(Arguments {
        ignored: ignored.filter(|name| !name.is_empty()).map(Text::from).collect(),
        reconstruct_available: !matches!(
            reconstruct,
            "0" | "f" | "F" | "false" | "FALSE" | "False"
        ),
    });
    policy.filters.push(Filter::Numa);
    policy.scores.push(Score::Numa);
}

/// What a pod would take of the zones of a node; nothing where it is not aligned or cannot be.
pub(crate) fn place(world: &World, task: TaskId, node: NodeId) -> ZonePlacement {
    match align(world, task, world.node(node)) {
        Alignment::Possible(placement) => placement,
        Alignment::NotAsked | Alignment::Impossible => ZonePlacement::default(),
    }
}

/// Whether the node will take the pod.
pub(crate) fn check_node(world: &World, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
    let node = world.node(node);
    let refuses = node.numa.as_ref().is_some_and(|numa| {
        matches!(numa.policy, NumaPolicy::SingleNumaNode | NumaPolicy::Restricted)
    });
    if refuses && align(world, task, node) == Alignment::Impossible {
        return Err(NodeRefusal::rule(
            Rule::Numa,
            "node cannot NUMA-align the pod's resources under its Topology Manager policy",
        ));
    }
    Ok(())
}

/// The score of a node: the fewer zones the pod spans the better.
pub(crate) fn score(world: &World, task: TaskId, node: &Node) -> f64 {
    let over = |zones: usize| ONE_ZONE / zones.max(1) as f64;
    let Some(numa) = &node.numa else {
        let entry = world.task(task);
        let alignable = demand::may_be_aligned(&entry.spec);
        return if alignable { over(world.most_zones) } else { 0.0 };
    };
    if numa.policy == NumaPolicy::None {
        let asks = world.policy.numa.as_ref().and_then(|arguments| {
            Demand::of(&world.task(task).spec, numa, arguments, &world.names)
        });
        return if asks.is_some() { over(numa.zone_count()) } else { 0.0 };
    }
    match align(world, task, node) {
        Alignment::Possible(placement) => over(placement.zones().len()),
        Alignment::NotAsked | Alignment::Impossible => 0.0,
    }
}

/// How a pod and the zones of a node agree.
#[derive(PartialEq)]
enum Alignment {
    /// Nothing of the pod is aligned there.
    NotAsked,
    /// The zones cannot hold it.
    Impossible,
    /// What it would take of each zone.
    Possible(ZonePlacement),
}

fn align(world: &World, task: TaskId, node: &Node) -> Alignment {
    let numa = node.numa.as_ref().filter(|numa| numa.policy != NumaPolicy::None);
    let (Some(arguments), Some(numa)) = (&world.policy.numa, numa) else {
        return Alignment::NotAsked;
    };
    match Demand::of(&world.task(task).spec, numa, arguments, &world.names) {
        None => Alignment::NotAsked,
        Some(demand) => {
            evaluate::place(numa, &demand).map_or(Alignment::Impossible, Alignment::Possible)
        }
    }
}

impl World {
    /// The zones a pod on `node` was recorded on.
    pub(crate) fn recorded_zones(&self, task: TaskId, node: NodeId) -> ZonePlacement {
        let node = self.node(node);
        let (Some(_), Some(numa)) = (&self.policy.numa, &node.numa) else {
            return ZonePlacement::default();
        };
        let spec = &self.task(task).spec;
        let predicted = || {
            let mut binds = self.binds_under_way(spec);
            binds.find(|bind| bind.node == node.name()).and_then(|bind| bind.numa_zones)
        };
        let record = spec.numa.recorded_zones.as_ref().or_else(predicted);
        record.and_then(|text| notation::read(text, numa, &self.names)).unwrap_or_default()
    }

    /// Free amounts of the zones from the pods on the node.
    pub(crate) fn reset_zones(&mut self, node: NodeId) {
        let Some(arguments) = &self.policy.numa else { return };
        let node = &mut self.nodes[node.index()];
        let Some(numa) = &mut node.numa else { return };
        numa.reset(arguments.reconstruct_available);
        if arguments.reconstruct_available {
            let staying = node.residents.iter().filter(|one| one.status.is_active_allocated());
            staying.for_each(|resident| numa.draw(&resident.zones));
        }
    }

    /// Draws the zones of a pod that was placed in a cycle.
    pub(crate) fn draw_zones(&mut self, task: TaskId, node: NodeId) {
        self.change_zones(task, node, NumaState::draw);
    }

    /// Returns the zones of a pod that was evicted in a cycle.
    pub(crate) fn return_zones(&mut self, task: TaskId, node: NodeId) {
        self.change_zones(task, node, NumaState::give_back);
    }

    /// What the bind request of a placed pod says of zones.
    pub(crate) fn predicted_zones(&self, task: TaskId) -> Vec<PredictedZone> {
        let state = &self.task(task).state;
        let numa = state.node.and_then(|node| self.node(node).numa.as_ref());
        numa.map(|numa| notation::predicted(&state.zones, numa, &self.names)).unwrap_or_default()
    }

    /// Zones of some node came, changed or went.
    pub(crate) fn count_zones(&mut self) {
        let counts = self.numa_specs.values().map(|spec| spec.zones.len());
        self.most_zones = counts.max().unwrap_or_default();
    }

    fn change_zones(
        &mut self,
        task: TaskId,
        node: NodeId,
        change: fn(&mut NumaState, &ZonePlacement),
    ) {
        let zones = &self.tasks[task.index()].state.zones;
        if zones.zones().is_empty() || self.policy.numa.is_none() {
            return;
        }
        let Some(numa) = &mut self.nodes[node.index()].numa else { return };
        self.log.push(Undo::Zones(node, numa.available().clone()));
        change(numa, zones);
    }
}
