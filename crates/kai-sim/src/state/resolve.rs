//! Spells out the defaults that depend on other parts of the document.

use super::cluster::{ClusterState, Job, Node, Queue, Share, Storage, Task};
use super::config;
use crate::format::{
    self, Amount, FormatError, MigStrategy, NodeExpression, PodSet, Preemptibility, Scenario,
    ShareLayer, Status, SubGroup, WholeGpuPolicy,
};

const ROOT_QUEUE: &str = "default";
const DEFAULT_POD_SET: &str = "default";
const GPU_COUNT_LABEL: &str = "nvidia.com/gpu.count";
const GPU_MEMORY_LABEL: &str = "nvidia.com/gpu.memory";
const MIG_STRATEGY_LABEL: &str = "nvidia.com/mig.strategy";
const NODE_TYPE_LABEL: &str = "kai.scheduler/type";
/// Labels of this size and above are bytes; no device has a tebibyte of memory yet.
const BYTES_FROM: i64 = 1_048_576;
const DEFAULT_START_AGE_S: f64 = 60.0;

/// The state a scenario starts from, at time 0.
pub(super) fn cluster(scenario: &Scenario) -> Result<ClusterState, FormatError> {
    let config = config::resolve(&scenario.config)?;
    let cluster = &scenario.cluster;
    let policy = config.params.whole_gpu_policy;
    let count = cluster.jobs.len();
    let jobs = cluster.jobs.iter().enumerate().map(|(position, written)| {
        let age_s = written.age_s.unwrap_or(60.0 * (count - position) as f64);
        job(written, age_s, 0.0)
    });
    let implicit_root_queue =
        cluster.implicit_root_queue && cluster.queues.iter().all(|queue| queue.parent.is_none());
    Ok(ClusterState {
        topologies: cluster.topologies.clone(),
        nodes: cluster.nodes.iter().map(|written| node(written, policy)).collect(),
        queues: queues(&cluster.queues, implicit_root_queue),
        implicit_root_queue,
        jobs: jobs.collect(),
        device_classes: cluster.device_classes.clone(),
        resource_slices: cluster.resource_slices.clone(),
        resource_claims: cluster.resource_claims.clone(),
        storage: Storage {
            claims: cluster.pvcs.clone(),
            volumes: cluster.pvs.clone(),
            classes: cluster.storage_classes.clone(),
            drivers: cluster.csi_drivers.clone(),
            capacities: cluster.csi_capacities.clone(),
        },
        config_maps: cluster.config_maps.clone(),
        foreign_pods: cluster.foreign_pods.clone(),
        disruption_budgets: cluster.disruption_budgets.clone(),
        config,
    })
}

/// A node with the labels every node has.
pub(super) fn node(written: &format::Node, policy: WholeGpuPolicy) -> Node {
    let mut labels = written.labels.clone();
    let mut add = |key: &str, value: String| {
        labels.entry(key.to_owned()).or_insert(value);
    };
    add(NODE_TYPE_LABEL, written.name.clone());
    if written.gpu_labels {
        add(GPU_COUNT_LABEL, written.allocatable.gpus.to_string());
        add(GPU_MEMORY_LABEL, written.gpu_memory_mib.to_string());
    }
    let memory_label = gpu_memory_label(&labels);
    let strategy_label = labels.get(MIG_STRATEGY_LABEL).and_then(|value| mig_strategy(value));
    Node {
        name: written.name.clone(),
        annotations: written.annotations.clone(),
        gpu_uuids_seen: written.gpu_uuids_seen.clone(),
        allocatable: written.allocatable.clone(),
        gpu_memory_mib: memory_label.unwrap_or(written.gpu_memory_mib),
        gpu_memory_known: written.gpu_memory_known.unwrap_or(memory_label.is_some()),
        mig_strategy: written.mig_strategy.or(strategy_label),
        numa: written.numa.clone(),
        taints: written.taints.clone(),
        unschedulable: written.unschedulable,
        conditions: written.conditions.clone(),
        whole_gpu_policy: written.whole_gpu_policy.unwrap_or(policy),
        labels,
    }
}

