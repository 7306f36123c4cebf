//! Kinds whose objects are created or applied: the type decides the path.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kai_api::{BindRequest, PodGroup};
use kai_core::input::ObjectName;
use serde::Serialize;
use serde_json::Value;

use crate::path::Resource;

/// A kind of which objects are written whole.
pub trait Object: Serialize {
    /// Kind of the object, as a path of the API.
    const RESOURCE: Resource;

    /// Name, namespace, labels and annotations.
    fn metadata(&self) -> &ObjectMeta;
}

macro_rules! written {
    ($($kind:ty: $resource:ident),* $(,)?) => {$(
        impl Object for $kind {
            const RESOURCE: Resource = Resource::$resource;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )*};
}

written! {
    BindRequest: BIND_REQUESTS,
    ConfigMap: CONFIG_MAPS,
    Event: EVENTS,
    PodGroup: POD_GROUPS,
    ResourceClaim: RESOURCE_CLAIMS,
}

/// A value of a type of ours as JSON.
#[expect(
    clippy::expect_used,
    reason = "types of ours have texts as keys, which is all that can fail"
)]
pub(super) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

/// Metadata of an object of this name.
pub fn named(name: &ObjectName) -> ObjectMeta {
    let namespace = Some(name.namespace.to_string()).filter(|namespace| !namespace.is_empty());
    ObjectMeta { name: Some(name.name.to_string()), namespace, ..ObjectMeta::default() }
}

/// The pod owns an object: the object is removed with it.
pub fn owned_by_pod(pod: &ObjectName, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name.to_string(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}
