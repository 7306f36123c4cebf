//! Defaults and rules of built-in objects, where clients or controllers depend on them.

mod devices;
mod pods;
mod webhooks;
mod workloads;

pub(crate) use webhooks::WebhookIndex;
pub(crate) use webhooks::{Operation, Stage};
pub use webhooks::{Question, Webhooks};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::failure::{Failure, FieldFault};
use crate::kinds::Resource;
use crate::object::{self, at, entries, name};
use crate::store::ResourceId;

/// Fills what a new object does not say and what does not depend on the rest of the cluster.
pub(crate) fn fill_alone(resource: &Resource, object: &mut Value) {
    if (&*resource.id.group, &*resource.id.plural) == ("", "pods") {
        pods::fill(object);
    }
}

/// Fills what a new object does not say.
pub(crate) fn fill_new(
    cluster: &Cluster,
    resource: &Resource,
    object: &mut Value,
) -> Result<(), Failure> {
    match (&*resource.id.group, &*resource.id.plural) {
        ("", "pods") => pods::fill_new(cluster, object),
        ("", "namespaces") => {
            object::set(object, &["spec", "finalizers"], json!(["kubernetes"]));
            object::set(object, &["status", "phase"], json!("Active"));
            let name = name(object).to_owned();
            object::set(
                object,
                &["metadata", "labels", "kubernetes.io/metadata.name"],
                name.into(),
            );
            Ok(())
        }
        ("", "persistentvolumeclaims") => {
            object::set(object, &["status", "phase"], json!("Pending"));
            object::set_default(object, &["spec", "volumeMode"], json!("Filesystem"));
            if let Some(class) = default_class(cluster) {
                object::set_default(object, &["spec", "storageClassName"], class.into());
            }
            Ok(())
        }
        ("", "persistentvolumes") => {
            object::set(object, &["status", "phase"], json!("Pending"));
            object::set_default(object, &["spec", "volumeMode"], json!("Filesystem"));
            let policy = ["spec", "persistentVolumeReclaimPolicy"];
            object::set_default(object, &policy, json!("Retain"));
            Ok(())
        }
        ("resource.k8s.io", "resourceclaims") => {
            devices::fill_claim(&mut object["spec"]);
            Ok(())
        }
        ("resource.k8s.io", "resourceclaimtemplates") => {
            devices::fill_template(object);
            Ok(())
        }
        ("storage.k8s.io", "storageclasses") => {
            object::set_default(object, &["reclaimPolicy"], json!("Delete"));
            object::set_default(object, &["volumeBindingMode"], json!("Immediate"));
            Ok(())
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            object::set_default(object, &["preemptionPolicy"], json!("PreemptLowerPriority"));
            Ok(())
        }
        (group @ ("apps" | "batch" | "policy"), plural) => {
            workloads::fill(group, plural, object);
            if let Some(status) = workloads::first_status(plural) {
                object["status"] = status;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The storage class of claims that name none: the youngest class that is marked as default.
fn default_class(cluster: &Cluster) -> Option<String> {
    let classes = cluster.store.all(&ResourceId::new("storage.k8s.io", "storageclasses"));
    let marked = classes.filter(|class| {
        object::annotation(class, "storageclass.kubernetes.io/is-default-class") == Some("true")
    });
    let age = |class: &&std::sync::Arc<Value>| {
        object::text(at(class, &["metadata", "creationTimestamp"])).to_owned()
    };
    marked.max_by_key(age).map(|class| name(class).to_owned())
}

/// Fills what a changed object does not say.
pub(crate) fn fill_changed(resource: &Resource, old: &Value, new: &mut Value) {
    match (&*resource.id.group, &*resource.id.plural) {
        ("", "pods") => {
            pods::fill(new);
            pods::keep_priority(old, new);
        }
        ("", "namespaces") => {
            let finalizers = at(old, &["spec", "finalizers"]).clone();
            object::set_default(new, &["spec", "finalizers"], finalizers);
        }
        (group @ ("apps" | "batch"), plural) => workloads::fill(group, plural, new),
        _ => {}
    }
}

/// Rules of names and labels, the same for every kind.
pub(crate) fn check_metadata(resource: &Resource, object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let name = name(object);
    let long_names = &*resource.id.group == "rbac.authorization.k8s.io";
    if !long_names && !is_subdomain(name) {
        let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        faults.push(FieldFault::invalid("metadata.name", &json!(name), why));
    }
    for (key, value) in entries(at(object, &["metadata", "labels"])) {
        if value.len() > 63 {
            let why = "must be no more than 63 characters";
            faults.push(FieldFault::invalid(format!("metadata.labels[{key}]"), &json!(value), why));
        }
    }
    faults
}

fn is_subdomain(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|byte| letter(*byte))
            && bytes.last().is_some_and(|byte| letter(*byte))
            && bytes.iter().all(|byte| letter(*byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Rules of built-in objects.
pub(crate) fn check_builtin(
    resource: &Resource,
    old: Option<&Value>,
    new: &Value,
) -> Vec<FieldFault> {
    match (&*resource.id.group, &*resource.id.plural) {
        ("", "pods") => pods::check(old, new),
        ("apps" | "batch", plural) => workloads::check(plural, old, new),
        _ => Vec::new(),
    }
}
