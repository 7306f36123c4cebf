//! A pod, as far as the planner and the rules of grouping look at it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Affinity;
use kai_api::names::scheduling;
use kai_api::view::{self, ObjectMeta, SchedulingGroup, WorkloadReference};
use serde::{Deserialize, Serialize};

use super::null_is_default;
use crate::amounts::ResourceList;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    /// What it asks for.
    pub spec: PodSpec,
    pub status: PodStatus,
    /// The object lacks labels of GPU groups that [`Self::metadata`] has from its placement.
    #[serde(skip)]
    pub lacks_group_labels: bool,
}

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Scheduler of the pod.
    pub scheduler_name: Option<String>,
    /// Where it was placed.
    pub node_name: Option<String>,
    /// Name of its `PriorityClass`.
    pub priority_class_name: Option<String>,
    /// The Kubernetes `Workload` it belongs to.
    pub workload_ref: Option<WorkloadReference>,
    /// The Kubernetes `PodGroup` it belongs to.
    pub scheduling_group: Option<SchedulingGroup>,
    #[serde(deserialize_with = "null_is_default")]
    pub containers: Vec<Container>,
    /// Containers that run first; those that always restart stay.
    #[serde(deserialize_with = "null_is_default")]
    pub init_containers: Vec<Container>,
    /// What its sandbox costs.
    #[serde(deserialize_with = "null_is_default")]
    pub overhead: ResourceList,
    /// Labels its node must have.
    #[serde(deserialize_with = "null_is_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Nodes and pods it wants or does not want to be near.
    pub affinity: Option<Box<Affinity>>,
    /// Taints that the pod tolerates.
    #[serde(deserialize_with = "null_is_default")]
    pub tolerations: Vec<Toleration>,
    /// What must be lifted before it may be placed.
    #[serde(deserialize_with = "null_is_default")]
    pub scheduling_gates: Vec<NamedSource>,
    #[serde(deserialize_with = "null_is_default")]
    pub volumes: Vec<Volume>,
    /// Claims of devices.
    #[serde(deserialize_with = "null_is_default")]
    pub resource_claims: Vec<PodResourceClaim>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    /// What it asks for.
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Resources,
    #[serde(deserialize_with = "null_is_default")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub env: Vec<EnvVar>,
    /// Sources of environment variables.
    #[serde(deserialize_with = "null_is_default")]
    pub env_from: Vec<EnvFrom>,
    #[serde(deserialize_with = "null_is_default")]
    pub volume_mounts: Vec<VolumeMount>,
}

/// Resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// What it asks for.
    #[serde(deserialize_with = "null_is_default")]
    pub requests: ResourceList,
    /// What it may have at most.
    #[serde(deserialize_with = "null_is_default")]
    pub limits: ResourceList,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Port on the host; none: no such port.
    pub host_port: Option<u16>,
    /// Address on the host.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<String>,
}

/// An environment variable; of values only references to config maps are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    pub name: String,
    /// Where its value comes from.
    pub value_from: Option<EnvSource>,
}

/// Where a value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvSource {
    /// A key of a config map.
    pub config_map_key_ref: Option<NamedSource>,
}

/// A source of environment variables; only config maps are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvFrom {
    pub config_map_ref: Option<NamedSource>,
}

/// Something with a name that may be optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NamedSource {
    pub name: String,
    /// The pod starts without it.
    pub optional: Option<bool>,
}

/// A mount of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeMount {
    /// Name of the volume.
    pub name: String,
}

/// A volume; only what placement depends on is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    /// A claim by name.
    pub persistent_volume_claim: Option<VolumeClaimSource>,
    /// A claim made for the pod.
    pub ephemeral: Option<EphemeralSource>,
    pub config_map: Option<NamedSource>,
    /// Several sources in one.
    pub projected: Option<Projected>,
}

/// A claim made for the pod; its content does not matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EphemeralSource {}

/// A volume claim by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaimSource {
    /// Name of the claim.
    pub claim_name: String,
}

/// Several sources in one volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Projected {
    #[serde(deserialize_with = "null_is_default")]
    pub sources: Vec<ProjectedSource>,
}

