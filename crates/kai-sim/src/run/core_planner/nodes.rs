//! Nodes, NUMA zones, topologies and queues in the core's words.

use kai_core::fairness::{Amounts, UNLIMITED};
use kai_core::input::node::{self, NumaPolicy, NumaScope, NumaZone, ObservedGpus, TaintEffect};
use kai_core::input::{
    NodeSpec, NumaSpec, Object, ObjectKey, QueueSpec, Text, TopologyLevel, TopologySpec, UsageSpec,
};
use kai_core::resources::ResourceVector;
use kai_core::world::World;
use kai_core::world::node::Node as CoreNode;

use super::config::whole_gpu_policy;
use super::selectors::{counted, labels, other_resources, text, texts};
use super::{span, timestamp};
use crate::format::{self, AmountMap, ConditionStatus, MigStrategy};
use crate::state::{ClusterState, Node, Queue};

const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";
const MIG_ENABLED: &str = "node-role.kubernetes.io/mig-enabled";
/// Conditions that keep pods away while they hold.
const PRESSURES: [&str; 4] =
    ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];

pub(super) fn translate(state: &ClusterState) -> Vec<(ObjectKey, Object)> {
    let mut objects = Vec::new();
    for node in &state.nodes {
        let name = text(&node.name);
        objects.push((ObjectKey::Node(name.clone()), Object::Node(Box::new(node_spec(node)))));
        if let Some(numa) = &node.numa {
            objects.push((ObjectKey::Numa(name.clone()), Object::Numa(numa_spec(name, numa))));
        }
    }
    for topology in &state.topologies {
        let level = |level: &format::TopologyLevel| TopologyLevel {
            label: text(&level.label),
            alias: level.alias.as_deref().map(text),
        };
        let name = text(&topology.name);
        let levels = topology.levels.iter().map(level).collect();
        let spec = TopologySpec { name: name.clone(), levels };
        objects.push((ObjectKey::Topology(name), Object::Topology(spec)));
    }
    for queue in &state.queues {
        let name = text(&queue.name);
        objects.push((ObjectKey::Queue(name.clone()), Object::Queue(queue_spec(queue))));
        if queue.usage != format::Usage::default() {
            let format::Usage { gpu, cpu, memory } = queue.usage;
            let usage = UsageSpec { queue: name.clone(), usage: Amounts::new(cpu, memory, gpu) };
            objects.push((ObjectKey::Usage(name), Object::Usage(usage)));
        }
    }
    objects
}

fn node_spec(node: &Node) -> NodeSpec {
    let taint = |taint: &format::Taint| node::Taint {
        key: text(&taint.key),
        value: text(&taint.value),
        effect: taint_effect(taint.effect),
    };
    NodeSpec {
        name: text(&node.name),
        labels: labels(&with_mig_labels(node)),
        annotations: labels(&node.annotations),
        allocatable: node::Allocatable {
            cpu_milli: node.allocatable.cpu_milli,
            memory_bytes: node.allocatable.memory_bytes,
            pods: node.allocatable.pods,
            gpus: node.allocatable.gpus,
            mig: counted(&node.allocatable.mig),
            other: other_resources(&node.allocatable.extended),
        },
        taints: node.taints.iter().map(taint).collect(),
        unschedulable: node.unschedulable,
        bad_conditions: bad_conditions(node),
        gpu_memory_known: Some(node.gpu_memory_known),
        observed_gpu_uuids: texts(&node.gpu_uuids_seen),
        observed_gpus: ObservedGpus::default(),
        whole_gpu_policy: Some(whole_gpu_policy(node.whole_gpu_policy)),
    }
}

/// The core reads the strategy off the labels; a scenario may say it by key.
fn with_mig_labels(node: &Node) -> format::StringMap {
    let mut labels = node.labels.clone();
    if let Some(strategy) = node.mig_strategy {
        let name = match strategy {
            MigStrategy::None => "none",
            MigStrategy::Single => "single",
            MigStrategy::Mixed => "mixed",
        };
        labels.entry(MIG_STRATEGY.to_owned()).or_insert_with(|| name.to_owned());
        labels.entry(MIG_ENABLED.to_owned()).or_insert_with(|| "true".to_owned());
    }
    labels
}

