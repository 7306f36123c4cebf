//! `RayCluster`: a head and groups of workers, as its operator makes them.

use std::sync::Arc;

use kai_api::names::third_party::{RAY_CLUSTER, RAY_GROUP, RAY_HEAD_GROUP, RAY_NODE_TYPE};
use serde_json::{Value, json};

use super::pods_of;
use super::templates::{create_pod, delete, is_active, pod, ready, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::kinds::{PODS, id};
use crate::object::{self, Key, is_terminating, items, name, text};
use crate::store::ResourceId;

fn resource() -> ResourceId {
    ResourceId::new("ray.io", "rayclusters")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(ray) = cluster.store.get(&resource(), key).cloned() else { return };
    if is_terminating(&ray) {
        return;
    }
    let suspended = ray["spec"]["suspend"] == true;
    let head = &ray["spec"]["headGroupSpec"];
    bring_to(cluster, &ray, "head", RAY_HEAD_GROUP, &head["template"], i64::from(!suspended));
    for group in items(&ray["spec"]["workerGroupSpecs"]) {
        let wanted = if suspended { 0 } else { size(group) };
        bring_to(cluster, &ray, "worker", text(&group["groupName"]), &group["template"], wanted);
    }
    report(cluster, &ray);
}

/// How many workers a group has: what it asks for, within its bounds.
fn size(group: &Value) -> i64 {
    let least = group["minReplicas"].as_i64().unwrap_or_default();
    let most = group["maxReplicas"].as_i64().unwrap_or(i64::MAX);
    group["replicas"].as_i64().unwrap_or(least).clamp(least, most.max(least))
}

/// Makes or deletes pods of a group until it has as many as wanted.
fn bring_to(
    cluster: &mut Cluster,
    ray: &Value,
    kind: &str,
    group: &str,
    template: &Value,
    wanted: i64,
) {
    let pods: Vec<Arc<Value>> = pods_of(cluster, ray)
        .into_iter()
        .filter(|pod| is_active(pod) && pod["metadata"]["labels"][RAY_GROUP] == group)
        .collect();
    for _ in pods.len() as i64..wanted {
        let mut pod = pod(ray, template);
        for (key, value) in [
            (RAY_CLUSTER, name(ray)),
            (RAY_NODE_TYPE, kind),
            (RAY_GROUP, group),
            ("ray.io/is-ray-node", "yes"),
        ] {
            object::set(&mut pod, &["metadata", "labels", key], value.into());
        }
        if kind == "head" {
            object::set(&mut pod, &["metadata", "name"], format!("{}-head", name(ray)).into());
        } else {
            let prefix = format!("{}-{group}-worker-", name(ray));
            object::set(&mut pod, &["metadata", "generateName"], prefix.into());
        }
        if create_pod(cluster, pod).is_none() {
            break;
        }
    }
    let surplus = (pods.len() as i64 - wanted).max(0) as usize;
    for pod in pods.iter().rev().take(surplus) {
        delete(cluster, &id(PODS), pod);
    }
}

fn report(cluster: &mut Cluster, ray: &Value) {
    let pods = pods_of(cluster, ray);
    let is_worker = |pod: &&Arc<Value>| pod["metadata"]["labels"][RAY_NODE_TYPE] == "worker";
    let workers: Vec<Arc<Value>> = pods.iter().filter(is_worker).cloned().collect();
    let desired: i64 = items(&ray["spec"]["workerGroupSpecs"]).map(size).sum();
    let mut new = ray.clone();
    object::set(&mut new, &["status", "desiredWorkerReplicas"], json!(desired));
    object::set(&mut new, &["status", "availableWorkerReplicas"], json!(workers.len()));
    object::set(&mut new, &["status", "readyWorkerReplicas"], json!(ready(&workers)));
    let all = !pods.is_empty() && ready(&pods) == pods.len() && workers.len() as i64 >= desired;
    if all {
        object::set(&mut new, &["status", "state"], json!("ready"));
    } else {
        object::remove(&mut new, &["status", "state"]);
    }
    let (reason, now) = (
        if all { "AllPodRunningAndReadyFirstTime" } else { "RayClusterPodsProvisioning" },
        cluster.now,
    );
    object::set_condition(&mut new, "RayClusterProvisioned", all, reason, "", now);
    write(cluster, &resource(), new, Part::Status);
}
