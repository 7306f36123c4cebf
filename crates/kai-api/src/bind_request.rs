//! `scheduling.run.ai/v1alpha2 BindRequest`: a bind that takes several steps, from scheduler to binder.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{AllocationResult, DeviceRequest};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::quantity::RawQuantity;

/// What to bind where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.run.ai",
    version = "v1alpha2",
    kind = "BindRequest",
    plural = "bindrequests",
    namespaced,
    status = "BindRequestStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A bind that takes several steps."
)]
#[serde(rename_all = "camelCase")]
pub struct BindRequestSpec {
    /// The pod, in the namespace of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_node: Option<String>,
    /// `Regular`, `Fraction` or `MigInstance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_resource_type: Option<String>,
    /// Devices, and the share of each.
    #[serde(rename = "receivedGPU", default, skip_serializing_if = "Option::is_none")]
    pub received_gpu: Option<ReceivedGpu>,
    /// The device groups of a sharing pod.
    #[serde(rename = "selectedGPUGroups", default, skip_serializing_if = "Vec::is_empty")]
    pub selected_gpu_groups: Vec<String>,
    /// Allocations for the pod's claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_allocations: Vec<ResourceClaimAllocation>,
    /// Allocation for extended resources that devices serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_resource_claim_allocation: Option<ExtendedResourceClaimAllocation>,
    /// NUMA zones the pod is expected to use.
    #[serde(rename = "predictedNUMAZones", default, skip_serializing_if = "Vec::is_empty")]
    pub predicted_numa_zones: Vec<NumaZone>,
    /// How many attempts may fail; none means one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// Devices, and the share of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedGpu {
    /// Number of devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// Share of each, as a decimal string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portion: Option<String>,
}

/// Allocation for one claim of the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceClaimAllocation {
    /// Name of the claim in the pod's spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What was allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
}

/// Allocation for extended resources that devices serve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedResourceClaimAllocation {
    /// What was allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
    /// The requests of the claim to make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_requests: Vec<DeviceRequest>,
    /// Which container gets which request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_mappings: Vec<ContainerMapping>,
}

/// Which container gets which request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerMapping {
    /// The container.
    pub container_name: String,
    /// The extended resource.
    pub resource_name: String,
    /// The request of the claim.
    pub request_name: String,
}

/// What a pod is expected to use of one NUMA zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaZone {
    /// Name of the zone, `node-0`.
    pub zone: String,
    /// Amount per resource.
    pub amount: BTreeMap<String, RawQuantity>,
}

/// How far the binder came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindRequestStatus {
    /// `Pending` (also when left out), `Succeeded` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_attempts: Option<i32>,
}

impl BindRequestStatus {
    /// The bind has not been tried to its end.
    pub const PENDING: &str = "Pending";
    /// The pod is bound.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The last attempt failed.
    pub const FAILED: &str = "Failed";
}
