//! A pod as an input of the planner.

use std::sync::{Arc, LazyLock};

use crate::input::node::{Taint, TaintEffect};
use crate::input::selectors::{LabelSelector, Labels, NodeTerm};
use crate::input::{ObjectName, Text};
use crate::status::Status;
use crate::time::Timestamp;

/// A pod, with what the planner reads of it.
#[derive(Clone, PartialEq, Debug)]
pub struct PodSpec {
    /// Namespace and name of the pod.
    pub name: ObjectName,
    /// UID; ties between pods are broken by it.
    pub uid: Text,
    /// When it was created.
    pub created: Timestamp,
    /// The pod group it belongs to, in its own namespace.
    pub group: Option<Text>,
    /// Its leaf in the group's tree; none: `default`.
    pub sub_group: Option<Text>,
    /// What it is to the scheduler.
    pub role: PodRole,
    /// Status read off the pod alone. A `Pending` pod with a live bind request is taken as `Binding`.
    pub status: Status,
    /// The node it names.
    pub node: Option<Text>,
    /// When a `Releasing` pod starts to count as stuck.
    pub stuck_at: Option<Timestamp>,
    /// Labels of the pod: affinity, disruption budgets and task order read them. Pods of one workload share them.
    pub labels: Arc<Labels>,
    /// What it asks for.
    pub request: PodRequest,
    /// Ids of the shared devices it sits on.
    pub gpu_groups: Vec<Text>,
    /// Where it may run. Pods of one workload share it.
    pub constraints: Arc<PodConstraints>,
    /// Resource claims it uses.
    pub claims: Vec<Text>,
    /// Node it was nominated to in an earlier cycle.
    pub nominated_node: Option<Text>,
    /// What earlier attempts on it showed.
    pub backoff: Backoff,
    /// What NUMA alignment looks at.
    pub numa: NumaDemand,
}

/// Labels and constraints of pods that have none, shared by all of them.
static NONE: LazyLock<(Arc<Labels>, Arc<PodConstraints>)> = LazyLock::new(Default::default);

impl PodSpec {
    /// A pending pod in no group, without constraints. Its UID is its name.
    pub fn pending(name: ObjectName, request: PodRequest) -> Self {
        let (labels, constraints) = NONE.clone();
        Self {
            uid: name.name.clone(),
            name,
            created: Timestamp::default(),
            group: None,
            sub_group: None,
            role: PodRole::Workload,
            status: Status::Pending,
            node: None,
            stuck_at: None,
            labels,
            request,
            gpu_groups: Vec::new(),
            constraints,
            claims: Vec::new(),
            nominated_node: None,
            backoff: Backoff::default(),
            numa: NumaDemand::default(),
        }
    }
}

/// Until when a pod is left as it is, because an attempt on it failed. The controller that carries plans out sets a moment and
/// clears it when it has come: while it is set it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backoff {
    /// When it may be bound again; none: now.
    pub retry_after: Option<RetryAfter>,
    /// When it may be evicted again; none: now.
    pub protected_until: Option<Timestamp>,
}

/// When a pod may be bound again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryAfter {
    /// From this moment on.
    Moment(Timestamp),
    /// When the failed bind request is removed, whose name the next one has.
    Cleanup,
}

/// What a pod is to the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PodRole {
    /// A pod of ours to be scheduled.
    #[default]
    Workload,
    /// A pod of another scheduler: it consumes, we never move it.
    Foreign,
    /// Holds a device for a group of sharing pods.
    Reservation,
    /// Makes a node autoscaler act.
    Scaling,
}

/// Amounts a pod asks for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PodRequest {
    /// Processor time, in millicores.
    pub cpu_milli: i64,
    /// Amount of memory, in bytes.
    pub memory_bytes: i64,
    /// Everything else by resource name, in the units of the node's allocatable.
    pub other: Vec<(Text, i64)>,
    /// GPUs through the device plugin or as fractions; claims are counted apart.
    pub gpu: GpuRequest,
    /// What of the above is pod overhead, for the text of a refusal.
    pub overhead: Vec<(Text, i64)>,
    /// Asked for MIG by annotation: never placed, blocks MIG on its node.
    pub legacy_mig: bool,
    /// How it shares the processors of its devices.
    pub compute_mode: ComputeMode,
}

