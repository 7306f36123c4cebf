//! Pods from templates.

use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use crate::api::{DeleteOptions, Part, Writer};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::{EVENTS, PODS, id};
use crate::object::{
    self, Key, at, field, is_terminating, moment, namespace, owner_reference, text, uid,
};
use crate::store::ResourceId;

/// The manager under which all controllers write.
const MANAGER: &str = "kube-controller-manager";

/// A pod as a template describes it, controlled by `owner`.
pub(super) fn pod(owner: &Value, template: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(marks) = template["metadata"].get(key) {
            object::set(&mut pod, &["metadata", key], marks.clone());
        }
    }
    pod["spec"] = field(template, "spec").clone();
    object::set(&mut pod, &["metadata", "namespace"], namespace(owner).into());
    object::set(&mut pod, &["metadata", "ownerReferences"], json!([owner_reference(owner)]));
    pod
}

/// Creates an object of a built-in kind.
pub(super) fn create(
    cluster: &mut Cluster,
    resource: &ResourceId,
    object: Value,
) -> Result<Arc<Value>, Failure> {
    let Some(kind) = cluster.kinds.get(resource).cloned() else {
        return Err(Failure::no_such_path());
    };
    cluster.create(&kind, object, &Writer::named(MANAGER))
}

/// Creates a pod. A rejected pod gets an event, and is retried when its owner is next reconciled.
pub(super) fn create_pod(cluster: &mut Cluster, pod: Value) -> Option<Arc<Value>> {
    let (owner, space) =
        (object::controller(&pod).cloned().unwrap_or_default(), namespace(&pod).to_owned());
    match create(cluster, &id(PODS), pod) {
        Ok(made) => Some(made),
        Err(failure) => {
            record_rejected_pod(cluster, &owner, &space, &failure);
            None
        }
    }
}

/// The least number of pods that a controller creates at one moment. Watches read them before the next are created.
const BATCH: usize = 2000;
const BATCH_PAUSE: SignedDuration = SignedDuration::from_millis(10);

/// Creates pods of an owner that has `existing` pods and misses some; the number of created pods. For pods that do not fit into
/// one batch the owner is reconciled again. Each batch at least doubles the number of pods: a controller counts all of them at
/// every batch, which would take quadratic time with batches of one size.
pub(super) fn create_batch(
    cluster: &mut Cluster,
    resource: &ResourceId,
    owner: &Key,
    existing: usize,
    missing: usize,
    mut pod: impl FnMut() -> Value,
) -> usize {
    if cluster.is_woken_later(resource, owner) {
        // The previous batch was created at this moment.
        return 0;
    }
    let batch = BATCH.max(existing).min(missing);
    for created in 0..batch {
        if create_pod(cluster, pod()).is_none() {
            return created;
        }
    }
    if missing > batch {
        cluster.wake(resource, owner, cluster.now + BATCH_PAUSE);
    }
    batch
}

/// Records an event on the owner of a rejected pod; repetitions raise the count of the same event.
fn record_rejected_pod(cluster: &mut Cluster, owner: &Value, space: &str, failure: &Failure) {
    let name = format!("{}.failed-create", text(field(owner, "name")));
    let known = cluster.store.get(&id(EVENTS), &Key::new(space, name.as_str())).cloned();
    let now = moment(cluster.now);
    if let Some(known) = known {
        let mut again = Value::clone(&known);
        again["count"] = json!(known["count"].as_i64().unwrap_or_default() + 1);
        again["lastTimestamp"] = now;
        write(cluster, &id(EVENTS), again, Part::Whole);
        return;
    }
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": space},
        "involvedObject": {
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["name"],
            "namespace": space, "uid": owner["uid"],
        },
        "reason": "FailedCreate",
        "message": format!("Error creating: {failure}"),
        "type": "Warning",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": MANAGER},
    });
    // An event that cannot be written is not missed.
    let _ = create(cluster, &id(EVENTS), event);
}

/// Deletes an object, if it is still the same.
pub(super) fn delete(cluster: &mut Cluster, resource: &ResourceId, object: &Value) {
    let Some(kind) = cluster.kinds.get(resource).cloned() else { return };
    let options = DeleteOptions { uid: uid(object).to_owned(), ..DeleteOptions::default() };
    // One that is gone is as wanted.
    let _ = cluster.delete(&kind, &Key::of(object), &options);
}

/// Writes a part of an object that was read a moment ago.
pub(super) fn write(cluster: &mut Cluster, resource: &ResourceId, object: Value, part: Part) {
    let Some(kind) = cluster.kinds.get(resource).cloned() else { return };
    let mut object = object;
    object::remove(&mut object, &["metadata", "resourceVersion"]);
    let subresource = if part == Part::Status { "status" } else { "" };
    let writer = Writer { subresource, ..Writer::named(MANAGER) };
    // There is no concurrent writer; an object that is gone needs no status.
    let _ = cluster.update(&kind, object, part, &writer);
}

/// Whether a pod has neither ended nor is terminating.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_terminating(pod) && !has_ended(pod)
}

/// Whether a pod is over.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(at(pod, &["status", "phase"])), "Succeeded" | "Failed")
}

/// How many pods are in a phase.
pub(super) fn count(pods: &[Arc<Value>], phase: &str) -> usize {
    pods.iter().filter(|pod| text(at(pod, &["status", "phase"])) == phase).count()
}

/// How many pods are ready.
pub(super) fn ready(pods: &[Arc<Value>]) -> usize {
    pods.iter().filter(|pod| object::has_condition(pod, "Ready")).count()
}

/// A number of the spec.
pub(super) fn wanted(object: &Value, field: &str, or: i64) -> i64 {
    object["spec"][field].as_i64().unwrap_or(or)
}
