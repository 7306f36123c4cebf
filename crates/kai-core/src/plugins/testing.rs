//! Small worlds for tests of the plugins that look at nodes, devices and zones.

use crate::compatibility::Compatibility;
use crate::config::{Config, PluginSpec};
use crate::ids::{NodeId, TaskId};
use crate::input::node::Allocatable;
use crate::input::pod::{GpuRequest, PodRequest};
use crate::input::pod_group::{GroupLeaf, GroupSet, TopologyConstraint};
use crate::input::{
    Delta, NodeSpec, Object, ObjectName, PodGroupSpec, PodSpec, QueueSpec, Text, TopologyLevel,
    TopologySpec,
};
use crate::status::Status;
use crate::world::World;

/// Namespace of all objects of the test worlds.
pub(crate) const NAMESPACE: &str = "team";

/// An empty world with the default plugins and those named.
pub(crate) fn world(compatibility: Compatibility, more: &[PluginSpec]) -> World {
    let mut config = Config { compatibility, ..Config::default() };
    config.plugins.extend(more.iter().cloned());
    World::new(config)
}

/// The name of an object of the namespace.
pub(crate) fn named(name: &str) -> ObjectName {
    ObjectName::new(NAMESPACE, name)
}

/// Applies an object and expects no complaint.
pub(crate) fn set(world: &mut World, object: Object) {
    let effect = world.apply(Delta::Set(object));
    assert!(effect.problems.is_empty(), "{:?}", effect.problems);
}

/// A node with 100 cores, 1 TB, 110 pod slots and these GPUs.
pub(crate) fn node(name: &str, gpus: i64, labels: &[(&str, &str)]) -> NodeSpec {
    let allocatable = Allocatable {
        cpu_milli: 100_000,
        memory_bytes: 1_000_000_000_000,
        pods: 110,
        gpus,
        ..Allocatable::default()
    };
    let labels = labels.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect();
    NodeSpec { labels, ..NodeSpec::healthy(name, allocatable) }
}

/// A pending pod of `group` with one core, 1 GB and whole GPUs.
pub(crate) fn pod(name: &str, group: &str, gpus: i64) -> PodSpec {
    let request = PodRequest {
        cpu_milli: 1_000,
        memory_bytes: 1_000_000_000,
        gpu: GpuRequest::Whole { count: gpus },
        ..PodRequest::default()
    };
    PodSpec { group: Some(group.into()), ..PodSpec::pending(named(name), request) }
}

/// The pod running on a node.
pub(crate) fn running(mut pod: PodSpec, node: &str) -> PodSpec {
    pod.status = Status::Running;
    pod.node = Some(node.into());
    pod
}

/// A queue at the top that may use everything.
pub(crate) fn queue(name: &str) -> QueueSpec {
    QueueSpec::unbounded(name)
}

/// A pod group of the queue `queue` with this tree.
pub(crate) fn group(name: &str, tree: GroupSet) -> PodGroupSpec {
    PodGroupSpec::preemptible(named(name), "queue", tree)
}

/// A tree of one leaf `default` under a root with this constraint.
pub(crate) fn one_leaf(min_available: u32, topology: Option<TopologyConstraint>) -> GroupSet {
    let leaf = GroupLeaf { name: "default".into(), min_available, topology: None };
    GroupSet { topology, leaves: vec![leaf], ..GroupSet::default() }
}

/// A constraint on the topology `net`.
pub(crate) fn constraint(required: Option<&str>, preferred: Option<&str>) -> TopologyConstraint {
    TopologyConstraint {
        topology: "net".into(),
        required: required.map(Text::from),
        preferred: preferred.map(Text::from),
    }
}

/// The topology `net` with these levels; each has an alias in capitals.
pub(crate) fn topology(levels: &[&str]) -> TopologySpec {
    let levels = levels.iter().map(|label| TopologyLevel {
        label: Text::from(*label),
        alias: Some(label.to_uppercase().into()),
    });
    TopologySpec { name: "net".into(), levels: levels.collect() }
}

/// The node called `name`.
pub(crate) fn node_id(world: &World, name: &str) -> NodeId {
    world.node_named(name).expect("the node exists")
}

/// The pod called `name`.
pub(crate) fn task_id(world: &World, name: &str) -> TaskId {
    world.task_named(&named(name)).expect("the pod exists")
}
