//! What a kubelet does with the pods of its node: gives them devices, starts and ends them.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kai_api::duration::{Units, parse_duration};
use kai_api::gpu_request::is_device;
use serde_json::{Value, json};

use super::agent;
use super::devices::{Slot, requested, slots};
use crate::api::{DeleteOptions, Part, Writer};
use crate::cluster::Cluster;
use crate::controllers::{pod_events, resource_claims, volumes};
use crate::kinds::{NODES, PODS, id};
use crate::object::{
    self, Key, annotation, at, field, is_terminating, items, moment, name, namespace, text, uid,
};

/// Annotation on a pod: how long it runs before it ends by itself, as `90s` or `1h30m`.
pub const SIM_DURATION: &str = "kai.scheduler/sim-duration";

/// A pod that a kubelet has taken.
#[derive(Clone, Debug)]
pub(super) struct PodRun {
    pub(super) pod: Key,
    pub(super) node: String,
    pub(super) slots: Vec<Slot>,
    taken: Timestamp,
    started: Option<Timestamp>,
    termination_began: Option<Timestamp>,
}

/// Does with a pod what its kubelet would do now.
pub(crate) fn sync_pod(cluster: &mut Cluster, key: &Key) {
    let Some(pod) = cluster.store.get(&id(PODS), key).cloned() else {
        cluster.nodes.runs.keep_only(key, None);
        return;
    };
    cluster.nodes.runs.keep_only(key, Some(uid(&pod)));
    let node = text(at(&pod, &["spec", "nodeName"]));
    if node.is_empty() || cluster.store.get(&id(NODES), &Key::new("", node)).is_none() {
        return;
    }
    if matches!(text(at(&pod, &["status", "phase"])), "Succeeded" | "Failed") {
        cluster.nodes.runs.remove(uid(&pod));
        if is_terminating(&pod) {
            remove(cluster, key, &pod);
        }
        return;
    }
    if !cluster.nodes.runs.contains(uid(&pod)) && !take(cluster, key, &pod, node) {
        return;
    }
    advance(cluster, key, &pod);
}

/// A new pod of the node gets its devices; false where there are none left, and the pod has failed.
fn take(cluster: &mut Cluster, key: &Key, pod: &Value, node: &str) -> bool {
    let Some(object) = cluster.store.get(&id(NODES), &Key::new("", node)).cloned() else {
        return false;
    };
    let mut taken: BTreeSet<&Slot> = BTreeSet::new();
    taken.extend(cluster.nodes.runs.of_node(node).flat_map(|run| &run.slots));
    let mut given = Vec::new();
    for resource in device_resources(pod) {
        let wanted = requested(pod, &resource).max(0) as usize;
        let mut free: Vec<Slot> =
            slots(&object, &resource).into_iter().filter(|slot| !taken.contains(slot)).collect();
        if free.len() < wanted {
            let message = format!(
                "Allocate failed due to requested number of devices unavailable for {resource}. Requested: {wanted}, Available: {}, which is unexpected",
                free.len()
            );
            fail(cluster, pod, "UnexpectedAdmissionError", &message);
            return false;
        }
        // Replicas of different devices are preferred to replicas of one device.
        free.sort_by_key(|slot| (slot.replica, slot.device));
        given.extend(free.into_iter().take(wanted));
    }
    let run = PodRun {
        pod: key.clone(),
        node: node.to_owned(),
        slots: given,
        taken: cluster.now,
        started: (*at(pod, &["status", "phase"]) == "Running").then_some(cluster.now),
        termination_began: None,
    };
    cluster.nodes.runs.insert(uid(pod), run);
    true
}

fn device_resources(pod: &Value) -> BTreeSet<String> {
    let containers =
        items(at(pod, &["spec", "containers"])).chain(items(at(pod, &["spec", "initContainers"])));
    let resources = containers
        .filter_map(|container| at(container, &["resources", "requests"]).as_object())
        .flat_map(|requests| requests.keys());
    resources.filter(|resource| is_device(resource)).cloned().collect()
}

/// The next step of a pod that the kubelet has taken.
fn advance(cluster: &mut Cluster, key: &Key, pod: &Value) {
    let (now, pace) = (cluster.now, cluster.nodes.pace);
    let has_everything =
        volumes::are_bound(cluster, pod) && resource_claims::are_allocated(cluster, pod);
    let Some(run) = cluster.nodes.runs.get_mut(uid(pod)) else { return };
    let due = if is_terminating(pod) {
        let began = *run.termination_began.get_or_insert(now);
        let grace =
            at(pod, &["metadata", "deletionGracePeriodSeconds"]).as_i64().unwrap_or_default();
        let due = began + pace.stop.min(SignedDuration::from_secs(grace));
        if due <= now {
            cluster.nodes.runs.remove(uid(pod));
            remove(cluster, key, pod);
            return;
        }
        Some(due)
    } else if let Some(started) = run.started {
        let lives = annotation(pod, SIM_DURATION).and_then(span);
        let due = lives.map(|lives| started + lives);
        if due.is_some_and(|due| due <= now) {
            cluster.nodes.runs.remove(uid(pod));
            end(cluster, pod);
            return;
        }
        due
    } else if !has_everything {
        // A change of a claim starts another look.
        None
    } else {
        let due = run.taken + pace.start;
        if due <= now {
            run.started = Some(now);
            start(cluster, pod);
            return;
        }
        Some(due)
    };
    if let Some(due) = due {
        cluster.wake(&id(PODS), key, due);
    }
}

