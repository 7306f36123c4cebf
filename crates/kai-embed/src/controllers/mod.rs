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
mod pytorch;
mod ray;
mod replica_sets;
pub(crate) mod resource_claims;
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
use crate::object::{self, Key, items, name, namespace, text};
use crate::store::{Event, EventKind, ResourceId};

/// A write happened: finds out who looks at what.
pub(crate) fn notice(cluster: &mut Cluster, event: &Event) {
    cluster.look_at(&event.resource, event.key.clone());
    garbage::notice(cluster, event);
    for object in [Some(&event.object), event.previous.as_ref()].into_iter().flatten() {
        for owner in items(&object["metadata"]["ownerReferences"]) {
            let kind = cluster.kinds.of_kind(text(&owner["apiVersion"]), text(&owner["kind"]));
            if let Some(resource) = kind.map(|resource| (resource.id.clone(), resource.namespaced))
            {
                let space = if resource.1 { namespace(object) } else { "" };
                cluster.look_at(&resource.0, Key::new(space, text(&owner["name"])));
            }
        }
    }
    if event.resource == id(PODS) {
        budget::notice_pod(cluster, &event.key.namespace);
        resource_claims::notice_pod(cluster, event);
    }
    volumes::notice(cluster, event);
    if event.resource == id(NODES) && event.kind != EventKind::Modified {
        let on_it: Vec<Key> = cluster
            .store
            .all(&id(PODS))
            .filter(|pod| pod["spec"]["nodeName"] == event.key.name.as_str())
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

/// What a pod needs is made for it; then its kubelet looks at it.
fn sync_pod(cluster: &mut Cluster, key: &Key) {
    if let Some(pod) = cluster.store.get(&id(PODS), key).cloned() {
        volumes::make_own_claims(cluster, &pod);
        resource_claims::sync_pod(cluster, &pod);
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
    let names = new["spec"]["names"].clone();
    object::set(&mut new, &["status", "acceptedNames"], names);
    let stored: Vec<&Value> = items(&definition["spec"]["versions"])
        .filter(|version| version["storage"] == true)
        .map(|version| &version["name"])
        .collect();
    object::set(&mut new, &["status", "storedVersions"], json!(stored));
    cluster.store.put(&id(CRDS), new);
}

/// Pods that an object controls.
pub(crate) fn pods_of(cluster: &Cluster, owner: &Value) -> Vec<Arc<Value>> {
    let pods = cluster.store.of_namespace(&id(PODS), namespace(owner));
    let ours = pods.filter(|pod| {
        object::controller(pod).is_some_and(|controller| controller["uid"] == object::uid(owner))
    });
    let mut ours: Vec<Arc<Value>> = ours.cloned().collect();
    ours.sort_by(|one, other| name(one).cmp(name(other)));
    ours
}
