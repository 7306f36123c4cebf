//! Writes about volumes and claims of a pod. Each names the version it was decided on: who changed something in between
//! is not overwritten.

use kai_api::json;
use kai_api::names::storage as names;
use kai_client::kinds::Kind;
use kai_client::request::{MERGE_PATCH, object_path, path_segment, send};
use kai_core::input::{ObjectName, Text};
use kai_translate::device_versions::into_v1;
use kube::Client;
use serde_json::{Value, json};

use super::claims::{FreeClaim, TakeClaim};
use super::volumes::{FreeVolume, ReserveVolume, SelectNode};
use super::writes::{Answer, Grace, Written, delete, patch_pod_status};

const CLAIMS: &str = "/apis/resource.k8s.io/v1";

async fn patch(client: &Client, path: &str, patch: &Value) -> Result<Value, kube::Error> {
    send(client, "PATCH", path, Some(MERGE_PATCH), patch).await
}

fn claim_path(claim: &ObjectName) -> String {
    object_path(CLAIMS, "resourceclaims", claim)
}

/// A claim as the server has it now, in whatever version.
fn claim_answer(mut claim: Value) -> Answer {
    into_v1(&mut claim);
    Answer::Object(Kind::ResourceClaim, Box::new(claim))
}

/// Makes the claim for extended resources of a pod.
pub(super) async fn make_claim(client: &Client, pod: &ObjectName, object: &Value) -> Written {
    let path = format!("{CLAIMS}/namespaces/{}/resourceclaims", pod.namespace);
    let made: Value = send(client, "POST", &path, None, object).await?;
    Ok(claim_answer(made))
}

/// Names that claim in the status of the pod, or no longer.
pub(super) async fn name_claim(
    client: &Client,
    pod: &ObjectName,
    uid: &Text,
    named: &Value,
) -> Written {
    let patch =
        json!({"metadata": {"uid": &**uid}, "status": {"extendedResourceClaimStatus": named}});
    patch_pod_status(client, pod, &patch).await
}

/// Devices and reservation are one write; the finalizer, which says that the devices are to be freed, goes before.
pub(super) async fn take_claim(client: &Client, take: TakeClaim) -> Written {
    let TakeClaim { claim, uid, mut version, finalizers, allocation, reserved_for } = take;
    let path = claim_path(&claim);
    if let Some(finalizers) = finalizers {
        let metadata = json!({"uid": &*uid, "resourceVersion": version, "finalizers": finalizers});
        let answer = patch(client, &path, &json!({"metadata": metadata})).await?;
        version = text(&answer, "resourceVersion");
    }
    let mut status = json!({"reservedFor": reserved_for});
    if let Some(allocation) = allocation {
        json::set(&mut status, &["allocation"], json!(allocation));
    }
    let metadata = json!({"uid": &*uid, "resourceVersion": version});
    let body = json!({"metadata": metadata, "status": status});
    let answer = patch(client, &format!("{path}/status"), &body).await?;
    Ok(claim_answer(answer))
}

/// Gives a claim back. With its last pod it loses its devices, and then the finalizer.
pub(super) async fn free_claim(client: &Client, free: FreeClaim) -> Written {
    let FreeClaim { claim, uid, mut version, finalizers, reserved_for, remove } = free;
    let path = claim_path(&claim);
    let is_unused = reserved_for.is_empty();
    if !remove {
        let mut status = json!({"reservedFor": reserved_for});
        if is_unused {
            status = json!({"reservedFor": null, "allocation": null});
        }
        let metadata = json!({"uid": &*uid, "resourceVersion": version});
        let body = json!({"metadata": metadata, "status": status});
        let answer = patch(client, &format!("{path}/status"), &body).await?;
        version = text(&answer, "resourceVersion");
    }
    if remove || is_unused {
        let metadata = json!({"uid": &*uid, "resourceVersion": version, "finalizers": finalizers});
        patch(client, &path, &json!({"metadata": metadata})).await?;
    }
    if remove {
        delete(client, &path, &uid, Grace::AsUsual).await?;
    }
    Ok(Answer::Nothing)
}

/// Reserves a volume for a claim; a controller of Kubernetes does the rest.
pub(super) async fn reserve_volume(client: &Client, reserve: ReserveVolume) -> Written {
    let ReserveVolume { volume, uid, version, claim, claim_uid } = reserve;
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": &*claim.namespace, "name": &*claim.name, "uid": &*claim_uid,
    });
    let annotations = json!({names::BOUND_BY_CONTROLLER: "yes"});
    let metadata = json!({"uid": &*uid, "resourceVersion": version, "annotations": annotations});
    patch_volume(client, &volume, &json!({"metadata": metadata, "spec": {"claimRef": reference}}))
        .await
}

/// Has a volume made for a claim, for a pod of this node; or no longer.
pub(super) async fn select_node(client: &Client, select: SelectNode) -> Written {
    let SelectNode { claim, uid, version, node } = select;
    let annotations = json!({names::SELECTED_NODE: node.as_deref()});
    let metadata = json!({"uid": &*uid, "resourceVersion": version, "annotations": annotations});
    let path = object_path("/api/v1", "persistentvolumeclaims", &claim);
    let answer = patch(client, &path, &json!({"metadata": metadata})).await?;
    Ok(Answer::Object(Kind::PersistentVolumeClaim, Box::new(answer)))
}

/// Takes back what was done for a claim that has no volume yet.
pub(super) async fn free_volume(client: &Client, free: FreeVolume) -> Written {
    match free {
        FreeVolume::Unselect(select) => select_node(client, select).await,
        FreeVolume::Release { volume, uid, version } => {
            let annotations = json!({names::BOUND_BY_CONTROLLER: null});
            let metadata =
                json!({"uid": &*uid, "resourceVersion": version, "annotations": annotations});
            let body = json!({"metadata": metadata, "spec": {"claimRef": null}});
            patch_volume(client, &volume, &body).await
        }
    }
}

async fn patch_volume(client: &Client, volume: &Text, body: &Value) -> Written {
    let answer =
        patch(client, &format!("/api/v1/persistentvolumes/{}", path_segment(volume)), body).await?;
    Ok(Answer::Object(Kind::PersistentVolume, Box::new(answer)))
}

fn text(object: &Value, key: &str) -> String {
    object["metadata"][key].as_str().unwrap_or_default().to_owned()
}
