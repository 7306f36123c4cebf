//! Bind requests.

use kai_api::bind_request::{BindRequest, BindRequestStatus};
use kai_core::input::{BindRequestSpec, ObjectName};
use kai_core::plugins::dynamicresources::EXTENDED_CLAIM;

use crate::devices;
use crate::problem::{Complaints, Translated};

/// A bind request. `claim_object` gives the name of the claim behind a claim of the pod.
pub fn translate(
    request: &BindRequest,
    claim_object: impl Fn(&str) -> Option<String>,
) -> Translated<BindRequestSpec> {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let mut complaints = Complaints::about(format!("BindRequest {namespace}/{name}"));
    let pod = request.spec.pod_name.as_deref().filter(|pod| !pod.is_empty());
    if pod.is_none() {
        complaints.add("spec.podName", "must name a pod");
    }
    let node = request.spec.selected_node.as_deref().filter(|node| !node.is_empty());
    if node.is_none() {
        complaints.add("spec.selectedNode", "must name a node");
    }
    let zones = &request.spec.predicted_numa_zones;
    let numa_zones = (!zones.is_empty()).then(|| serde_json::to_string(zones));
    let numa_zones =
        numa_zones.and_then(|text| complaints.check(|| "spec.predictedNUMAZones".to_owned(), text));
    let claims = request.spec.resource_claim_allocations.iter().filter_map(|one| {
        let name = one.name.as_deref().unwrap_or_default();
        let object = claim_object(name)?;
        Some((object.as_str().into(), devices::allocation(one.allocation.as_ref()?)))
    });
    let extended = request.spec.extended_resource_claim_allocation.as_ref();
    let extended = extended.and_then(|one| one.allocation.as_ref());
    let extended = extended.map(|one| (EXTENDED_CLAIM.into(), devices::allocation(one)));
    let spec = BindRequestSpec {
        pod: ObjectName::new(namespace, pod.unwrap_or_default()),
        node: node.unwrap_or_default().into(),
        gpu_groups: request.spec.gpu_groups().into_iter().map(Into::into).collect(),
        numa_zones: numa_zones.map(|text| text.as_str().into()),
        claim_allocations: claims.chain(extended).collect(),
        failed: has_failed(request),
    };
    complaints.only_if_sound(spec)
}

/// It failed for good.
fn has_failed(request: &BindRequest) -> bool {
    let status = request.status.as_ref();
    let attempts = status.and_then(|status| status.failed_attempts).unwrap_or_default();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase == Some(BindRequestStatus::FAILED)
        && request.spec.backoff_limit.is_none_or(|limit| attempts >= limit)
}
