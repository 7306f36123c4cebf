//! predicates (stub, replaced on merge).

pub mod volumes;

use crate::config::PluginSpec;
use crate::ids::{NodeId, TaskId};
use crate::input::pod::PodConstraints;
use crate::plugins::{Filter, Policy};
use crate::report::refusal::{NodeRefusal, TaskRefusal};
use crate::world::World;
use crate::world::node::Node;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.filters.push(Filter::Predicates);
}

pub(crate) struct TaskContext {}

impl TaskContext {
    pub(crate) fn new(_world: &World, _task: TaskId) -> Self {
        Self {}
    }
}

/// What can be said of a pod before any node is looked at.
pub(crate) fn check_task(_world: &World, _task: TaskId) -> Result<(), TaskRefusal> {
    Ok(())
}

/// The part of [`check_task`] that no eviction can change.
pub(crate) fn check_task_whatever_goes(_world: &World, _task: TaskId) -> Result<(), TaskRefusal> {
    Ok(())
}

/// Whether the pod may run on the node.
pub(crate) fn check_node(
    _world: &World,
    _context: &TaskContext,
    _task: TaskId,
    _node: NodeId,
    _opens_device: bool,
) -> Result<(), NodeRefusal> {
    Ok(())
}

pub(crate) fn volumes_fit(_world: &World, _task: TaskId, _node: &Node, _now: bool) -> bool {
    true
}

pub(crate) fn matches_node(_constraints: &PodConstraints, _node: &Node) -> bool {
    true
}
