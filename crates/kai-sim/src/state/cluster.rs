//! The objects of a cluster, every default spelled out.

use std::collections::BTreeMap;

use super::config::Config;
use crate::format::{
    Allocatable, Amount, BindRequest, ComputeMode, ConditionStatus, CsiCapacity, CsiDriver,
    DeviceClass, DisruptionBudget, ForeignPod, HostPort, MigStrategy, NodeExpression, Numa,
    ObjectName, OnEvict, PersistentVolume, PodTerm, Preemptibility, PreemptionPolicy, Qos, Request,
    ResourceClaim, ResourceSlice, Status, StorageClass, StringMap, SubGroup, Taint, Toleration,
    Topology, Usage, VolumeClaim, WholeGpuPolicy,
};

/// A cluster and its scheduler's settings at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterState {
    /// How the scheduler is set up.
    pub config: Config,
    /// Topologies that constraints refer to.
    pub topologies: Vec<Topology>,
    /// Nodes, in the order of the document.
    pub nodes: Vec<Node>,
    /// Queues, the implicit root included.
    pub queues: Vec<Queue>,
    /// Queues that name no parent are under an implicit root.
    pub implicit_root_queue: bool,
    /// Jobs with their tasks, as listed.
    pub jobs: Vec<Job>,
    /// Names of device classes.
    pub device_classes: Vec<DeviceClass>,
    /// Devices offered through dynamic resource allocation.
    pub resource_slices: Vec<ResourceSlice>,
    /// Claims of such devices.
    pub resource_claims: Vec<ResourceClaim>,
    /// Volumes and what belongs to them.
    pub storage: Storage,
    /// Config maps that exist.
    pub config_maps: Vec<ObjectName>,
    /// Pods of other schedulers.
    pub foreign_pods: Vec<ForeignPod>,
    /// Disruption budgets that protect tasks.
    pub disruption_budgets: Vec<DisruptionBudget>,
}

/// Volumes and what belongs to them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Storage {
    /// Volume claims of tasks.
    pub claims: Vec<VolumeClaim>,
    /// Persistent volumes that exist.
    pub volumes: Vec<PersistentVolume>,
    /// Storage classes of claims and volumes.
    pub classes: Vec<StorageClass>,
    /// CSI drivers that provision volumes.
    pub drivers: Vec<CsiDriver>,
    /// Free storage per class and set of nodes.
    pub capacities: Vec<CsiCapacity>,
}

/// A node with every default spelled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Labels, those about GPUs and the node's own name included.
    pub labels: StringMap,
    /// Annotations, such as overrides of GPU count and memory.
    pub annotations: StringMap,
    /// UUIDs of devices that were observed on it.
    pub gpu_uuids_seen: Vec<String>,
    /// Amounts that pods may use.
    pub allocatable: Allocatable,
    /// Memory of each device as advertised, not rounded.
    pub gpu_memory_mib: i64,
    /// Whether that memory is known to the scheduler.
    pub gpu_memory_known: bool,
    /// How its devices are split.
    pub mig_strategy: Option<MigStrategy>,
    /// NUMA zones and alignment; none: not reported.
    pub numa: Option<Numa>,
    /// Taints that tasks must tolerate.
    pub taints: Vec<Taint>,
    /// The node is cordoned: no task is placed on it.
    pub unschedulable: bool,
    /// Conditions by type; none: ready, no pressure.
    pub conditions: BTreeMap<String, ConditionStatus>,
    /// What a whole-GPU request takes here.
    pub whole_gpu_policy: WholeGpuPolicy,
}

/// A queue with every default spelled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Name that jobs and child queues refer to.
    pub name: String,
    /// The queue above it.
    pub parent: Option<String>,
    /// Higher is served first.
    pub priority: i64,
    /// When it was created.
    pub created_at_s: f64,
    /// Its part of the GPUs, in devices.
    pub gpu: Share,
    /// Its part of the processors.
    pub cpu_milli: Share,
    /// Its part of the memory.
    pub memory_bytes: Share,
    /// How long its jobs run before they may be preempted.
    pub preempt_min_runtime_s: Option<f64>,
    /// How long its jobs run before their resources may be reclaimed.
    pub reclaim_min_runtime_s: Option<f64>,
    /// What it used in the past, as a part of the cluster's capacity.
    pub usage: Usage,
}

