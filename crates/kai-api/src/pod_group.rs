//! `scheduling.run.ai/v2alpha2 PodGroup`: pods that are placed together.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::duration::DurationText;
use crate::quantity::RawQuantity;

/// What a pod group asks for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.run.ai",
    version = "v2alpha2",
    kind = "PodGroup",
    plural = "podgroups",
    shortname = "pg",
    namespaced,
    status = "PodGroupStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Pods that are placed together."
)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// Gang size of a flat group; 1 where left out, ignored where there are sub-groups. Excludes `minSubGroup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// How many of the uppermost sub-groups are needed; all where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_sub_group: Option<i32>,
    /// The queue that pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Name of a `PriorityClass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// `preemptible`, `non-preemptible`, `semi-preemptible` (pods beyond the minimum can be evicted), or by priority where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<String>,
    /// Where in the cluster the pods must or should be together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Parts of the group with minimums and places of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_groups: Vec<SubGroup>,
    /// `false`: do not write the pods' condition while they cannot be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_unschedulable: Option<bool>,
    /// 1: give a node pool up after one failed cycle; -1: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_backoff: Option<i32>,
    /// How long the group waits before it may evict others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_delay: Option<DurationText>,
    /// How long the group may run below its minimum; negative means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_grace_period: Option<DurationText>,
}

/// Where pods must or should be together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// Name of a `Topology`; without it the constraint rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// Level (node label or alias) within which all pods must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_topology_level: Option<String>,
    /// Level within which the pods should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_topology_level: Option<String>,
}

/// A part of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubGroup {
    /// Unique within the group; pods name it in a label.
    pub name: String,
    /// The sub-group above; none for the uppermost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Gang size of a leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// How many of the sub-groups below are needed; all where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_sub_group: Option<i32>,
    /// Where the pods of this part must or should be together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// Status of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Conditions of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodGroupCondition>,
    /// Why the group does not run, one entry per node pool, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduling_conditions: Vec<SchedulingCondition>,
    /// What the group has and wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_status: Option<PodGroupResources>,
}

/// A condition of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// Name of the condition.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Number of the change, as a decimal string.
    #[serde(rename = "transitionID", default, skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Reason in one word, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a pod group cannot be placed on a node pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingCondition {
    /// `UnschedulableOnNodePool`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// Deprecated twin of the first of `reasons`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Deprecated twin of the messages of `reasons`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Each reason with its details.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<UnschedulableReason>,
    /// Number of the change, as a decimal string.
    #[serde(rename = "transitionID", default, skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// One reason why a pod group cannot be placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnschedulableReason {
    /// A code of [`crate::names::status::reason`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Numbers behind the sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<UnschedulableDetails>,
}

/// Numbers behind a reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnschedulableDetails {
    /// The queue without free capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_details: Option<QueueDetails>,
}

/// The numbers of a queue without free capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDetails {
    /// Name of the queue object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What all its workloads ask for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_requested_resources: BTreeMap<String, RawQuantity>,
    /// Quota of the queue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_deserved_resources: BTreeMap<String, RawQuantity>,
    /// What its workloads have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_allocated_resources: BTreeMap<String, RawQuantity>,
    /// What its non-preemptible workloads have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_allocated_non_preemptible_resources: BTreeMap<String, RawQuantity>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_resource_limits: BTreeMap<String, RawQuantity>,
    /// What the pod group asks for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_group_requested_resources: BTreeMap<String, RawQuantity>,
    /// The part of it that cannot be preempted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_group_requested_non_preemptible_resources: BTreeMap<String, RawQuantity>,
}

/// What a pod group has and wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupResources {
    /// Requests of its placed pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: BTreeMap<String, RawQuantity>,
    /// The same where the group cannot be preempted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated_non_preemptible: BTreeMap<String, RawQuantity>,
    /// Requests of its placed and waiting pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requested: BTreeMap<String, RawQuantity>,
}
