//! predicates: what Kubernetes itself asks of a node before a pod may run there, the kind of the node, and the
//! capacity of the queue on it.

pub mod volumes;

use crate::config::PluginSpec;
use crate::ids::{NodeId, TaskId};
use crate::plugins::{Filter, Policy};
use crate::report::refusal::{NodeRefusal, TaskRefusal};
use crate::world::World;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.filters.push(Filter::Predicates);
}

/// What can be said of a pod before any node is looked at.
pub(crate) fn check_task(_world: &World, _task: TaskId) -> Result<(), TaskRefusal> {
    Ok(())
}

/// The part of [`check_task`] that no eviction can change.
pub(crate) fn check_task_whatever_goes(_world: &World, _task: TaskId) -> Result<(), TaskRefusal> {
    Ok(())
}

/// Whether the pod may run on the node. `opens_device` tells whether it would open a new shared device there.
pub(crate) fn check_node(
    _world: &World,
    _task: TaskId,
    _node: NodeId,
    _opens_device: bool,
) -> Result<(), NodeRefusal> {
    Ok(())
}
