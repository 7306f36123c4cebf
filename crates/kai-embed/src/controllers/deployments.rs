//! Deployments: a replica set per template; the newest takes over from the others step by step.

use std::sync::Arc;

use serde_json::{Value, json};

use super::replica_sets;
use super::rollout::{self, Share};
use super::templates::{create, wanted, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::object::{self, Key, is_terminating, name, owner_reference};
use crate::store::ResourceId;

const HASH_LABEL: &str = "pod-template-hash";

fn resource() -> ResourceId {
    ResourceId::new("apps", "deployments")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(deployment) = cluster.store.get(&resource(), key).cloned() else { return };
    if is_terminating(&deployment) {
        return;
    }
    let hash = hash(&deployment["spec"]["template"]);
    let current = format!("{}-{hash}", key.name);
    let sets = sets_of(cluster, &deployment);
    if !sets.iter().any(|set| name(set) == current) {
        let revision = sets.iter().filter_map(|set| revision(set)).max().unwrap_or_default() + 1;
        let mut new = set(&deployment, &current, &hash, revision);
        if !sets.is_empty() {
            object::set(&mut new, &["spec", "replicas"], json!(0));
        }
        // It is created again when the deployment is next reconciled.
        let _ = create(cluster, &replica_sets::resource(), new);
    }
    let sets = sets_of(cluster, &deployment);
    let (new, old): (Vec<_>, Vec<_>) = sets.iter().partition(|set| name(set) == current);
    let Some(newest) = new.first() else { return };
    let goals = rollout::goals(
        &deployment,
        Share::of(newest),
        &old.iter().map(|set| Share::of(set)).collect::<Vec<_>>(),
    );
    for (set, replicas) in new.into_iter().chain(old).zip(goals) {
        if set["spec"]["replicas"] != replicas {
            let mut scaled = Value::clone(set);
            object::set(&mut scaled, &["spec", "replicas"], json!(replicas));
            write(cluster, &replica_sets::resource(), scaled, Part::Whole);
        }
    }
    report(cluster, &deployment, &current);
}

fn sets_of(cluster: &Cluster, deployment: &Value) -> Vec<Arc<Value>> {
    let sets = cluster.store.of_namespace(&replica_sets::resource(), object::namespace(deployment));
    let ours = sets.filter(|set| {
        object::controller(set).is_some_and(|owner| owner["uid"] == object::uid(deployment))
    });
    ours.cloned().collect()
}

fn revision(set: &Value) -> Option<i64> {
    object::annotation(set, "deployment.kubernetes.io/revision")?.parse().ok()
}

fn set(deployment: &Value, name: &str, hash: &str, revision: i64) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": object::namespace(deployment),
            "labels": deployment["spec"]["template"]["metadata"]["labels"],
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": deployment["spec"]["replicas"],
            "selector": deployment["spec"]["selector"],
            "template": deployment["spec"]["template"],
        },
    });
    for path in [
        vec!["metadata", "labels", HASH_LABEL],
        vec!["spec", "selector", "matchLabels", HASH_LABEL],
        vec!["spec", "template", "metadata", "labels", HASH_LABEL],
    ] {
        object::set(&mut set, &path, hash.into());
    }
    set
}

/// Ten digits and letters that follow from the template.
fn hash(template: &Value) -> String {
    let text = template.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:010x}", hash >> 24)
}

fn report(cluster: &mut Cluster, deployment: &Value, current: &str) {
    let sets = sets_of(cluster, deployment);
    let sum = |field: &str| -> i64 {
        sets.iter().map(|set| set["status"][field].as_i64().unwrap_or_default()).sum()
    };
    let (replicas, ready) = (sum("replicas"), sum("readyReplicas"));
    let updated = sets.iter().find(|set| name(set) == current);
    let updated = updated.and_then(|set| set["status"]["replicas"].as_i64()).unwrap_or_default();
    let wanted = wanted(deployment, "replicas", 1);
    let mut new = deployment.clone();
    let conditions = deployment["status"]["conditions"].clone();
    new["status"] = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": (wanted - ready).max(0),
        "conditions": conditions,
    });
    if let Some(status) = new["status"].as_object_mut() {
        status.retain(|key, value| key == "observedGeneration" || *value != json!(0));
    }
    let now = cluster.now;
    // A quarter may be missing.
    let available = ready * 4 >= wanted * 3;
    let (reason, message) = if available {
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    object::strip_nulls(&mut new);
    object::set_condition(&mut new, "Available", available, reason, message, now);
    let done = updated == wanted && ready == wanted && replicas == wanted;
    let reason = if done { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
    let verb = if done { "has successfully progressed" } else { "is progressing" };
    let message = format!("ReplicaSet {current:?} {verb}.");
    object::set_condition(&mut new, "Progressing", true, reason, &message, now);
    write(cluster, &resource(), new, Part::Status);
}
