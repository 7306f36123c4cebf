//! What built-in objects look like: their types, and the fields that no type knows.

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, batch::v1 as batch,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    events::v1 as events, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
    resource::v1 as devices, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Origin, Resource};

/// A field that has another type than it must have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ShapeFault {
    /// Path of the field.
    pub path: String,
    /// What is wrong with it.
    pub problem: ShapeProblem,
}

/// What is wrong with the shape of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeProblem {
    /// It is of another type.
    #[error("{0}")]
    Type(String),
}

/// Fields that are newer than the types we are built with.
const NEWER_FIELDS: [&str; 2] = ["spec.workloadRef", "spec.schedulingGroup"];

/// Checks the types of an object's fields and gives the paths of fields that its kind does not have. Of custom resources
/// only the metadata is checked.
pub fn check_shape(resource: &Resource, object: &Value) -> Result<Vec<String>, ShapeFault> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get("metadata").filter(|metadata| !metadata.is_null()) {
        let known = round_trip::<ObjectMeta>(metadata)
            .map_err(|fault| ShapeFault { path: format!("metadata.{}", fault.path), ..fault })?;
        find_unknown(metadata, &known, "metadata", &mut unknown);
    }
    if resource.origin == Origin::Builtin
        && let Some(known) = typed(&resource.id.group, &resource.kind, object)
    {
        let known = known?;
        for (key, value) in object.as_object().into_iter().flatten() {
            if !matches!(&**key, "apiVersion" | "kind" | "metadata") {
                find_unknown_at(key, value, &known, "", &mut unknown);
            }
        }
    }
    unknown.retain(|path| !NEWER_FIELDS.iter().any(|newer| path.ends_with(newer)));
    Ok(unknown)
}

fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, ShapeFault> {
    let typed: T = serde_path_to_error::deserialize(object).map_err(|error| ShapeFault {
        path: error.path().to_string(),
        problem: ShapeProblem::Type(error.inner().to_string()),
    })?;
    serde_json::to_value(typed).map_err(|error| ShapeFault {
        path: String::new(),
        problem: ShapeProblem::Type(error.to_string()),
    })
}

/// The object as its type sees it; none where we have no type of it.
fn typed(group: &str, kind: &str, object: &Value) -> Option<Result<Value, ShapeFault>> {
    Some(match (group, kind) {
        ("", "ConfigMap") => round_trip::<core::ConfigMap>(object),
        ("", "Endpoints") => round_trip::<core::Endpoints>(object),
        ("", "Event") => round_trip::<core::Event>(object),
        ("", "LimitRange") => round_trip::<core::LimitRange>(object),
        ("", "Namespace") => round_trip::<core::Namespace>(object),
        ("", "Node") => round_trip::<core::Node>(object),
        ("", "PersistentVolume") => round_trip::<core::PersistentVolume>(object),
        ("", "PersistentVolumeClaim") => round_trip::<core::PersistentVolumeClaim>(object),
        ("", "Pod") => round_trip::<core::Pod>(object),
        ("", "PodTemplate") => round_trip::<core::PodTemplate>(object),
        ("", "ResourceQuota") => round_trip::<core::ResourceQuota>(object),
        ("", "Secret") => round_trip::<core::Secret>(object),
        ("", "Service") => round_trip::<core::Service>(object),
        ("", "ServiceAccount") => round_trip::<core::ServiceAccount>(object),
        ("apps", "ControllerRevision") => round_trip::<apps::ControllerRevision>(object),
        ("apps", "DaemonSet") => round_trip::<apps::DaemonSet>(object),
        ("apps", "Deployment") => round_trip::<apps::Deployment>(object),
        ("apps", "ReplicaSet") => round_trip::<apps::ReplicaSet>(object),
        ("apps", "StatefulSet") => round_trip::<apps::StatefulSet>(object),
        ("batch", "CronJob") => round_trip::<batch::CronJob>(object),
        ("batch", "Job") => round_trip::<batch::Job>(object),
        _ => return typed_less_common(group, kind, object),
    })
}

