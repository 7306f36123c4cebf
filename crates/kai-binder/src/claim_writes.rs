//! Writes about volumes and claims of a pod. Each names the version it was decided on: who changed something in between
//! is not overwritten.

use k8s_openapi::api::core::v1::{ObjectReference, PodExtendedResourceClaimStatus};
use k8s_openapi::api::resource::v1::{
    AllocationResult, ResourceClaim, ResourceClaimConsumerReference,
};
use kai_api::names::storage as names;
use kai_client::kinds::Kind;
use kai_client::path::Resource;
use kai_client::watch::Change;
use kai_client::write::{Create, Delete, Outcome, Patch, Target, Write, Writer};
use kai_core::input::{ObjectName, Text};
use serde::Serialize;
use serde_json::Value;

use super::claims::{FreeClaim, TakeClaim};
use super::volumes::{FreeVolume, ReserveVolume, SelectNode};
use super::writes::{Answer, Written, patch_pod};

async fn patch(writer: &Writer, target: &Target, patch: Patch) -> Outcome<Value> {
    writer.write_as(&Write::Patch(target.clone(), patch)).await
}

/// A claim as the server has it now, in whatever version.
fn claim_answer(claim: Value) -> Answer {
    answer(Kind::ResourceClaim, claim)
}

fn answer(kind: Kind, object: Value) -> Answer {
    Answer::Object(Box::new(Change::decode(kind, object)))
}

/// Devices of a claim and pods that it is reserved for.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum ClaimStatus<'a> {
    /// The claim gets devices and a pod.
    Taken { reserved_for: &'a [ResourceClaimConsumerReference], allocation: &'a AllocationResult },
    /// A pod is added to, or taken from, those that the claim is reserved for.
    Reserved { reserved_for: &'a [ResourceClaimConsumerReference] },
    /// The claim loses both: null removes a field.
    Free { reserved_for: (), allocation: () },
}

/// Status of a pod for which a claim was made; none: its name is removed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NamedClaim<'a> {
    extended_resource_claim_status: Option<&'a PodExtendedResourceClaimStatus>,
}

/// Makes the claim for extended resources of a pod.
pub(super) async fn make_claim(writer: &Writer, claim: &ResourceClaim) -> Written {
    let made = writer.write_as(&Write::Create(Create::new(claim))).await?;
    Ok(claim_answer(made))
}

/// Names that claim in the status of the pod, or no longer.
pub(super) async fn name_claim(
    writer: &Writer,
    pod: &ObjectName,
    uid: &Text,
    named: Option<&PodExtendedResourceClaimStatus>,
) -> Written {
    let patch = Patch::status(&NamedClaim { extended_resource_claim_status: named });
    patch_pod(writer, Target::of_uid(Resource::PODS, pod, uid), patch).await
}

/// Devices and reservation are one write; the finalizer, which says that the devices are to be freed, goes before.
pub(super) async fn take_claim(writer: &Writer, take: TakeClaim) -> Written {
    let TakeClaim { claim, uid, version, finalizers, allocation, reserved_for } = take;
    let mut target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version);
    if let Some(finalizers) = finalizers {
        let answer = patch(writer, &target, Patch::finalizers(finalizers)).await?;
        target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version_of(&answer));
    }
    let reserved_for = &*reserved_for;
    let status = match &allocation {
        Some(allocation) => ClaimStatus::Taken { reserved_for, allocation },
        None => ClaimStatus::Reserved { reserved_for },
    };
    let answer = patch(writer, &target, Patch::status(&status)).await?;
    Ok(claim_answer(answer))
}

/// Gives a claim back. With its last pod it loses its devices, and then the finalizer.
pub(super) async fn free_claim(writer: &Writer, free: FreeClaim) -> Written {
    let FreeClaim { claim, uid, version, finalizers, reserved_for, remove } = free;
    let mut target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version);
    let is_unused = reserved_for.is_empty();
    if !remove {
        let status = if is_unused {
            ClaimStatus::Free { reserved_for: (), allocation: () }
        } else {
            ClaimStatus::Reserved { reserved_for: &reserved_for }
        };
        let answer = patch(writer, &target, Patch::status(&status)).await?;
        target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version_of(&answer));
    }
    if remove || is_unused {
        patch(writer, &target, Patch::finalizers(finalizers)).await?;
    }
    if remove {
        let target = Target::of_uid(Resource::RESOURCE_CLAIMS, &claim, &uid);
        writer.write(&Write::Delete(target, Delete::default())).await?;
    }
    Ok(Answer::Nothing)
}

/// Reserves a volume for a claim; a controller of Kubernetes does the rest.
pub(super) async fn reserve_volume(writer: &Writer, reserve: ReserveVolume) -> Written {
    let ReserveVolume { volume, uid, version, claim, claim_uid } = reserve;
    let reference = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(claim.namespace.to_string()),
        name: Some(claim.name.to_string()),
        uid: Some(claim_uid.to_string()),
        ..ObjectReference::default()
    };
    let annotations = [(names::BOUND_BY_CONTROLLER.into(), Some("yes".to_owned()))];
    let patch = Patch::volume_claim(Some(reference), annotations.into());
    patch_volume(writer, &volume, &uid, &version, patch).await
}

/// Has a volume made for a claim, for a pod of this node; or no longer.
pub(super) async fn select_node(writer: &Writer, select: SelectNode) -> Written {
    let SelectNode { claim, uid, version, node } = select;
    let target = Target::unchanged(Resource::PERSISTENT_VOLUME_CLAIMS, &claim, &uid, &version);
    let node = node.map(|node| node.to_string());
    let claim = patch(writer, &target, Patch::annotations([(names::SELECTED_NODE, node)])).await?;
    Ok(answer(Kind::PersistentVolumeClaim, claim))
}

/// Takes back what was done for a claim that has no volume yet.
pub(super) async fn free_volume(writer: &Writer, free: FreeVolume) -> Written {
    match free {
        FreeVolume::Unselect(select) => select_node(writer, select).await,
        FreeVolume::Release { volume, uid, version } => {
            let annotations = [(names::BOUND_BY_CONTROLLER.into(), None)];
            let patch = Patch::volume_claim(None, annotations.into());
            patch_volume(writer, &volume, &uid, &version, patch).await
        }
    }
}

async fn patch_volume(
    writer: &Writer,
    volume: &Text,
    uid: &str,
    version: &str,
    change: Patch,
) -> Written {
    let name = ObjectName::new("", &**volume);
    let target = Target::unchanged(Resource::PERSISTENT_VOLUMES, &name, uid, version);
    let volume = patch(writer, &target, change).await?;
    Ok(answer(Kind::PersistentVolume, volume))
}

fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