/// How the pods on a shared device use its processors. Pods of different modes are never on one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ComputeMode {
    /// One after the other.
    #[default]
    TimeSlicing,
    /// At the same time, through NVIDIA's multi-process service.
    SmSharing,
}

/// What a pod asks of GPUs.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum GpuRequest {
    /// No GPU through the device plugin.
    #[default]
    None,
    /// Whole devices of one node.
    Whole {
        /// Number of devices, all of one node.
        count: i64,
    },
    /// A part of each of several devices.
    Fraction {
        /// Fraction of each device, in (0, 1].
        portion: f64,
        /// Number of distinct devices, each of which must fit the portion.
        devices: i64,
    },
    /// Memory of each of several devices.
    Memory {
        /// MiB of one device.
        mib: i64,
        /// Number of distinct devices, each of which must fit the memory.
        devices: i64,
    },
    /// MIG instances by resource name.
    Mig(Vec<(Text, i64)>),
}

/// Where a pod may run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PodConstraints {
    /// Labels the node must have.
    pub node_selector: Vec<(Text, Text)>,
    /// Required node affinity: one term must match; none given: no requirement.
    pub node_terms: Vec<NodeTerm>,
    /// Nodes on which its binds failed and are not tried now.
    pub avoided_nodes: Vec<Text>,
    /// Tolerations of node taints.
    pub tolerations: Vec<Toleration>,
    /// Host ports it needs.
    pub host_ports: Vec<HostPort>,
    /// Required affinity to other pods.
    pub pod_affinity: Vec<PodTerm>,
    /// Required anti-affinity to other pods.
    pub pod_anti_affinity: Vec<PodTerm>,
    /// Preferred (anti-)affinity with its weight, negative for anti-affinity; read by the plugin `podaffinity`.
    pub preferred_pod_terms: Vec<(i64, PodTerm)>,
    /// Volume claims it mounts.
    pub volume_claims: Vec<Text>,
    /// Config maps that must exist.
    pub config_maps: Vec<Text>,
    /// Class of its priority; part of the signature of its constraints.
    pub priority_class: Option<Text>,
}

/// A toleration of taints with this key, value and effect.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Toleration {
    /// Key; none tolerates every key (with `Exists`).
    pub key: Option<Text>,
    /// Value; none: the key's existence is enough.
    pub value: Option<Text>,
    /// Effect; none: all of them.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

/// Whether every taint that keeps newcomers away is tolerated.
pub fn tolerate_all(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    taints
        .iter()
        .filter(|taint| taint.effect != TaintEffect::PreferNoSchedule)
        .all(|taint| tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// A port on the host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostPort {
    /// Port number on the node.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// Address it binds to; `0.0.0.0` is all.
    pub ip: Text,
}

/// A term of pod (anti-)affinity.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PodTerm {
    /// Node label that names the domains.
    pub topology_key: Text,
    /// Pods the term speaks of.
    pub selector: LabelSelector,
    /// Namespaces it looks in.
    pub namespaces: TermNamespaces,
}

/// Namespaces that a term of pod (anti-)affinity looks in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum TermNamespaces {
    /// That of the pod whose term it is.
    #[default]
    Own,
    /// All namespaces of the cluster.
    All,
    /// Those that are named, and those whose labels are selected.
    Chosen {
        /// Names of the namespaces.
        named: Vec<Text>,
        /// Labels of further ones; none: no further ones.
        selector: Option<LabelSelector>,
    },
}

/// What NUMA alignment looks at.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct NumaDemand {
    /// Guaranteed quality of service.
    pub guaranteed: bool,
    /// Containers with their requests; empty: one container that asks for all.
    pub containers: Vec<ContainerDemand>,
    /// Placement that was observed or predicted, in the notation of KAI's annotation.
    pub recorded_zones: Option<Text>,
}

/// Request of one container.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ContainerDemand {
    /// Whether it runs beside, before or around the other containers.
    pub kind: ContainerKind,
    /// Amounts by resource name in the units of a NUMA zone.
    pub amounts: Vec<(Text, i64)>,
}

/// How a container runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ContainerKind {
    /// Beside the others for the pod's whole life.
    App,
    /// An init container that keeps running.
    Sidecar,
    /// An init container that ends before the others start.
    Init,
}
