//! Volumes: claims are bound to volumes that fit, or volumes are made for them.

use std::sync::Arc;

use kai_api::quantity::Quantity;
use serde_json::{Value, json};

use super::templates::{create, delete, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::kinds::{PERSISTENT_VOLUME_CLAIMS, id};
use crate::object::{
    self, Key, annotation, is_terminating, items, name, namespace, owner_reference, text, uid,
};
use crate::selectors::LabelSelector;
use crate::store::{Event, ResourceId};

/// Where the first pod that uses a claim will run, as its scheduler says.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The provisioner of classes whose volumes people make.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

fn volumes() -> ResourceId {
    ResourceId::new("", "persistentvolumes")
}

fn claims() -> ResourceId {
    id(PERSISTENT_VOLUME_CLAIMS)
}

/// A volume or a class changed: claims that wait may find what they need.
pub(super) fn notice(cluster: &mut Cluster, event: &Event) {
    if event.resource != volumes() && &*event.resource.plural != "storageclasses" {
        return;
    }
    let waiting: Vec<Key> = cluster
        .store
        .all(&claims())
        .filter(|claim| claim["status"]["phase"] != "Bound")
        .map(|claim| Key::of(claim))
        .collect();
    for claim in waiting {
        cluster.look_at(&claims(), claim);
    }
}

/// Looks at a claim; where it is gone, at the volume it had.
pub(super) fn sync_claim(cluster: &mut Cluster, key: &Key) {
    let Some(claim) = cluster.store.get(&claims(), key).cloned() else {
        let had: Vec<Key> = cluster
            .store
            .all(&volumes())
            .filter(|volume| is_claimed_by(volume, key))
            .map(|volume| Key::of(volume))
            .collect();
        for volume in had {
            cluster.look_at(&volumes(), volume);
        }
        return;
    };
    if is_terminating(&claim) || claim["status"]["phase"] == "Bound" {
        return;
    }
    if let Some(volume) = find_volume(cluster, &claim) {
        bind(cluster, &claim, &volume);
    } else if let Some(class) = class_of(cluster, &claim) {
        provision(cluster, &claim, &class);
    }
}

/// Reconciles a volume: if its claim is gone, the volume is released or deleted too.
pub(super) fn sync_volume(cluster: &mut Cluster, key: &Key) {
    let Some(volume) = cluster.store.get(&volumes(), key).cloned() else { return };
    if is_terminating(&volume) {
        return;
    }
    let owner = &volume["spec"]["claimRef"];
    let claim = Key::new(text(&owner["namespace"]), text(&owner["name"]));
    let holder = cluster.store.get(&claims(), &claim);
    let is_lost = !text(&owner["uid"]).is_empty()
        && holder.is_none_or(|holder| uid(holder) != text(&owner["uid"]));
    let phase = match (owner.is_object(), is_lost) {
        (false, _) => "Available",
        (true, true) if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" => {
            delete(cluster, &volumes(), &volume);
            return;
        }
        (true, true) => "Released",
        (true, false) if text(&owner["uid"]).is_empty() => "Available",
        (true, false) => "Bound",
    };
    let mut new = Value::clone(&volume);
    object::set(&mut new, &["status", "phase"], json!(phase));
    write(cluster, &volumes(), new, Part::Status);
}

fn is_claimed_by(volume: &Value, claim: &Key) -> bool {
    let owner = &volume["spec"]["claimRef"];
    owner["namespace"] == claim.namespace.as_str() && owner["name"] == claim.name.as_str()
}

fn class_of(cluster: &Cluster, claim: &Value) -> Option<Arc<Value>> {
    let class = text(&claim["spec"]["storageClassName"]);
    let classes = ResourceId::new("storage.k8s.io", "storageclasses");
    cluster.store.get(&classes, &Key::new("", class)).cloned()
}

/// Whether a claim is bound only when its first pod has a node.
fn waits_for_consumer(class: Option<&Arc<Value>>) -> bool {
    class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}

/// The volume that a claim gets: the one that one of the two names, or the smallest that fits.
fn find_volume(cluster: &Cluster, claim: &Value) -> Option<Arc<Value>> {
    let all = || cluster.store.all(&volumes());
    let key = Key::of(claim);
    let is_free = |volume: &Value| {
        let owner = &volume["spec"]["claimRef"];
        let is_ours = is_claimed_by(volume, &key)
            && (text(&owner["uid"]).is_empty() || text(&owner["uid"]) == uid(claim));
        owner.is_null() || is_ours
    };
    if let Some(wanted) = claim["spec"]["volumeName"].as_str() {
        return all().find(|volume| name(volume) == wanted && is_free(volume)).cloned();
    }
    if let Some(volume) = all().find(|volume| is_claimed_by(volume, &key) && is_free(volume)) {
        return Some(Arc::clone(volume));
    }
    if waits_for_consumer(class_of(cluster, claim).as_ref()) {
        return None;
    }
    let fitting =
        all().filter(|volume| volume["spec"]["claimRef"].is_null() && fits(volume, claim));
    fitting.min_by_key(|volume| (size(&volume["spec"]["capacity"]), name(volume))).cloned()
}

fn size(amounts: &Value) -> Option<Quantity> {
    Quantity::parse(text(&amounts["storage"])).ok()
}