/// Reads `90s`, `1h30m`, `1.5s`, `250ms`.
pub(super) fn span(text: &str) -> Option<SignedDuration> {
    let span = parse_duration(text, Units::WithDays).ok()?;
    (span >= 0).then(|| SignedDuration::from_nanos(span))
}

/// The part of a pod that a kubelet writes.
fn status_of(pod: &Value) -> Value {
    json!({
        "metadata": {"name": name(pod), "namespace": namespace(pod), "uid": uid(pod)},
        "status": pod["status"],
    })
}

/// Writes the status of a pod that was just read; the written pod. It fails for no pod that exists: there is no concurrent
/// writer.
fn write_status(cluster: &mut Cluster, status: Value) -> Option<Arc<Value>> {
    let resource = cluster.kinds.get(&id(PODS)).cloned()?;
    let writer = Writer { subresource: "status", ..Writer::named("kubelet") };
    cluster.update(&resource, status, Part::Status, &writer).ok()
}

fn start(cluster: &mut Cluster, pod: &Value) {
    let now = cluster.now;
    let mut status = status_of(pod);
    let address = address(uid(pod));
    object::set(&mut status, &["status", "phase"], json!("Running"));
    object::set(&mut status, &["status", "startTime"], moment(now));
    object::set(&mut status, &["status", "hostIP"], json!("10.0.0.1"));
    object::set(&mut status, &["status", "podIP"], json!(address));
    object::set(&mut status, &["status", "podIPs"], json!([{"ip": address}]));
    for condition in
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    {
        object::set_condition(&mut status, condition, true, "", "", now);
    }
    let state = json!({"running": {"startedAt": moment(now)}});
    let statuses = container_statuses(pod, true, &state);
    object::set(&mut status, &["status", "containerStatuses"], statuses);
    let Some(pod) = write_status(cluster, status) else { return };
    for container in items(at(&pod, &["spec", "containers"])) {
        let message = format!("Started container {}", text(field(container, "name")));
        pod_events::record(cluster, &pod, "Normal", "Started", &message, "kubelet");
    }
    if let Err(why) = agent::run(cluster, &pod) {
        cluster.nodes.runs.remove(uid(&pod));
        fail(cluster, &pod, "Error", &why);
    }
}

fn end(cluster: &mut Cluster, pod: &Value) {
    let now = cluster.now;
    let mut status = status_of(pod);
    object::set(&mut status, &["status", "phase"], json!("Succeeded"));
    for condition in ["Ready", "ContainersReady"] {
        object::set_condition(&mut status, condition, false, "PodCompleted", "", now);
    }
    let state = json!({"terminated": {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": pod["status"]["startTime"],
        "finishedAt": moment(now),
    }});
    let statuses = container_statuses(pod, false, &state);
    object::set(&mut status, &["status", "containerStatuses"], statuses);
    write_status(cluster, status);
}

fn fail(cluster: &mut Cluster, pod: &Value, reason: &str, message: &str) {
    let mut status = status_of(pod);
    object::set(&mut status, &["status", "phase"], json!("Failed"));
    object::set(&mut status, &["status", "reason"], json!(reason));
    object::set(&mut status, &["status", "message"], json!(message));
    write_status(cluster, status);
}

fn container_statuses(pod: &Value, ready: bool, state: &Value) -> Value {
    let statuses = items(at(pod, &["spec", "containers"])).map(|container| {
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "containerID": format!("simulated://{}-{}", uid(pod), text(field(container, "name"))),
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        })
    });
    Value::from(statuses.collect::<Vec<_>>())
}

/// An address that follows from the UID.
fn address(uid: &str) -> String {
    let hash =
        uid.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("10.{}.{}.{}", 1 + (hash >> 16) % 250, (hash >> 8) % 256, 1 + hash % 250)
}

/// All containers have ended: the pod object is deleted.
fn remove(cluster: &mut Cluster, key: &Key, pod: &Value) {
    let Some(resource) = cluster.kinds.get(&id(PODS)).cloned() else { return };
    let options =
        DeleteOptions { grace: Some(0), uid: uid(pod).to_owned(), ..DeleteOptions::default() };
    // Finalizers may keep it; then their owner removes it.
    let _ = cluster.delete(&resource, key, &options);
}
