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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_node: Option<String>,
    /// `Regular`, `Fraction` or `MigInstance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_resource_type: Option<String>,
    /// Devices, and the share of each.
    #[serde(rename = "receivedGPU", default, skip_serializing_if = "Option::is_none")]
    pub received_gpu: Option<ReceivedGpu>,
    /// The device groups of a sharing pod, as schedulers before KAI 0.18 write them.
    #[serde(rename = "selectedGPUGroups", default, skip_serializing_if = "Vec::is_empty")]
    pub selected_gpu_groups: Vec<String>,
    /// The device groups of a sharing pod, and how their pods share the processors; as of KAI 0.18.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected_fractional_gpu_groups: Vec<FractionalGpuGroup>,
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

impl BindRequestSpec {
    /// Ids of the device groups, in whichever form they are written. The newer form has precedence.
    pub fn gpu_groups(&self) -> Vec<&str> {
        if self.selected_fractional_gpu_groups.is_empty() {
            return self.selected_gpu_groups.iter().map(String::as_str).collect();
        }
        self.selected_fractional_gpu_groups.iter().map(|group| group.id.as_str()).collect()
    }
}

/// A device group, and how its pods share the processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FractionalGpuGroup {
    /// Id of the group.
    #[serde(default)]
    pub id: String,
    /// `time-slicing` (also when left out) or `sm-sharing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_sharing_mode: Option<String>,
}

/// Devices, and the share of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedGpu {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
}

/// Allocation for extended resources that devices serve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedResourceClaimAllocation {
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
    pub container_name: String,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_are_read_in_both_forms() {
        let read = |spec| serde_json::from_value::<BindRequestSpec>(spec).expect("a spec");
        let older = read(json!({"selectedGPUGroups": ["a", "b"]}));
        assert_eq!(older.gpu_groups(), ["a", "b"]);
        let newer = json!([{"id": "c", "computeSharingMode": "sm-sharing"}, {"id": "d"}]);
        let newer = read(json!({"selectedFractionalGpuGroups": newer}));
        assert_eq!(newer.gpu_groups(), ["c", "d"]);
        let both =
            json!({"selectedGPUGroups": ["a"], "selectedFractionalGpuGroups": [{"id": "c"}]});
        assert_eq!(read(both).gpu_groups(), ["c"]);
    }
}