fn typed_less_common(group: &str, kind: &str, object: &Value) -> Option<Result<Value, ShapeFault>> {
    Some(match (group, kind) {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            round_trip::<admission::MutatingWebhookConfiguration>(object)
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            round_trip::<admission::ValidatingWebhookConfiguration>(object)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            round_trip::<admission::ValidatingAdmissionPolicy>(object)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            round_trip::<admission::ValidatingAdmissionPolicyBinding>(object)
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            round_trip::<extensions::CustomResourceDefinition>(object)
        }
        ("coordination.k8s.io", "Lease") => round_trip::<coordination::Lease>(object),
        ("discovery.k8s.io", "EndpointSlice") => round_trip::<discovery::EndpointSlice>(object),
        ("events.k8s.io", "Event") => round_trip::<events::Event>(object),
        ("node.k8s.io", "RuntimeClass") => round_trip::<node::RuntimeClass>(object),
        ("policy", "PodDisruptionBudget") => round_trip::<policy::PodDisruptionBudget>(object),
        ("rbac.authorization.k8s.io", "ClusterRole") => round_trip::<rbac::ClusterRole>(object),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            round_trip::<rbac::ClusterRoleBinding>(object)
        }
        ("rbac.authorization.k8s.io", "Role") => round_trip::<rbac::Role>(object),
        ("rbac.authorization.k8s.io", "RoleBinding") => round_trip::<rbac::RoleBinding>(object),
        ("resource.k8s.io", "DeviceClass") => round_trip::<devices::DeviceClass>(object),
        ("resource.k8s.io", "ResourceClaim") => round_trip::<devices::ResourceClaim>(object),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            round_trip::<devices::ResourceClaimTemplate>(object)
        }
        ("resource.k8s.io", "ResourceSlice") => round_trip::<devices::ResourceSlice>(object),
        ("scheduling.k8s.io", "PriorityClass") => round_trip::<scheduling::PriorityClass>(object),
        ("storage.k8s.io", "CSIDriver") => round_trip::<storage::CSIDriver>(object),
        ("storage.k8s.io", "CSINode") => round_trip::<storage::CSINode>(object),
        ("storage.k8s.io", "CSIStorageCapacity") => {
            round_trip::<storage::CSIStorageCapacity>(object)
        }
        ("storage.k8s.io", "StorageClass") => round_trip::<storage::StorageClass>(object),
        ("storage.k8s.io", "VolumeAttachment") => round_trip::<storage::VolumeAttachment>(object),
        _ => return None,
    })
}

fn find_unknown(given: &Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    match given {
        Value::Object(map) => {
            for (key, value) in map {
                find_unknown_at(key, value, known, path, unknown);
            }
        }
        Value::Array(list) => {
            for (at, item) in list.iter().enumerate() {
                find_unknown(item, &known[at], &format!("{path}[{at}]"), unknown);
            }
        }
        _ => {}
    }
}

fn find_unknown_at(key: &str, value: &Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    let place = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match known.get(key) {
        Some(known) => find_unknown(value, known, &place, unknown),
        None if value.is_null() => {}
        None => unknown.push(place),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Kinds, PODS, id};
    use super::*;

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        let kinds = Kinds::default();
        let pods = kinds.get(&id(PODS)).expect("pods");
        let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        let fine = pod(
            json!({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}], "workloadRef": {"name": "w"}}),
        );
        assert_eq!(check_shape(pods, &fine), Ok(vec![]));
        let odd = pod(json!({"containers": [{"name": "c", "imagee": "x"}]}));
        assert_eq!(check_shape(pods, &odd), Ok(vec!["spec.containers[0].imagee".to_owned()]));
        let wrong = pod(json!({"containers": "none"}));
        let fault = check_shape(pods, &wrong).expect_err("it is wrong");
        assert_eq!(fault.path, "spec.containers");
    }
}