fn bad_conditions(node: &Node) -> Vec<Text> {
    let differs = |kind: &str, healthy: ConditionStatus| {
        node.conditions.get(kind).is_some_and(|&status| status != healthy)
    };
    let not_ready = differs("Ready", ConditionStatus::True).then_some("NotReady");
    let pressed = PRESSURES.into_iter().filter(|kind| differs(kind, ConditionStatus::False));
    not_ready.into_iter().chain(pressed).map(text).collect()
}

pub(super) fn taint_effect(effect: format::TaintEffect) -> TaintEffect {
    match effect {
        format::TaintEffect::NoSchedule => TaintEffect::NoSchedule,
        format::TaintEffect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
        format::TaintEffect::NoExecute => TaintEffect::NoExecute,
    }
}

fn numa_spec(node: Text, numa: &format::Numa) -> NumaSpec {
    let zone = |zone: &format::NumaZone| NumaZone {
        id: text(&zone.id),
        allocatable: zone_amounts(&zone.allocatable),
        available: zone_amounts(&zone.available),
    };
    NumaSpec {
        node,
        policy: match numa.policy {
            format::NumaPolicy::None => NumaPolicy::None,
            format::NumaPolicy::BestEffort => NumaPolicy::BestEffort,
            format::NumaPolicy::Restricted => NumaPolicy::Restricted,
            format::NumaPolicy::SingleNumaNode => NumaPolicy::SingleNumaNode,
        },
        scope: match numa.scope {
            format::NumaScope::Container => NumaScope::Container,
            format::NumaScope::Pod => NumaScope::Pod,
        },
        zones: numa.zones.iter().map(zone).collect(),
    }
}

/// GPUs of a zone are counted one by one like those of a node.
fn zone_amounts(amounts: &AmountMap) -> Vec<(Text, i64)> {
    let in_core_words = |(name, &amount): (&String, &i64)| match name.as_str() {
        "cpu_milli" => (text("cpu"), amount),
        "memory_bytes" => (text("memory"), amount),
        "nvidia.com/gpu" | "amd.com/gpu" => (text(name), amount),
        name if name.starts_with("nvidia.com/mig-") => (text(name), amount),
        name => (text(name), amount.saturating_mul(1000)),
    };
    amounts.iter().map(in_core_words).collect()
}

fn queue_spec(queue: &Queue) -> QueueSpec {
    let bound = |amount: format::Amount| amount.limit().unwrap_or(UNLIMITED);
    let shares = [queue.cpu_milli, queue.memory_bytes, queue.gpu];
    let [quota_cpu, quota_memory, quota_gpu] = shares.map(|share| bound(share.quota));
    let [limit_cpu, limit_memory, limit_gpu] = shares.map(|share| bound(share.limit));
    let [lends_cpu, lends_memory, lends_gpu] = shares.map(|share| bound(share.lending_limit));
    let lends = Amounts::new(lends_cpu, lends_memory, lends_gpu);
    let [weight_cpu, weight_memory, weight_gpu] = shares.map(|share| share.over_quota_weight);
    QueueSpec {
        name: text(&queue.name),
        display_name: None,
        parent: queue.parent.as_deref().map(text),
        priority: queue.priority as i32,
        created: timestamp(queue.created_at_s),
        quota: Amounts::new(quota_cpu, quota_memory, quota_gpu),
        limit: Amounts::new(limit_cpu, limit_memory, limit_gpu),
        gpu_types: Vec::new(),
        lending_limit: (lends != Amounts::UNBOUNDED).then_some(lends),
        over_quota_weight: Amounts::new(weight_cpu, weight_memory, weight_gpu),
        preempt_min_runtime: queue.preempt_min_runtime_s.map(span),
        reclaim_min_runtime: queue.reclaim_min_runtime_s.map(span),
    }
}

/// Free amounts of a node's zones as the world shows them.
pub(super) fn zones_back(world: &World, node: &CoreNode) -> Vec<AmountMap> {
    let zones = node.numa.iter().flat_map(|numa| numa.available().iter());
    let names = world.resource_names();
    let back = |zone: &ResourceVector| -> AmountMap {
        let amounts = zone.amounts().map(|(slot, amount)| match names.name(slot) {
            "cpu" => ("cpu_milli".to_owned(), amount),
            "memory" => ("memory_bytes".to_owned(), amount),
            "gpu" => ("nvidia.com/gpu".to_owned(), amount),
            name if name.starts_with("nvidia.com/mig-") => (name.to_owned(), amount),
            name => (name.to_owned(), amount / 1000),
        });
        amounts.collect()
    };
    zones.map(back).collect()
}