/// What the labels say about the memory of each device, in MiB; nothing if that is no amount.
pub(super) fn gpu_memory_label(labels: &format::StringMap) -> Option<i64> {
    let value: i64 = labels.get(GPU_MEMORY_LABEL)?.parse().ok()?;
    let mebibytes = if value >= BYTES_FROM { value / BYTES_FROM } else { value };
    (mebibytes > 0).then_some(mebibytes)
}

fn mig_strategy(label: &str) -> Option<MigStrategy> {
    match label {
        "none" => Some(MigStrategy::None),
        "single" => Some(MigStrategy::Single),
        "mixed" => Some(MigStrategy::Mixed),
        _ => None,
    }
}

/// The queues, under the implicit root if there is one. A queue that already has the root's name is
/// taken for the root.
fn queues(written: &[format::Queue], implicit_root: bool) -> Vec<Queue> {
    let created_at_s = |position| 60.0 * position as f64;
    let mut queues: Vec<_> = written
        .iter()
        .enumerate()
        .map(|(position, written)| {
            queue(written, written.created_s.unwrap_or(created_at_s(position)))
        })
        .collect();
    if implicit_root && !queues.is_empty() {
        if !queues.iter().any(|queue| queue.name == ROOT_QUEUE) {
            queues.insert(0, implicit_root_queue());
        }
        queues.iter_mut().for_each(put_under_root);
    }
    queues
}

/// Gives a queue without a parent the implicit root as parent.
pub(super) fn put_under_root(queue: &mut Queue) {
    if queue.parent.is_none() && queue.name != ROOT_QUEUE {
        queue.parent = Some(ROOT_QUEUE.to_owned());
    }
}

fn implicit_root_queue() -> Queue {
    let unbounded = |over_quota_weight| Share {
        quota: Amount::Unlimited,
        limit: Amount::Unlimited,
        lending_limit: Amount::Unlimited,
        over_quota_weight,
    };
    Queue {
        name: ROOT_QUEUE.to_owned(),
        parent: None,
        priority: 100,
        created_at_s: 0.0,
        gpu: unbounded(-1.0),
        cpu_milli: unbounded(1.0),
        memory_bytes: unbounded(1.0),
        preempt_min_runtime_s: None,
        reclaim_min_runtime_s: None,
        usage: format::Usage::default(),
    }
}

/// A queue; GPUs are owed only where a quota says so, other resources without bound.
pub(super) fn queue(written: &format::Queue, created_at_s: f64) -> Queue {
    let share = |layer: ShareLayer, quota, weight| Share {
        quota: layer.quota.unwrap_or(quota),
        limit: layer.limit.unwrap_or(Amount::Unlimited),
        lending_limit: layer.lending_limit.unwrap_or(Amount::Unlimited),
        over_quota_weight: layer.over_quota_weight.unwrap_or(weight),
    };
    Queue {
        name: written.name.clone(),
        parent: written.parent.clone(),
        priority: written.priority,
        created_at_s,
        gpu: share(written.gpu, Amount::Limited(0.0), 0.0),
        cpu_milli: share(written.cpu_milli, Amount::Unlimited, 1.0),
        memory_bytes: share(written.memory_bytes, Amount::Unlimited, 1.0),
        preempt_min_runtime_s: written.preempt_min_runtime_s,
        reclaim_min_runtime_s: written.reclaim_min_runtime_s,
        usage: written.usage,
    }
}

