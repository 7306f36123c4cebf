//! What brings workloads to pods, and what cleans up: just enough of each controller.

pub(crate) mod budget;
pub(crate) mod cron_jobs;
mod cron_schedule;
mod definitions;
mod deployments;
mod garbage;
mod job_sets;
mod jobs;
mod namespaces;
pub(crate) mod pod_events;
mod pytorch;
mod ray;
mod replica_sets;
pub(crate) mod resource_claims;
mod rollout;
mod stateful_sets;
mod templates;
pub(crate) mod volumes;

use std::sync::Arc;

pub(crate) use cron_schedule::CronSchedule;
pub use definitions::workload_definitions;
pub(crate) use garbage::Owned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::{CRDS, NAMESPACES, NODES, PODS, id};
use crate::nodes;
use crate::object::{self, Key, at, field, items, namespace, text};
use crate::store::{Event, EventKind, ResourceId};

/// Whether a controller creates the pods of such an object in batches, each at its own moment.
pub(crate) fn creates_in_batches(resource: &ResourceId) -> bool {
    matches!((&*resource.group, &*resource.plural), ("batch", "jobs") | ("apps", "replicasets"))
}

/// After a write: finds the controllers and objects to reconcile.
pub(crate) fn notice(cluster: &mut Cluster, event: &Event) {
    cluster.look_at(&event.resource, event.key.clone());
    garbage::notice(cluster, event);
    let is_pod = event.resource == id(PODS);
    let counts = !is_pod || counts_differently(event);
    let versions = [Some(&event.object), event.previous.as_ref()].into_iter().flatten();
    for object in versions.filter(|_| counts) {
        for owner in object::owners(object) {
            let kind =
                cluster.kinds.of_kind(text(field(owner, "apiVersion")), text(field(owner, "kind")));
            if let Some(resource) = kind.map(|resource| (resource.id.clone(), resource.namespaced))
            {
                let space = if resource.1 { namespace(object) } else { "" };
                cluster.look_at(&resource.0, Key::new(space, text(field(owner, "name"))));
            }
        }
    }
    if is_pod {
        if counts || has_other_labels(event) {
            budget::notice_pod(cluster, &event.key.namespace);
        }
        resource_claims::notice_pod(cluster, event);
    }
    volumes::notice(cluster, event);
    if event.resource == id(NODES) && event.kind != EventKind::Modified {
        let on_it: Vec<Key> = cluster
            .store
            .all(&id(PODS))
            .filter(|pod| *at(pod, &["spec", "nodeName"]) == event.key.name.as_str())
            .map(|pod| Key::of(pod))
            .collect();
        for pod in on_it {
            cluster.look_at(&id(PODS), pod);
        }
    }
    if event.kind == EventKind::Deleted && !event.key.namespace.is_empty() {
        cluster.look_at(&id(NAMESPACES), Key::new("", event.key.namespace.as_str()));
    }
}

/// Looks at an object, or at where it was.
pub(crate) fn reconcile(cluster: &mut Cluster, resource: &ResourceId, key: &Key) {
    garbage::sync(cluster, resource, key);
    match (&*resource.group, &*resource.plural) {
        ("", "pods") => sync_pod(cluster, key),
        ("", "persistentvolumeclaims") => {
            volumes::sync_claim(cluster, key);
            for pod in volumes::users(cluster, key) {
                cluster.look_at(&id(PODS), pod);
            }
        }
        ("", "persistentvolumes") => volumes::sync_volume(cluster, key),
        ("resource.k8s.io", "resourceclaims") => resource_claims::sync_claim(cluster, key),
        ("resource.k8s.io", "resourceclaimtemplates") => {
            resource_claims::sync_template(cluster, key);
        }
        ("batch", "cronjobs") => cron_jobs::sync(cluster, key),
        ("", "nodes") => nodes::sync_node(cluster, key),
        ("", "namespaces") => namespaces::sync(cluster, key),
        ("apps", "deployments") => deployments::sync(cluster, key),
        ("apps", "replicasets") => replica_sets::sync(cluster, key),
        ("apps", "statefulsets") => stateful_sets::sync(cluster, key),
        ("batch", "jobs") => jobs::sync(cluster, key),
        ("jobset.x-k8s.io", "jobsets") => job_sets::sync(cluster, key),
        ("ray.io", "rayclusters") => ray::sync(cluster, key),
        ("kubeflow.org", "pytorchjobs") => pytorch::sync(cluster, key),
        ("policy", "poddisruptionbudgets") => budget::sync(cluster, key),
        ("apiextensions.k8s.io", "customresourcedefinitions") => establish(cluster, key),
        _ => {}
    }
}

