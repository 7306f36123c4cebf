//! Stateful sets: pods with numbers, one after the other.

use std::sync::Arc;

use serde_json::{Value, json};

use super::templates::{create_pod, delete, has_ended, pod, ready, wanted, write};
use super::{pods_of, volumes};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::kinds::{PODS, id};
use crate::object::{self, Key, has_condition, is_terminating, items, name};
use crate::store::ResourceId;

fn resource() -> ResourceId {
    ResourceId::new("apps", "statefulsets")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(set) = cluster.store.get(&resource(), key).cloned() else { return };
    if is_terminating(&set) {
        return;
    }
    let pods = pods_of(cluster, &set);
    let replicas = wanted(&set, "replicas", 1);
    let in_order = set["spec"]["podManagementPolicy"] != "Parallel";
    for index in 0..replicas {
        let member = format!("{}-{index}", key.name);
        let found = pods.iter().find(|pod| name(pod) == member);
        match found {
            None => {
                for template in items(&set["spec"]["volumeClaimTemplates"]) {
                    let claim = format!("{}-{member}", name(template));
                    volumes::make_claim(cluster, &set, &claim, template);
                }
                create_pod(cluster, numbered(&set, &member, index));
            }
            Some(pod) if has_ended(pod) => delete(cluster, &id(PODS), pod),
            Some(_) => {}
        }
        if in_order && !found.is_some_and(|pod| has_condition(pod, "Ready")) {
            break;
        }
    }
    // The highest numbers go first.
    let surplus = |pod: &&Arc<Value>| ordinal(pod).is_some_and(|index| index >= replicas);
    let mut surplus: Vec<&Arc<Value>> = pods.iter().filter(surplus).collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
    let at_once = if in_order { 1 } else { surplus.len() };
    for pod in surplus.into_iter().take(at_once) {
        delete(cluster, &id(PODS), pod);
    }
    report(cluster, &set);
}

fn ordinal(pod: &Value) -> Option<i64> {
    name(pod).rsplit_once('-')?.1.parse().ok()
}

fn numbered(set: &Value, member: &str, index: i64) -> Value {
    let mut pod = pod(set, &set["spec"]["template"]);
    object::set(&mut pod, &["metadata", "name"], member.into());
    let labels = [
        ("statefulset.kubernetes.io/pod-name", member.to_owned()),
        ("apps.kubernetes.io/pod-index", index.to_string()),
    ];
    for (key, value) in labels {
        object::set(&mut pod, &["metadata", "labels", key], value.into());
    }
    object::set(&mut pod, &["spec", "hostname"], member.into());
    mount_own_claims(set, member, &mut pod);
    pod
}

/// Volumes named like a template of claims are the pod's own claims.
fn mount_own_claims(set: &Value, member: &str, pod: &mut Value) {
    let templates: Vec<&str> = items(&set["spec"]["volumeClaimTemplates"]).map(name).collect();
    let own = templates.iter().map(|template| {
        json!({"name": template, "persistentVolumeClaim": {"claimName": format!("{template}-{member}")}})
    });
    let others = items(&pod["spec"]["volumes"])
        .filter(|volume| !templates.iter().any(|template| volume["name"] == *template));
    let all: Vec<Value> = own.chain(others.cloned()).collect();
    if !all.is_empty() {
        object::set(pod, &["spec", "volumes"], json!(all));
    }
}

fn report(cluster: &mut Cluster, set: &Value) {
    let pods = pods_of(cluster, set);
    let mut new = set.clone();
    new["status"] = json!({
        "observedGeneration": set["metadata"]["generation"],
        "replicas": pods.len(),
        "readyReplicas": ready(&pods),
        "availableReplicas": ready(&pods),
        "currentReplicas": pods.len(),
        "updatedReplicas": pods.len(),
        "collisionCount": 0,
    });
    write(cluster, &resource(), new, Part::Status);
}