/// A job that is `age_s` old at time `now_s`.
pub(super) fn job(written: &format::Job, age_s: f64, now_s: f64) -> Job {
    let tasks: Vec<_> = written
        .tasks
        .iter()
        .enumerate()
        .map(|(position, task_written)| task(task_written, &written.name, position))
        .collect();
    let by_priority = if written.priority < 100 {
        Preemptibility::Preemptible
    } else {
        Preemptibility::NonPreemptible
    };
    let start_age_s = written.last_start_ago_s.unwrap_or(DEFAULT_START_AGE_S);
    let has_started =
        written.last_start_ago_s.is_some() || tasks.iter().any(|task| task.status.is_allocated());
    Job {
        name: written.name.clone(),
        namespace: written.namespace.clone(),
        queue: written.queue.clone(),
        priority: written.priority,
        preemptibility: written.preemptibility.unwrap_or(by_priority),
        created_at_s: now_s - age_s,
        started_at_s: has_started.then_some(now_s - start_age_s),
        start_age_s,
        evicted_at_s: written.last_eviction_ago_s.map(|ago_s| now_s - ago_s),
        stale_since_s: written.stale_for_s.map(|ago_s| now_s - ago_s),
        reclaim_delayed_since_s: written.reclaim_delayed_for_s.map(|ago_s| now_s - ago_s),
        staleness_grace_s: written.staleness_grace_s,
        preemption_delay_s: written.preemption_delay_s,
        preemption_policy: written.preemption_policy,
        on_evict: written.on_evict,
        sub_groups: written.sub_groups.clone().unwrap_or_else(|| gang_of(tasks.len())),
        tasks,
    }
}

fn gang_of(size: usize) -> SubGroup {
    let all_tasks = PodSet {
        name: DEFAULT_POD_SET.to_owned(),
        min_available: u32::try_from(size).unwrap_or(u32::MAX),
        topology: None,
    };
    SubGroup { pod_sets: vec![all_tasks], ..SubGroup::default() }
}

fn task(written: &format::Task, job: &str, position: usize) -> Task {
    let binding = written.bind_request.as_ref().filter(|request| !request.has_failed());
    let by_itself = match binding {
        Some(_) => Status::Binding,
        None if !written.gates.is_empty() => Status::Gated,
        None => Status::Pending,
    };
    let groups_of_binding = binding.map(|request| request.gpu_groups.clone()).unwrap_or_default();
    Task {
        name: written.name.clone().unwrap_or_else(|| format!("{job}-{position}")),
        status: written.status.unwrap_or(by_itself),
        node: written.node.clone().or_else(|| binding.map(|request| request.node.clone())),
        sub_group: written.sub_group.clone().unwrap_or_else(|| DEFAULT_POD_SET.to_owned()),
        request: written.request.clone(),
        gpu_groups: if written.gpu_groups.is_empty() {
            groups_of_binding
        } else {
            written.gpu_groups.clone()
        },
        numa_zones: Vec::new(),
        labels: written.labels.clone(),
        annotations: written.annotations.clone(),
        node_selector: written.node_selector.clone(),
        node_affinity: alternatives(&written.node_affinity, &written.node_affinity_any),
        pod_affinity: written.pod_affinity.clone(),
        pod_anti_affinity: written.pod_anti_affinity.clone(),
        tolerations: written.tolerations.clone(),
        host_ports: written.host_ports.clone(),
        gates: written.gates.clone(),
        pvcs: written.pvcs.clone(),
        config_maps: written.config_maps.clone(),
        legacy_mig: written.legacy_mig,
        compute_mode: written.compute_mode,
        qos: written.qos,
        nominated_node: written.nominated_node.clone(),
        bind_request: written.bind_request.clone(),
        evicted_at_s: None,
    }
}

/// All of `always`, and all of one of `any`. An alternative without demands matches no node and stays
/// one that matches none.
fn alternatives(
    always: &[NodeExpression],
    any: &[Vec<NodeExpression>],
) -> Vec<Vec<NodeExpression>> {
    if any.is_empty() {
        return if always.is_empty() { Vec::new() } else { vec![always.to_vec()] };
    }
    let with_always = |alternative: &Vec<NodeExpression>| {
        if alternative.is_empty() { Vec::new() } else { [always, alternative.as_slice()].concat() }
    };
    any.iter().map(with_always).collect()
}
