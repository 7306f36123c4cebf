//! Writes about volumes and claims of a pod. Each names the version it was decided on: who changed something in between
//! is not overwritten.

use kai_api::names::storage as names;
use kai_client::kinds::Kind;
use kai_client::path::Resource;
use kai_client::watch::Change;
use kai_client::write::{Create, Delete, Outcome, Patch, Target, Write, Writer};
use kai_core::input::{ObjectName, Text};
use serde_json::{Value, json};

use super::claims::{FreeClaim, TakeClaim};
use super::volumes::{FreeVolume, ReserveVolume, SelectNode};
use super::writes::{Answer, Written, patch_pod};

async fn patch(writer: &Writer, target: &Target, patch: Patch) -> Outcome {
    writer.write(&Write::Patch(target.clone(), patch)).await
}

/// A claim as the server has it now, in whatever version.
fn claim_answer(claim: Value) -> Answer {
    answer(Kind::ResourceClaim, claim)
}

fn answer(kind: Kind, object: Value) -> Answer {
    Answer::Object(Box::new(Change::decode(kind, object)))
}

/// Makes the claim for extended resources of a pod.
pub(super) async fn make_claim(writer: &Writer, pod: &ObjectName, object: Box<Value>) -> Written {
    let create = Create::new(Resource::RESOURCE_CLAIMS, &pod.namespace, object);
    let made = writer.write(&Write::Create(create)).await?;
    Ok(claim_answer(made))
}

/// Names that claim in the status of the pod, or no longer.
pub(super) async fn name_claim(
    writer: &Writer,
    pod: &ObjectName,
    uid: &Text,
    named: &Value,
) -> Written {
    let fields = json!({"status": {"extendedResourceClaimStatus": named}});
    patch_pod(writer, Target::of_uid(Resource::PODS, pod, uid), Patch::status(fields)).await
}

/// Devices and reservation are one write; the finalizer, which says that the devices are to be freed, goes before.
pub(super) async fn take_claim(writer: &Writer, take: TakeClaim) -> Written {
    let TakeClaim { claim, uid, version, finalizers, allocation, reserved_for } = take;
    let mut target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version);
    if let Some(finalizers) = finalizers {
        let fields = json!({"metadata": {"finalizers": finalizers}});
        let answer = patch(writer, &target, Patch::object(fields)).await?;
        target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version_of(&answer));
    }
    let status = match allocation {
        Some(allocation) => json!({"reservedFor": reserved_for, "allocation": allocation}),
        None => json!({"reservedFor": reserved_for}),
    };
    let answer = patch(writer, &target, Patch::status(json!({"status": status}))).await?;
    Ok(claim_answer(answer))
}

/// Gives a claim back. With its last pod it loses its devices, and then the finalizer.
pub(super) async fn free_claim(writer: &Writer, free: FreeClaim) -> Written {
    let FreeClaim { claim, uid, version, finalizers, reserved_for, remove } = free;
    let mut target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version);
    let is_unused = reserved_for.is_empty();
    if !remove {
        let status = if is_unused {
            json!({"reservedFor": null, "allocation": null})
        } else {
            json!({"reservedFor": reserved_for})
        };
        let answer = patch(writer, &target, Patch::status(json!({"status": status}))).await?;
        target = Target::unchanged(Resource::RESOURCE_CLAIMS, &claim, &uid, &version_of(&answer));
    }
    if remove || is_unused {
        let fields = json!({"metadata": {"finalizers": finalizers}});
        patch(writer, &target, Patch::object(fields)).await?;
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
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": &*claim.namespace, "name": &*claim.name, "uid": &*claim_uid,
    });
    let annotations = json!({names::BOUND_BY_CONTROLLER: "yes"});
    let fields = json!({"metadata": {"annotations": annotations}, "spec": {"claimRef": reference}});
    patch_volume(writer, &volume, &uid, &version, fields).await
}

/// Has a volume made for a claim, for a pod of this node; or no longer.
pub(super) async fn select_node(writer: &Writer, select: SelectNode) -> Written {
    let SelectNode { claim, uid, version, node } = select;
    let annotations = json!({names::SELECTED_NODE: node.as_deref()});
    let target = Target::unchanged(Resource::PERSISTENT_VOLUME_CLAIMS, &claim, &uid, &version);
    let fields = json!({"metadata": {"annotations": annotations}});
    let claim = patch(writer, &target, Patch::object(fields)).await?;
    Ok(answer(Kind::PersistentVolumeClaim, claim))
}

/// Takes back what was done for a claim that has no volume yet.
pub(super) async fn free_volume(writer: &Writer, free: FreeVolume) -> Written {
    match free {
        FreeVolume::Unselect(select) => select_node(writer, select).await,
        FreeVolume::Release { volume, uid, version } => {
            let annotations = json!({names::BOUND_BY_CONTROLLER: null});
            let fields =
                json!({"metadata": {"annotations": annotations}, "spec": {"claimRef": null}});
            patch_volume(writer, &volume, &uid, &version, fields).await
        }
    }
}

async fn patch_volume(
    writer: &Writer,
    volume: &Text,
    uid: &str,
    version: &str,
    fields: Value,
) -> Written {
    let name = ObjectName::new("", &**volume);
    let target = Target::unchanged(Resource::PERSISTENT_VOLUMES, &name, uid, version);
    let volume = patch(writer, &target, Patch::object(fields)).await?;
    Ok(answer(Kind::PersistentVolume, volume))
}

fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
