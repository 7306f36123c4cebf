//! Device claims: created from templates for pods, and released when the pods have ended.

use std::sync::Arc;

use serde_json::{Value, json};

use super::controlled;
use super::templates::{create, delete, has_ended, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::kinds::{PODS, id};
use crate::object::{
    self, Key, annotation, at, field, finalizers, is_terminating, items, name, namespace,
    owner_reference, text, uid,
};
use crate::store::{Event, ResourceId};

/// Which claim of its pod an object is.
const CLAIM_OF_POD: &str = "resource.kubernetes.io/pod-claim-name";
/// Keeps a claim whose devices are in use.
const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

fn claims() -> ResourceId {
    ResourceId::new("resource.k8s.io", "resourceclaims")
}

fn templates() -> ResourceId {
    ResourceId::new("resource.k8s.io", "resourceclaimtemplates")
}

/// Creates the claims of a pod and writes their names on it; deletes claims that the pod no longer needs.
pub(super) fn sync_pod(cluster: &mut Cluster, pod: &Value) {
    if items(at(pod, &["spec", "resourceClaims"])).next().is_none() {
        return;
    }
    let over =
        has_ended(pod) || is_terminating(pod) && text(at(pod, &["spec", "nodeName"])).is_empty();
    let made = own_claims(cluster, pod);
    if over {
        for claim in &made {
            delete(cluster, &claims(), claim);
        }
        return;
    }
    let mut statuses = Vec::new();
    for entry in items(at(pod, &["spec", "resourceClaims"])) {
        let Some(template) = field(entry, "resourceClaimTemplateName").as_str() else { continue };
        let own = text(field(entry, "name"));
        let known = made.iter().find(|claim| annotation(claim, CLAIM_OF_POD) == Some(own)).cloned();
        let Some(claim) = known.or_else(|| make(cluster, pod, own, template)) else { continue };
        statuses.push(json!({"name": own, "resourceClaimName": name(&claim)}));
    }
    if !statuses.is_empty() {
        let mut updated_pod = pod.clone();
        object::set(&mut updated_pod, &["status", "resourceClaimStatuses"], json!(statuses));
        write(cluster, &id(PODS), updated_pod, Part::Status);
    }
}

/// A pod changed or is gone: the claims it names may be free.
pub(super) fn notice_pod(cluster: &mut Cluster, event: &Event) {
    let pod = &event.object;
    let made = items(at(pod, &["status", "resourceClaimStatuses"]))
        .map(|one| field(one, "resourceClaimName"));
    let named =
        items(at(pod, &["spec", "resourceClaims"])).map(|one| field(one, "resourceClaimName"));
    for claim in made.chain(named).filter_map(Value::as_str) {
        cluster.look_at(&claims(), Key::new(&*event.key.namespace, claim));
    }
}

fn own_claims(cluster: &mut Cluster, pod: &Value) -> Vec<Arc<Value>> {
    let mut ours = controlled(cluster, &claims(), pod);
    ours.retain(|claim| !is_terminating(claim));
    ours
}

/// Makes the claim of a pod; one that cannot be made is tried again when its template or the pod changes.
fn make(cluster: &mut Cluster, pod: &Value, own: &str, template: &str) -> Option<Arc<Value>> {
    let key = Key::new(namespace(pod), template);
    let template = cluster.store.get(&templates(), &key)?.clone();
    let mut claim = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "spec": template["spec"]["spec"],
    });
    for marks in ["labels", "annotations"] {
        if let Some(given) = template["spec"]["metadata"].get(marks) {
            object::set(&mut claim, &["metadata", marks], given.clone());
        }
    }
    object::set(&mut claim, &["metadata", "namespace"], namespace(pod).into());
    let prefix = format!("{}-{own}-", name(pod));
    object::set(&mut claim, &["metadata", "generateName"], prefix.into());
    object::set(&mut claim, &["metadata", "annotations", CLAIM_OF_POD], own.into());
    object::set(&mut claim, &["metadata", "ownerReferences"], json!([owner_reference(pod)]));
    create(cluster, &claims(), claim).ok()
}

/// A template is new: pods that wait for it get their claims.
pub(super) fn sync_template(cluster: &mut Cluster, key: &Key) {
    let waiting: Vec<Key> = cluster
        .store
        .of_namespace(&id(PODS), &key.namespace)
        .filter(|pod| {
            items(at(pod, &["spec", "resourceClaims"]))
                .any(|claim| *field(claim, "resourceClaimTemplateName") == key.name.as_str())
        })
        .map(|pod| Key::of(pod))
        .collect();
    for pod in waiting {
        cluster.look_at(&id(PODS), pod);
    }
}

/// Ended pods reserve no devices; a claim without a pod has none.
pub(super) fn sync_claim(cluster: &mut Cluster, key: &Key) {
    let Some(claim) = cluster.store.get(&claims(), key).cloned() else { return };
    let still_holds = |holder: &&Value| {
        let pod =
            cluster.store.get(&id(PODS), &Key::new(&*key.namespace, text(field(holder, "name"))));
        text(field(holder, "resource")) != "pods"
            || pod.is_some_and(|pod| uid(pod) == text(field(holder, "uid")) && !has_ended(pod))
    };
    let before: Vec<&Value> = items(at(&claim, &["status", "reservedFor"])).collect();
    let holders: Vec<Value> =
        before.iter().filter(|one| still_holds(one)).map(|one| Value::clone(one)).collect();
    let is_free = holders.is_empty() && (!before.is_empty() || is_terminating(&claim));
    if holders.len() < before.len() || is_free && !at(&claim, &["status", "allocation"]).is_null() {
        let mut new = Value::clone(&claim);
        if holders.is_empty() {
            object::remove(&mut new, &["status", "reservedFor"]);
            object::remove(&mut new, &["status", "allocation"]);
        } else {
            object::set(&mut new, &["status", "reservedFor"], json!(holders));
        }
        write(cluster, &claims(), new, Part::Status);
    }
    if is_free {
        release(cluster, key);
    }
}

/// Lets a claim without devices go.
fn release(cluster: &mut Cluster, key: &Key) {
    let Some(claim) = cluster.store.get(&claims(), key).cloned() else { return };
    if !at(&claim, &["status", "allocation"]).is_null() || !finalizers(&claim).contains(&PROTECTION)
    {
        return;
    }
    let rest: Vec<&str> =
        finalizers(&claim).into_iter().filter(|finalizer| *finalizer != PROTECTION).collect();
    let mut new = Value::clone(&claim);
    object::set(&mut new, &["metadata", "finalizers"], json!(rest));
    write(cluster, &claims(), new, Part::Whole);
}

/// Whether a pod has all devices that it claims.
pub(crate) fn are_allocated(cluster: &Cluster, pod: &Value) -> bool {
    items(at(pod, &["spec", "resourceClaims"])).all(|entry| {
        let made = items(at(pod, &["status", "resourceClaimStatuses"]))
            .find(|status| status["name"] == entry["name"])
            .and_then(|status| field(status, "resourceClaimName").as_str());
        let Some(claim) = field(entry, "resourceClaimName").as_str().or(made) else { return false };
        let claim = cluster.store.get(&claims(), &Key::new(namespace(pod), claim));
        claim.is_some_and(|claim| !at(claim, &["status", "allocation"]).is_null())
    })
}
