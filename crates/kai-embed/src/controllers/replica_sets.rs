//! Replica sets: so many pods of one template.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pods_of;
use super::templates::{create_batch, delete, is_active, pod, ready, wanted, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::kinds::{PODS, id};
use crate::object::{self, Key, is_terminating, name, text};
use crate::store::ResourceId;

pub(super) fn resource() -> ResourceId {
    ResourceId::new("apps", "replicasets")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(set) = cluster.store.get(&resource(), key).cloned() else { return };
    if is_terminating(&set) {
        return;
    }
    let pods: Vec<Arc<Value>> =
        pods_of(cluster, &set).into_iter().filter(|pod| is_active(pod)).collect();
    let wanted = wanted(&set, "replicas", 1).max(0) as usize;
    let missing = wanted.saturating_sub(pods.len());
    create_batch(cluster, &resource(), key, pods.len(), missing, || {
        let mut pod = pod(&set, &set["spec"]["template"]);
        let prefix = format!("{}-", key.name);
        object::set(&mut pod, &["metadata", "generateName"], prefix.into());
        pod
    });
    let mut surplus: Vec<&Arc<Value>> = pods.iter().collect();
    // Pending pods are deleted before running ones, the youngest first.
    surplus.sort_by_key(|pod| {
        let placed = !text(&pod["spec"]["nodeName"]).is_empty();
        let created = std::cmp::Reverse(text(&pod["metadata"]["creationTimestamp"]).to_owned());
        (
            placed,
            object::has_condition(pod, "Ready"),
            created,
            std::cmp::Reverse(name(pod).to_owned()),
        )
    });
    for pod in surplus.into_iter().take(pods.len().saturating_sub(wanted)) {
        delete(cluster, &id(PODS), pod);
    }
    report(cluster, &set);
}

fn report(cluster: &mut Cluster, set: &Value) {
    let pods: Vec<Arc<Value>> =
        pods_of(cluster, set).into_iter().filter(|pod| is_active(pod)).collect();
    let (all, ready) = (pods.len(), ready(&pods));
    let mut new = set.clone();
    new["status"] = json!({
        "replicas": all,
        "fullyLabeledReplicas": all,
        "observedGeneration": set["metadata"]["generation"],
    });
    if ready > 0 {
        new["status"]["readyReplicas"] = json!(ready);
        new["status"]["availableReplicas"] = json!(ready);
    }
    write(cluster, &resource(), new, Part::Status);
}
