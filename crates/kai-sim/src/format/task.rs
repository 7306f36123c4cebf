//! Tasks (pods) as a document writes them, and the pods of others.

use serde::Deserialize;

use super::StringMap;
use super::number::{AmountMap, whole, whole_map};
use super::status::Status;

/// A pod of a job, as a document writes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Task {
    /// Unique in the scenario; absent: the job's name and the position.
    pub name: Option<String>,
    /// Absent: Pending, or what gates and bind request make of it.
    pub status: Option<Status>,
    /// Name of its node; absent: it has none.
    pub node: Option<String>,
    /// Its pod set; absent: `default`.
    pub sub_group: Option<String>,
    /// What it asks for.
    pub request: Request,
    /// Ids of the shared devices it sits on.
    pub gpu_groups: Vec<String>,
    /// Labels of the pod.
    pub labels: StringMap,
    /// Annotations of the pod.
    pub annotations: StringMap,
    /// Extension: labels its node must have.
    pub node_selector: StringMap,
    /// Demands on its node; all must hold.
    pub node_affinity: Vec<NodeExpression>,
    /// Extension: alternatives; all demands of at least one must hold.
    pub node_affinity_any: Vec<Vec<NodeExpression>>,
    /// Pods it must be near.
    pub pod_affinity: Vec<PodTerm>,
    /// Pods it must not be near.
    pub pod_anti_affinity: Vec<PodTerm>,
    /// Extension: taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Extension: ports it takes on its node.
    pub host_ports: Vec<HostPort>,
    /// Extension: what must be lifted before it may be placed.
    pub gates: Vec<String>,
    /// Volume claims by name.
    pub pvcs: Vec<String>,
    /// Extension: config maps it cannot start without.
    pub config_maps: Vec<String>,
    /// It asked for MIG by annotation.
    pub legacy_mig: bool,
    /// Extension: how it shares the processors of its devices.
    pub compute_mode: ComputeMode,
    /// Its quality of service.
    pub qos: Qos,
    /// Extension: the node it was nominated to in an earlier cycle.
    pub nominated_node: Option<String>,
    /// Extension: a binding that was begun.
    pub bind_request: Option<BindRequest>,
}

/// What a pod asks for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Processor time, in millicores.
    #[serde(deserialize_with = "whole")]
    pub cpu_milli: i64,
    /// Amount of memory, in bytes.
    #[serde(deserialize_with = "whole")]
    pub memory_bytes: i64,
    /// Devices, in one of several forms.
    pub gpu: Option<GpuRequest>,
    /// Extension: further resources by name.
    #[serde(deserialize_with = "whole_map")]
    pub extended: AmountMap,
}

impl Default for Request {
    fn default() -> Self {
        Self { cpu_milli: 1000, memory_bytes: 1_000_000_000, gpu: None, extended: AmountMap::new() }
    }
}

/// A request of devices, in exactly one form.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "GpuRequestKeys")]
pub enum GpuRequest {
    /// Number of whole devices.
    Count(i64),
    /// A part of each of some devices.
    Fraction {
        /// The part of each.
        fraction: f64,
        /// Number of distinct devices; at least 1.
        devices: i64,
    },
    /// An amount of memory of each of some devices.
    Memory {
        /// The memory of each.
        mib: i64,
        /// Number of distinct devices; at least 1.
        devices: i64,
    },
    /// MIG slices by resource name.
    Mig(AmountMap),
    /// Claims by name, in the job's namespace.
    Claims(Vec<String>),
}

impl GpuRequest {
    /// The task shares devices with others.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Fraction { .. } | Self::Memory { .. })
    }

    /// Devices asked for; memory, MIG and claims count nothing.
    pub fn devices_requested(&self) -> f64 {
        match *self {
            Self::Count(count) => count as f64,
            Self::Fraction { fraction, devices } => hundredths(fraction) * devices as f64 / 100.0,
            Self::Memory { .. } | Self::Mig(_) | Self::Claims(_) => 0.0,
        }
    }
}

/// Fractions are compared at a resolution of 0.01.
fn hundredths(fraction: f64) -> f64 {
    (fraction * 100.0).round()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuRequestKeys {
    count: Option<i64>,
    fraction: Option<f64>,
    memory_mib: Option<i64>,
    devices: Option<i64>,
    mig: Option<AmountMap>,
    claims: Option<Vec<String>>,
}

impl TryFrom<GpuRequestKeys> for GpuRequest {
    type Error = String;

    fn try_from(keys: GpuRequestKeys) -> Result<Self, String> {
        let devices = keys.devices.unwrap_or(1);
        if devices < 1 {
            return Err(format!("devices is {devices}, expected at least 1"));
        }
        let forms = [
            keys.count.map(Self::Count),
            keys.fraction.map(|fraction| Self::Fraction { fraction, devices }),
            keys.memory_mib.map(|mib| Self::Memory { mib, devices }),
            keys.mig.map(Self::Mig),
            keys.claims.map(Self::Claims),
        ];
        let mut given = forms.into_iter().flatten();
        let (Some(form), None) = (given.next(), given.next()) else {
            return Err(
                "expected exactly one of count, fraction, memory_mib, mig and claims".into()
            );
        };
        if keys.devices.is_some() && !form.is_shared() {
            return Err("devices goes with fraction or memory_mib only".into());
        }
        match form {
            Self::Count(count) if count < 1 => {
                Err(format!("count is {count}, expected at least 1"))
            }
            Self::Memory { mib, .. } if mib < 1 => {
                Err(format!("memory_mib is {mib}, expected at least 1"))
            }
            Self::Fraction { fraction, .. } if !(fraction > 0.0 && fraction <= 1.0) => {
                Err(format!("fraction is {fraction}, expected more than 0 and at most 1"))
            }
            form => Ok(form),
        }
    }
}

/// One demand on a node's labels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeExpression {
    /// Key of the node label.
    pub key: String,
    /// How it is compared.
    pub op: NodeOperator,
    /// Values it is compared with; one for `Gt` and `Lt`, none for `Exists` and `DoesNotExist`.
    #[serde(default)]
    pub values: Vec<String>,
}