/// Creates the claims that a pod needs; then its kubelet reconciles it.
fn sync_pod(cluster: &mut Cluster, key: &Key) {
    if let Some(pod) = cluster.store.get(&id(PODS), key).cloned() {
        volumes::make_own_claims(cluster, &pod);
        resource_claims::sync_pod(cluster, &pod);
        pod_events::report_missing_scheduler(cluster, &pod);
    }
    nodes::sync_pod(cluster, key);
}

/// A definition is served as soon as it is there.
fn establish(cluster: &mut Cluster, key: &Key) {
    let Some(definition) = cluster.store.get(&id(CRDS), key).cloned() else { return };
    if object::has_condition(&definition, "Established") {
        return;
    }
    let mut new = Value::clone(&definition);
    let now = cluster.now;
    object::set_condition(
        &mut new,
        "NamesAccepted",
        true,
        "NoConflicts",
        "no conflicts found",
        now,
    );
    let message = "the initial names have been accepted";
    object::set_condition(&mut new, "Established", true, "InitialNamesAccepted", message, now);
    let names = at(&new, &["spec", "names"]).clone();
    object::set(&mut new, &["status", "acceptedNames"], names);
    let stored: Vec<&Value> = items(at(&definition, &["spec", "versions"]))
        .filter(|version| *field(version, "storage") == true)
        .map(|version| field(version, "name"))
        .collect();
    object::set(&mut new, &["status", "storedVersions"], json!(stored));
    cluster.store.put(&id(CRDS), new);
}

/// Objects of a resource that an object controls, by name.
pub(crate) fn controlled(
    cluster: &mut Cluster,
    resource: &ResourceId,
    owner: &Value,
) -> Vec<Arc<Value>> {
    // The index of owners knows a write once it was noticed.
    cluster.notice_writes();
    let cluster = &*cluster;
    let is_controlled = |object: &&Arc<Value>| {
        object::controller(object)
            .is_some_and(|controller| *field(controller, "uid") == object::uid(owner))
    };
    let owned = cluster.owned.of_resource(object::uid(owner), resource);
    let objects = owned.filter_map(|key| cluster.store.get(resource, key));
    objects.filter(is_controlled).cloned().collect()
}

/// Pods that an object controls, by name.
pub(crate) fn pods_of(cluster: &mut Cluster, owner: &Value) -> Vec<Arc<Value>> {
    controlled(cluster, &id(PODS), owner)
}

/// Whether a disruption budget may select a pod that it did not select before, or no longer select it.
fn has_other_labels(event: &Event) -> bool {
    let previous = event.previous.as_ref();
    let labels = |object| object::at(object, &["metadata", "labels"]);
    previous.is_none_or(|previous| !object::equal(labels(&event.object), labels(previous)))
}

fn phase(pod: &Value) -> &str {
    text(object::at(pod, &["status", "phase"]))
}

/// Whether a pod changed in a way that its owner or a disruption budget counts.
fn counts_differently(event: &Event) -> bool {
    let Some(previous) = event.previous.as_ref() else { return true };
    event.kind == EventKind::Deleted
        || phase(&event.object) != phase(previous)
        || object::has_condition(&event.object, "Ready") != object::has_condition(previous, "Ready")
        || object::is_terminating(&event.object) != object::is_terminating(previous)
        || !object::owners(&event.object).eq(object::owners(previous))
}
