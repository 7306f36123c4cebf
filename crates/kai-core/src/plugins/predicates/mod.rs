//! predicates: what Kubernetes itself asks of a node before a pod may run there, the kind of the node, and the
//! capacity of the queue on it.
//!
//! A pod is asked twice. `check_task` says what no node can change: claims and config maps that do not exist, a
//! request larger than any node. `TaskContext::check_node` then asks node by node, in KAI's order: queue
//! capacity, kind of GPUs, pod slots, node conditions, host ports, taints, node affinity, pod affinity, volumes,
//! kind of worker. What is the same for all nodes is computed once, in the context; a pod without constraints
//! costs a handful of comparisons per node.
//!
//! KAI remembers for a whole session that pod affinity had nothing to say about a pod, whatever comes to the nodes
//! later (fault 10); `note_skips` reproduces that. By default the context is made anew for every attempt.

mod capacity;
mod gpu_kind;
pub(crate) mod kubernetes;
mod max_resources;
pub(crate) mod pod_affinity;
pub(crate) mod storage;
pub mod term_index;
#[cfg(test)]
pub(crate) mod testing;
mod texts;
pub mod volumes;

use crate::config::PluginSpec;
use crate::ids::{NodeId, TaskId};
use crate::input::{ObjectName, PodSpec};
use crate::plugins::{Filter, Policy};
use crate::report::refusal::{NodeRefusal, Rule, TaskRefusal};
use crate::world::World;
use crate::world::node::Node;
use crate::world::shape::Shape;
use capacity::QueueCapacity;
use pod_affinity::AffinityFacts;
use storage::StorageDemand;
use volumes::PodVolumes;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.filters.push(Filter::Predicates);
}

/// What can be said of a pod before any node is looked at. All objections are reported at once.
pub(crate) fn check_task(world: &World, task: TaskId) -> Result<(), TaskRefusal> {
    let spec = &world.task(task).spec;
    let names_conflict = kubernetes::node_names_conflict(&spec.constraints.node_terms);
    let objections = [
        ("NodeAffinity", names_conflict.then(|| "pod affinity terms conflict".to_owned())),
        ("VolumeBinding", volumes::refusal(world, task)),
        ("MaxNodePoolResources", max_resources::refusal(world, task)),
        ("ConfigMap", missing_config_maps(world, spec)),
    ];
    let texts: String = objections
        .iter()
        .filter_map(|(rule, text)| text.as_ref().map(|text| format!("{rule}: {text}.\n")))
        .collect();
    if texts.is_empty() {
        return Ok(());
    }
    let name = &spec.name;
    let text = format!("Scheduling conditions were not met for pod {name}:\n{texts}");
    Err(TaskRefusal { text: text.into() })
}

/// The part of [`check_task`] that no eviction can change; the first objection alone, in its own words.
pub(crate) fn check_task_beyond_eviction(world: &World, task: TaskId) -> Result<(), TaskRefusal> {
    let objection = volumes::refusal(world, task)
        .or_else(|| missing_config_maps(world, &world.task(task).spec))
        .or_else(|| max_resources::refusal(world, task));
    objection.map_or(Ok(()), |text| Err(TaskRefusal { text: text.into() }))
}

/// Remembers, as KAI does, that pod affinity has nothing to say about a pod when it is first tried (fault 10).
pub(crate) fn note_skips(world: &mut World, task: TaskId) {
    let listed = world.policy.filters.contains(&Filter::Predicates);
    if listed && world.config.compatibility.is_kai() && pod_affinity::is_silent(world, task) {
        world.affinity_skips.insert(task);
    }
}

fn missing_config_maps(world: &World, pod: &PodSpec) -> Option<String> {
    let namespace = &pod.name.namespace;
    let exists = |name: &&crate::input::Text| {
        let name = ObjectName { namespace: namespace.clone(), name: (*name).clone() };
        world.config_maps.contains(&name)
    };
    let mut missing: Vec<&str> = pod
        .constraints
        .config_maps
        .iter()
        .filter(|name| !exists(name))
        .map(|name| &**name)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    (!missing.is_empty()).then(|| format!("Missing required configmaps: [{}]", missing.join(" ")))
}