fn fits(volume: &Value, claim: &Value) -> bool {
    let (spec, wanted) = (&volume["spec"], &claim["spec"]);
    let modes =
        |modes: &Value| -> Vec<String> { items(modes).map(|mode| text(mode).to_owned()).collect() };
    let offered = modes(&spec["accessModes"]);
    text(&spec["storageClassName"]) == text(&wanted["storageClassName"])
        && spec["volumeMode"] == wanted["volumeMode"]
        && modes(&wanted["accessModes"]).iter().all(|mode| offered.contains(mode))
        && size(&spec["capacity"]) >= size(&wanted["resources"]["requests"])
        && LabelSelector::of_optional(&wanted["selector"]).matches(volume)
        && !is_terminating(volume)
}

fn bind(cluster: &mut Cluster, claim: &Value, volume: &Value) {
    let mut reserved_volume = volume.clone();
    let by_us = volume["spec"]["claimRef"].is_null();
    object::set(
        &mut reserved_volume,
        &["spec", "claimRef"],
        json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace(claim),
            "name": name(claim), "uid": uid(claim), "resourceVersion": object::version(claim),
        }),
    );
    if by_us {
        object::set(
            &mut reserved_volume,
            &["metadata", "annotations", BOUND_BY_CONTROLLER],
            json!("yes"),
        );
    }
    write(cluster, &volumes(), reserved_volume, Part::Whole);
    let mut bound = claim.clone();
    if claim["spec"]["volumeName"].is_null() {
        object::set(&mut bound, &["metadata", "annotations", BOUND_BY_CONTROLLER], json!("yes"));
    }
    object::set(&mut bound, &["metadata", "annotations", BIND_COMPLETED], json!("yes"));
    object::set(&mut bound, &["spec", "volumeName"], name(volume).into());
    write(cluster, &claims(), bound.clone(), Part::Whole);
    object::set(
        &mut bound,
        &["status"],
        json!({"phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"]}),
    );
    write(cluster, &claims(), bound, Part::Status);
}

/// Makes a volume for a claim, as the provisioner of its class would.
fn provision(cluster: &mut Cluster, claim: &Value, class: &Arc<Value>) {
    let provisioner = text(&class["provisioner"]);
    let node = annotation(claim, SELECTED_NODE);
    if provisioner == NO_PROVISIONER || (waits_for_consumer(Some(class)) && node.is_none()) {
        return;
    }
    if annotation(claim, PROVISIONER).is_none() {
        let mut updated_claim = claim.clone();
        object::set(
            &mut updated_claim,
            &["metadata", "annotations", PROVISIONER],
            provisioner.into(),
        );
        write(cluster, &claims(), updated_claim, Part::Whole);
    }
    let policy = class["reclaimPolicy"].as_str().unwrap_or("Delete");
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": format!("pvc-{}", uid(claim)),
            "annotations": {PROVISIONED_BY: provisioner},
        },
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "claimRef": {
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace(claim),
                "name": name(claim), "uid": uid(claim), "resourceVersion": object::version(claim),
            },
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": name(class),
            "volumeMode": claim["spec"]["volumeMode"],
            "csi": {"driver": provisioner, "volumeHandle": uid(claim)},
        },
    });
    // A volume of this name is this claim's.
    let _ = create(cluster, &volumes(), volume);
}

/// The names of the claims that a pod uses.
fn used_by(pod: &Value) -> impl Iterator<Item = (String, &Value)> {
    items(&pod["spec"]["volumes"]).filter_map(|volume| {
        let named = volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
        let own = volume["ephemeral"]
            .is_object()
            .then(|| format!("{}-{}", name(pod), text(&volume["name"])));
        Some((named.or(own)?, volume))
    })
}

/// Makes the claims of volumes that live as long as their pod.
pub(super) fn make_own_claims(cluster: &mut Cluster, pod: &Value) {
    for (claim, volume) in used_by(pod).filter(|(_, volume)| volume["ephemeral"].is_object()) {
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        make_claim(cluster, pod, &claim, template);
    }
}

/// Makes a claim after a template, unless it is there.
pub(super) fn make_claim(cluster: &mut Cluster, owner: &Value, claim: &str, template: &Value) {
    let key = Key::new(namespace(owner), claim);
    if cluster.store.get(&claims(), &key).is_some() {
        return;
    }
    let mut new =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": template["spec"]});
    for marks in ["labels", "annotations"] {
        if let Some(given) = template["metadata"].get(marks) {
            object::set(&mut new, &["metadata", marks], given.clone());
        }
    }
    object::set(&mut new, &["metadata", "name"], claim.into());
    object::set(&mut new, &["metadata", "namespace"], namespace(owner).into());
    if text(&owner["kind"]) == "Pod" {
        object::set(&mut new, &["metadata", "ownerReferences"], json!([owner_reference(owner)]));
    }
    // A rejected object is retried when its owner is next reconciled.
    let _ = create(cluster, &claims(), new);
}

/// Whether everything that a pod mounts is there.
pub(crate) fn are_bound(cluster: &Cluster, pod: &Value) -> bool {
    used_by(pod).all(|(claim, _)| {
        let claim = cluster.store.get(&claims(), &Key::new(namespace(pod), claim));
        claim.is_some_and(|claim| claim["status"]["phase"] == "Bound")
    })
}

/// Pods that mount a claim.
pub(super) fn users(cluster: &Cluster, claim: &Key) -> Vec<Key> {
    let pods = cluster.store.of_namespace(&id(crate::kinds::PODS), &claim.namespace);
    pods.filter(|pod| used_by(pod).any(|(used, _)| used == claim.name))
        .map(|pod| Key::of(pod))
        .collect()
}