/// How a node's label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum NodeOperator {
    /// Its value is one of these.
    In,
    /// Its value is none of these, or it is absent.
    NotIn,
    /// The label is present, whatever its value.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// Its value is a greater integer.
    Gt,
    /// Its value is a smaller integer.
    Lt,
}

/// Pods a task must or must not be near.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodTerm {
    /// Nodes with the same value of this label are near.
    pub topology_key: String,
    /// The labels of those pods.
    pub match_labels: StringMap,
    /// Extension: the namespaces of those pods; empty: the task's own.
    #[serde(default)]
    pub namespaces: Vec<String>,
}

/// A taint that a task tolerates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// The taint's key; absent: any, with the operator `Exists`.
    #[serde(default)]
    pub key: String,
    /// How the value is compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint; read with the operator `Equal` only.
    #[serde(default)]
    pub value: String,
    /// The taint's effect; absent: any.
    pub effect: Option<super::node::TaintEffect>,
}

/// How a toleration compares the taint's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum TolerationOperator {
    /// The values are equal.
    #[default]
    Equal,
    /// It does not matter.
    Exists,
}

/// A port a pod takes on its node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPort {
    /// Port number on the node.
    pub port: u16,
    /// Protocol; ports of different protocols do not collide.
    #[serde(default)]
    pub protocol: Protocol,
    /// The address; absent: all of the node's.
    #[serde(default = "any_address")]
    pub ip: String,
}

fn any_address() -> String {
    "0.0.0.0".to_owned()
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Ports of the Transmission Control Protocol; the default.
    #[default]
    Tcp,
    /// Ports of the User Datagram Protocol.
    Udp,
    /// Ports of the Stream Control Transmission Protocol.
    Sctp,
}

/// How the pods on a shared device use its processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    /// One after the other.
    #[default]
    TimeSlicing,
    /// At the same time.
    SmSharing,
}

/// Quality of service of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum Qos {
    /// Requests equal limits of every container; NUMA alignment depends on it.
    Guaranteed,
    /// Something is requested, and requests do not equal limits.
    #[default]
    Burstable,
    /// Nothing is requested by the pod.
    BestEffort,
}

/// A binding that was begun in an earlier cycle.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindRequest {
    /// Name of the node that was chosen.
    pub node: String,
    /// How far it came.
    #[serde(default)]
    pub phase: BindPhase,
    /// How often it failed.
    #[serde(default)]
    pub failed_attempts: u32,
    /// How often it may fail; absent: never.
    pub backoff_limit: Option<u32>,
    /// The chosen shared devices.
    #[serde(default)]
    pub gpu_groups: Vec<String>,
}

impl BindRequest {
    /// The binding failed for good, so that the task waits again.
    pub fn has_failed(&self) -> bool {
        self.phase == BindPhase::Failed
            && self.backoff_limit.is_none_or(|limit| self.failed_attempts >= limit)
    }
}

/// How far a binding came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BindPhase {
    /// Not finished; the task counts as Binding.
    #[default]
    Pending,
    /// Finished; the pod is bound.
    Succeeded,
    /// Failed at least once.
    Failed,
}

/// The name of an object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectName {
    /// Namespace; absent: the empty one, which jobs have by default.
    #[serde(default)]
    pub namespace: String,
    /// Name in the namespace.
    pub name: String,
}

/// A pod of another scheduler: it holds capacity and belongs to no job.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignPod {
    /// Name, unique in its namespace.
    pub name: String,
    /// Namespace of the pod; affinity terms select by it.
    #[serde(default)]
    pub namespace: String,
    /// Name of the node whose capacity it holds.
    pub node: String,
    /// What it takes; devices in whole numbers or MIG slices.
    #[serde(default)]
    pub request: Request,
    /// Labels that affinity terms select by.
    #[serde(default)]
    pub labels: StringMap,
    /// Ports it takes on its node.
    #[serde(default)]
    pub host_ports: Vec<HostPort>,
    /// Pods it must not be near.
    #[serde(default)]
    pub pod_anti_affinity: Vec<PodTerm>,
}

/// How many of some pods may be disrupted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisruptionBudget {
    /// Name, unique in its namespace.
    pub name: String,
    /// Its namespace; it covers pods of the same.
    #[serde(default)]
    pub namespace: String,
    /// Labels of the pods it covers.
    pub match_labels: StringMap,
    /// Number of evictions that the budget allows.
    pub allowed: u32,
}