/// Whether the pod may run on the node. For one node; to try many, make a [`TaskContext`] once.
///
/// `opened` is how many new shared devices the pod would open there. KAI takes every group whose id is not an
/// integer for new (fault 9); the caller decides, here only the slots are counted.
#[cfg(test)]
pub(crate) fn check_node(
    world: &World,
    task: TaskId,
    node: NodeId,
    opened: i64,
) -> Result<(), NodeRefusal> {
    TaskContext::new(world, task).check_node(world, node, opened)
}

/// What is the same for one pod on all nodes. True as long as nothing in the world changes: make it anew after
/// every placement or eviction.
#[derive(Clone, Debug)]
pub(crate) struct TaskContext {
    task: TaskId,
    queue_capacity: Option<QueueCapacity>,
    /// Asks for GPUs in any way.
    wants_gpus: bool,
    is_shared: bool,
    /// Anything beyond slots, conditions and taints is asked.
    has_more: bool,
    affinity: Option<Box<AffinityFacts>>,
    volumes: Option<Box<PodVolumes>>,
    storage: Option<Box<StorageDemand>>,
}

impl TaskContext {
    /// The context of `task`.
    pub(crate) fn new(world: &World, task: TaskId) -> Self {
        let shape = world.shape_of(task);
        let constraints = &shape.constraints;
        let affinity = AffinityFacts::new(world, task);
        let volumes = PodVolumes::new(world, task);
        let has_more = affinity.is_some()
            || volumes.is_some()
            || world.config.params.restrict_node_scheduling
            || !constraints.host_ports.is_empty()
            || !constraints.node_selector.is_empty()
            || !constraints.node_terms.is_empty()
            || !constraints.avoided_nodes.is_empty();
        Self {
            task,
            queue_capacity: QueueCapacity::new(world, task),
            wants_gpus: !shape.is_cpu_only() || shape.legacy_mig,
            is_shared: shape.is_shared(),
            has_more,
            affinity,
            volumes,
            storage: StorageDemand::new(world, task),
        }
    }

    /// Whether the pod may run on the node; see [`check_node`] for `opened`.
    #[inline]
    pub(crate) fn check_node(
        &self,
        world: &World,
        node: NodeId,
        opened: i64,
    ) -> Result<(), NodeRefusal> {
        let node = world.node(node);
        let shape = world.shape_of(self.task);
        if let Some(queue) = &self.queue_capacity {
            if let Err(violation) = queue.check(world, shape, node) {
                return Err(NodeRefusal::QueueCapacity(Box::new(violation)));
            }
            queue.check_type(world, shape, node)?;
        }
        if self.wants_gpus {
            gpu_kind::check(world, self.task, shape, node)?;
        }
        if !self.has_slots(world, node, opened) {
            return Err(texts::POD_SLOTS.refusal());
        }
        if let Some(condition) = &node.unusable {
            return Err(NodeRefusal::Rule { rule: Rule::NodeCondition, text: condition.clone() });
        }
        if !self.has_more {
            return kubernetes::check_taints(&shape.constraints.tolerations, &node.spec.taints);
        }
        self.check_more(world, shape, node)
    }

    /// Why the pod's storage cannot be had on the node now.
    pub(crate) fn storage_refusal(&self, world: &World, node: NodeId) -> Option<NodeRefusal> {
        self.storage.as_ref()?.refusal(world, world.node(node))
    }

    #[inline]
    fn has_slots(&self, world: &World, node: &Node, opened: i64) -> bool {
        match (self.is_shared, opened) {
            (false, _) => world.has_slots(node, 0),
            // KAI looks at slots only where a device is opened.
            (true, 0) if world.config.compatibility.is_kai() => true,
            (true, opened) => world.has_slots(node, opened),
        }
    }

    fn check_more(&self, world: &World, shape: &Shape, node: &Node) -> Result<(), NodeRefusal> {
        let constraints = &shape.constraints;
        if !constraints.host_ports.is_empty() {
            kubernetes::check_ports(world, self.task, &constraints.host_ports, node)?;
        }
        kubernetes::check_taints(&constraints.tolerations, &node.spec.taints)?;
        kubernetes::check_avoided(constraints, node)?;
        kubernetes::check_node_affinity(constraints, node)?;
        if let Some(facts) = &self.affinity {
            facts.check(constraints, node)?;
        }
        if let Some(volumes) = &self.volumes {
            volumes.check(world, node)?;
        }
        if world.config.params.restrict_node_scheduling {
            gpu_kind::check_worker(world, self.task, shape, node)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
