//! Small worlds for tests of the plugins that look at nodes, devices and zones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compatibility::Compatibility;
use crate::config::{Config, PluginSpec};
use crate::fairness::Amounts;
use crate::ids::{NodeId, TaskId};
use crate::input::node::{Allocatable, ObservedGpus};
use crate::input::pod::{Backoff, GpuRequest, NumaDemand, PodConstraints, PodRequest, PodRole};
use crate::input::pod_group::{GroupLeaf, GroupSet, Preemptibility, TopologyConstraint};
use crate::input::{
    Delta, NodeSpec, Object, ObjectName, PodGroupSpec, PodSpec, QueueSpec, Text, TopologyLevel,
    TopologySpec,
};
use crate::status::Status;
use crate::time::Timestamp;
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
    NodeSpec {
        name: name.into(),
        labels: labels.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect(),
        annotations: BTreeMap::new(),
        allocatable: Allocatable {
            cpu_milli: 100_000,
            memory_bytes: 1_000_000_000_000,
            pods: 110,
            gpus,
            mig: Vec::new(),
            other: Vec::new(),
        },
        taints: Vec::new(),
        unschedulable: false,
        bad_conditions: Vec::new(),
        gpu_memory_known: None,
        observed_gpu_uuids: Vec::new(),
        observed_gpus: ObservedGpus::default(),
        whole_gpu_policy: None,
    }
}

/// A pending pod of `group` with one core, 1 GB and whole GPUs.
pub(crate) fn pod(name: &str, group: &str, gpus: i64) -> PodSpec {
    PodSpec {
        name: named(name),
        uid: name.into(),
        created: Timestamp::default(),
        group: Some(group.into()),
        sub_group: None,
        role: PodRole::Workload,
        status: Status::Pending,
        node: None,
        stuck_at: None,
        labels: Arc::default(),
        request: PodRequest {
            cpu_milli: 1_000,
            memory_bytes: 1_000_000_000,
            gpu: GpuRequest::Whole { count: gpus },
            ..PodRequest::default()
        },
        gpu_groups: Vec::new(),
        constraints: Arc::default(),
        claims: Vec::new(),
        nominated_node: None,
        backoff: Backoff::default(),
        numa: NumaDemand::default(),
    }
}

/// The pod running on a node.
pub(crate) fn running(mut pod: PodSpec, node: &str) -> PodSpec {
    pod.status = Status::Running;
    pod.node = Some(node.into());
    pod
}

/// A queue at the top that may use everything.
pub(crate) fn queue(name: &str) -> QueueSpec {
    QueueSpec {
        name: name.into(),
        display_name: None,
        parent: None,
        priority: 100,
        created: Timestamp::default(),
        quota: Amounts::UNBOUNDED,
        limit: Amounts::UNBOUNDED,
        over_quota_weight: Amounts::new(1.0, 1.0, 1.0),
        preempt_min_runtime: None,
        gpu_types: Vec::new(),
        lending_limit: None,
        reclaim_min_runtime: None,
    }
}

/// A pod group of the queue `queue` with this tree.
pub(crate) fn group(name: &str, tree: GroupSet) -> PodGroupSpec {
    PodGroupSpec {
        name: named(name),
        uid: name.into(),
        queue: "queue".into(),
        priority: 50,
        preemptibility: Preemptibility::Preemptible,
        created: Timestamp::default(),
        last_start: None,
        last_eviction: None,
        stale_since: None,
        reclaim_delayed_since: None,
        staleness_grace: None,
        preemption_delay: None,
        schedulable: true,
        never_preempts: false,
        denied: None,
        half_bound: false,
        tree,
    }
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