/// One of several sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectedSource {
    pub config_map: Option<NamedSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key; empty with `Exists`: every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Exists` or `Equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect; empty: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// How long it is tolerated; none: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// A claim of devices as the pod names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Name within the pod.
    pub name: String,
    /// An existing claim.
    pub resource_claim_name: Option<String>,
    /// A template from which the claim is made.
    pub resource_claim_template_name: Option<String>,
}

/// Status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Option<String>,
    /// The node it is nominated to.
    pub nominated_node_name: Option<String>,
    /// When the node took it.
    pub start_time: Option<String>,
    /// `Guaranteed`, `Burstable` or `BestEffort`.
    pub qos_class: Option<String>,
    /// Claims that were made from templates.
    #[serde(deserialize_with = "null_is_default")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    /// The claim that was made for extended resources of the pod.
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
    /// Why it is in its phase, in a word.
    pub reason: Option<String>,
    /// Why it is in its phase.
    pub message: Option<String>,
    /// Status of its containers.
    #[serde(deserialize_with = "null_is_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Status of its init containers; those that stay can be resized too.
    #[serde(deserialize_with = "null_is_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<PodCondition>,
}

/// Status of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Name of the container.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Resources that the node has set aside for it; differ from its requests while it is resized.
    #[serde(deserialize_with = "null_is_default")]
    pub allocated_resources: ResourceList,
    /// Resources that it runs with.
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Resources,
    /// Where it is in its life.
    #[serde(deserialize_with = "null_is_default")]
    pub state: ContainerState,
    /// How it ended the last time.
    #[serde(deserialize_with = "null_is_default")]
    pub last_state: ContainerState,
}

/// Where a container is in its life; only what keeps it from running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It does not run yet.
    pub waiting: Option<ContainerStateReason>,
    /// The container has ended.
    pub terminated: Option<ContainerStateReason>,
}

/// Why a container does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ContainerStateReason {
    /// In a word.
    pub reason: String,
    /// In full.
    pub message: String,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Name of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when it has this status.
    pub last_transition_time: Option<String>,
    /// Reason in one word, for programs.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// Sentence for people.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
}

/// The claim that was made for extended resources of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    /// Name of the claim.
    pub resource_claim_name: String,
}

/// A claim that was made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaimStatus {
    /// Name within the pod.
    pub name: String,
    /// Name of the claim; none where none is needed.
    pub resource_claim_name: Option<String>,
}

impl Pod {
    /// What the rules of grouping look at: neither the version nor the signed placement, which differ from pod to pod.
    pub fn for_grouping(&self) -> view::Pod {
        let mut metadata = self.metadata.clone();
        metadata.annotations.remove(scheduling::PLACEMENT);
        metadata.resource_version.clear();
        view::Pod {
            metadata,
            spec: view::PodSpec {
                scheduler_name: self.spec.scheduler_name.clone(),
                node_name: self.spec.node_name.clone(),
                priority_class_name: self.spec.priority_class_name.clone(),
                workload_ref: self.spec.workload_ref.clone(),
                scheduling_group: self.spec.scheduling_group.clone(),
            },
            status: view::PodStatus { phase: self.status.phase.clone() },
        }
    }

    /// The name of the claim object behind a claim of the pod; none while it is still to be made.
    pub fn claim_object(&self, claim: &str) -> Option<&str> {
        let named = self.spec.resource_claims.iter().find(|one| one.name == claim)?;
        named.resource_claim_name.as_deref().or_else(|| {
            let made = self.status.resource_claim_statuses.iter().find(|one| one.name == claim);
            made.and_then(|one| one.resource_claim_name.as_deref())
        })
    }

    /// The template of the claim was looked at and asks for nothing.
    pub fn needs_no_claim_object(&self, claim: &PodResourceClaim) -> bool {
        let made = self.status.resource_claim_statuses.iter().find(|one| one.name == claim.name);
        claim.resource_claim_name.is_none()
            && made.is_some_and(|one| one.resource_claim_name.is_none())
    }
}