/// A queue's part of one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// What it is owed.
    pub quota: Amount,
    /// What it may have at most.
    pub limit: Amount,
    /// How much of its unused quota other queues may use.
    pub lending_limit: Amount,
    /// Its weight when the rest is divided.
    pub over_quota_weight: f64,
}

/// A pod group with every default spelled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name, unique in the scenario.
    pub name: String,
    /// Its namespace, and that of its tasks.
    pub namespace: String,
    /// Name of its queue.
    pub queue: String,
    /// Jobs of higher priority come first.
    pub priority: i64,
    /// Whether its tasks may become victims.
    pub preemptibility: Preemptibility,
    /// When it was created.
    pub created_at_s: f64,
    /// When it last started.
    pub started_at_s: Option<f64>,
    /// How long ago a start lies when time does not pass between cycles.
    pub start_age_s: f64,
    /// When one of its tasks was last evicted.
    pub evicted_at_s: Option<f64>,
    /// Since when it has been below its minimum.
    pub stale_since_s: Option<f64>,
    /// Since when disruption budgets delay its reclaim.
    pub reclaim_delayed_since_s: Option<f64>,
    /// How long it may be below its minimum; negative: for ever; none: as the parameters say.
    pub staleness_grace_s: Option<f64>,
    /// It may not cause evictions before this age.
    pub preemption_delay_s: Option<f64>,
    /// Whether other tasks may be evicted for it.
    pub preemption_policy: PreemptionPolicy,
    /// What becomes of an evicted task.
    pub on_evict: OnEvict,
    /// Tree of its sub-groups; the root has no name.
    pub sub_groups: SubGroup,
    /// Tasks, in the order of the document.
    pub tasks: Vec<Task>,
}

/// A pod of a job with every default spelled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, unique in the scenario.
    pub name: String,
    /// Status at this moment.
    pub status: Status,
    /// Where it is; means something only while it occupies a node.
    pub node: Option<String>,
    /// Name of its pod set.
    pub sub_group: String,
    /// What it asks for.
    pub request: Request,
    /// Ids of the shared devices it sits on.
    pub gpu_groups: Vec<String>,
    /// NUMA zones it was given in an earlier cycle.
    pub numa_zones: Vec<usize>,
    /// Labels of the pod.
    pub labels: StringMap,
    /// Annotations of the pod.
    pub annotations: StringMap,
    /// Labels its node must have.
    pub node_selector: StringMap,
    /// Demands on its node: alternatives, all demands of one must hold; empty: none.
    pub node_affinity: Vec<Vec<NodeExpression>>,
    /// Pods it must be near.
    pub pod_affinity: Vec<PodTerm>,
    /// Pods it must not be near.
    pub pod_anti_affinity: Vec<PodTerm>,
    /// Taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Ports it takes on its node.
    pub host_ports: Vec<HostPort>,
    /// What must be lifted before it may be placed.
    pub gates: Vec<String>,
    /// Volume claims by name.
    pub pvcs: Vec<String>,
    /// Config maps it cannot start without.
    pub config_maps: Vec<String>,
    /// It asked for MIG by annotation.
    pub legacy_mig: bool,
    /// How it shares the processors of its devices.
    pub compute_mode: ComputeMode,
    /// Its quality of service.
    pub qos: Qos,
    /// The node it was nominated to in an earlier cycle.
    pub nominated_node: Option<String>,
    /// A binding that was begun.
    pub bind_request: Option<BindRequest>,
    /// When it was evicted.
    pub evicted_at_s: Option<f64>,
}

impl ClusterState {
    /// The node called `name`.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The queue called `name`.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// The job called `name`.
    pub fn job(&self, name: &str) -> Option<&Job> {
        self.jobs.iter().find(|job| job.name == name)
    }

    /// The task called `name` and its job.
    pub fn task(&self, name: &str) -> Option<(&Job, &Task)> {
        self.tasks().find(|(_, task)| task.name == name)
    }

    /// All tasks, each with its job.
    pub fn tasks(&self) -> impl Iterator<Item = (&Job, &Task)> {
        self.jobs.iter().flat_map(|job| job.tasks.iter().map(move |task| (job, task)))
    }
}

impl Job {
    /// At least one of its tasks has its place for good.
    pub fn has_allocated_task(&self) -> bool {
        self.tasks.iter().any(|task| task.status.is_allocated())
    }
}

impl Task {
    /// It sits on shared devices of a node.
    pub fn shares_devices(&self) -> bool {
        self.request.gpu.as_ref().is_some_and(crate::format::GpuRequest::is_shared)
    }
}
