//! The plugins under KAI's names. Each file states its rule; this one is the table of all of them and compiles a
//! configured list into a [`Policy`]. A plugin that is not listed has no influence.

pub mod dynamicresources;
pub mod elastic;
pub mod gpu_order;
pub mod gpusharingorder;
pub mod kubeflow;
pub mod minruntime;
pub mod nodeavailability;
pub mod nodeplacement;
pub mod nominatednode;
pub mod numa;
pub mod podaffinity;
pub mod predicates;
pub mod priority;
pub mod proportion;
pub mod ray;
pub mod reflectjoborder;
pub mod resourcetype;
pub mod scenario_generators;
pub mod snapshot;
pub mod subgrouporder;
pub mod taskorder;
pub mod topology;

#[cfg(test)]
pub(crate) mod testing;

use std::cmp::Ordering;

use crate::config::{Config, PluginSpec};
use crate::ids::TaskId;
use crate::input::Text;
use crate::world::World;

/// A compiled list of plugins.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one plugin is listed")]
pub struct Policy {
    /// Queues have quotas, limits and fair shares.
    pub proportion: Option<proportion::Arguments>,
    /// Jobs of higher priority come first in their queue.
    pub orders_by_priority: bool,
    /// Jobs below their minimum first.
    pub orders_by_fill: bool,
    /// Rules that order tasks of a leaf, first difference decides.
    pub task_orders: Vec<TaskOrder>,
    /// Sub-groups below their minimum come first in a job.
    pub orders_sub_groups: bool,
    /// Rules a node must pass, in order.
    pub filters: Vec<Filter>,
    /// Rules that score nodes; scores are added up in this order.
    pub scores: Vec<Score>,
    /// Rules that score shared devices; scores are added up.
    pub device_scores: Vec<gpu_order::DeviceScore>,
    /// Protection of young victims.
    pub min_runtime: Option<minruntime::Arguments>,
    /// Sub-groups are kept together.
    pub topology: bool,
    /// NUMA arguments, when alignment is on.
    pub numa: Option<numa::Arguments>,
    /// Generators of the victim search, in order.
    pub generators: Vec<scenario_generators::Generator>,
    /// The order of jobs is part of the plan.
    pub reflects_job_order: bool,
    /// Listed names that are no plugin.
    pub unknown: Vec<Text>,
}

/// A rule that orders tasks of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskOrder {
    /// Masters and launchers first.
    Kubeflow,
    /// Head pods of Ray clusters come first.
    Ray,
    /// By the priority label.
    Label,
}

/// A rule a node must pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Capacity of the queue on that node, Kubernetes' own filters and the kind of the node.
    Predicates,
    /// Claims can be satisfied.
    Claims,
    /// The pod can be aligned.
    Numa,
}

/// A rule that scores nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Score {
    /// Nodes with little or with much of the resource free, by strategy.
    Placement(nodeplacement::Strategies),
    /// Nodes on which the pod can start now.
    Availability,
    /// Shares a device in use.
    GpuSharing,
    /// CPU pods on CPU nodes.
    ResourceType,
    /// The node nominated in an earlier cycle.
    Nominated,
    /// Close to its sub-group.
    Topology,
    /// Preferred affinity and anti-affinity to other pods.
    PodAffinity,
    /// Nodes on which the pod needs few NUMA zones.
    Numa,
}

type Register = fn(&mut Policy, &PluginSpec);

/// KAI's plugins: name and what it adds.
const TABLE: [(&str, Register); 24] = [
    ("predicates", predicates::register),
    ("proportion", proportion::register),
    ("priority", priority::register),
    ("elastic", elastic::register),
    ("kubeflow", kubeflow::register),
    ("ray", ray::register),
    ("nodeavailability", nodeavailability::register),
    ("gpusharingorder", gpusharingorder::register),
    ("gpupack", gpu_order::register_pack),
    ("gpuspread", gpu_order::register_spread),
    ("resourcetype", resourcetype::register),
    ("subgrouporder", subgrouporder::register),
    ("taskorder", taskorder::register),
    ("nominatednode", nominatednode::register),
    ("dynamicresources", dynamicresources::register),
    ("nodeplacement", nodeplacement::register),
    ("minruntime", minruntime::register),
    ("topology", topology::register),
    ("podaffinity", podaffinity::register),
    ("numa", numa::register),
    ("snapshot", snapshot::register),
    ("reflectjoborder", reflectjoborder::register),
    ("sg-nodelocalgreedy", scenario_generators::register_node_local_greedy),
    ("sg-multinodegang", scenario_generators::register_multi_node_gang),
];

impl Policy {
    /// Compiles the configured list.
    pub fn new(config: &Config) -> Self {
        let mut policy = Self::default();
        for plugin in &config.plugins {
            match TABLE.iter().find(|(name, _)| *name == &*plugin.name) {
                Some((_, register)) => register(&mut policy, plugin),
                None => policy.unknown.push(plugin.name.clone()),
            }
        }
        policy
    }

    /// Whether `name` is a plugin.
    pub fn knows(name: &str) -> bool {
        TABLE.iter().any(|(known, _)| *known == name)
    }

    /// Placements are charged to queues while a cycle runs.
    pub(crate) fn charges_queues(&self) -> bool {
        self.proportion.is_some()
    }
}

impl World {
    /// Task order within a leaf: configured rules, then age, then UID.
    pub(crate) fn task_order(&self, left: TaskId, right: TaskId) -> Ordering {
        let (left, right) = (&self.task(left).spec, &self.task(right).spec);
        for rule in &self.policy.task_orders {
            let order = match rule {
                TaskOrder::Kubeflow => kubeflow::compare(left, right),
                TaskOrder::Ray => ray::compare(left, right),
                TaskOrder::Label => taskorder::compare(left, right),
            };
            if order.is_ne() {
                return order;
            }
        }
        left.created.cmp(&right.created).then_with(|| left.uid.cmp(&right.uid))
    }
}
