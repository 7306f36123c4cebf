//! A write as method, path, content type and body.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::Method;
use serde::Serialize;

use super::patch::{Fields, Metadata};
use super::{Apply, BindPod, Create, Delete, Identity, Merge, Part, Patch, Target, Write};
use crate::path::{Resource, with_query};

/// HTTP form of a write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: BindingMetadata<'a>,
    target: NodeReference<'a>,
}

#[derive(Serialize)]
struct BindingMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<Cow<'static, str>, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeReference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Eviction<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: EvictionMetadata<'a>,
    delete_options: DeleteOptions<'a>,
}

#[derive(Serialize)]
struct EvictionMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions<'a> {
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

/// UID and resource version stand in the metadata of a patch: the API server compares them.
#[derive(Serialize)]
struct PatchedMetadata<'a> {
    #[serde(flatten)]
    metadata: &'a Metadata,
    #[serde(flatten)]
    precondition: Option<Preconditions<'a>>,
}

#[derive(Serialize)]
struct PatchBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<PatchedMetadata<'a>>,
    #[serde(flatten)]
    fields: &'a Fields,
}

impl Target {
    pub(super) fn path(&self) -> String {
        self.resource.object(&self.name)
    }

    fn preconditions(&self) -> Option<Preconditions<'_>> {
        match &self.identity {
            Identity::Uid(uid) => Some(Preconditions { uid, resource_version: None }),
            Identity::Version { uid, version } => {
                Some(Preconditions { uid, resource_version: Some(version) })
            }
            Identity::Any => None,
        }
    }
}

/// The request of a write.
pub(super) fn request(write: &Write) -> Result<Request, serde_json::Error> {
    match write {
        Write::Bind(bind) => binding(bind),
        Write::Evict(target) => eviction(target),
        Write::Delete(target, delete) => deletion(target, *delete),
        Write::Create(Create { resource, namespace, object, manager }) => {
            let path = resource.collection(namespace);
            let path = match manager {
                Some(manager) => with_query(&path, &[("fieldManager", *manager)]),
                None => path,
            };
            Ok(Request::new(Method::POST, path, JSON, serde_json::to_vec(object)?))
        }
        Write::Apply(Apply { resource, name, manager, object }) => {
            let query = [("fieldManager", *manager), ("force", "true")];
            let path = with_query(&resource.object(name), &query);
            Ok(Request::new(Method::PATCH, path, APPLY_PATCH, serde_json::to_vec(object)?))
        }
        Write::Patch(target, patch) => patched(target, patch),
    }
}

impl Request {
    fn new(method: Method, path: String, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { method, path, content_type, body }
    }
}

fn binding(bind: &BindPod) -> Result<Request, serde_json::Error> {
    let BindPod { pod, uid, node, labels, annotations } = bind;
    let (name, namespace) = (&pod.name, &pod.namespace);
    let metadata = BindingMetadata { name, namespace, uid, labels, annotations };
    let target = NodeReference { api_version: "v1", kind: "Node", name: node };
    let body = Binding { api_version: "v1", kind: "Binding", metadata, target };
    let path = Resource::PODS.object(pod) + "/binding";
    Ok(Request::new(Method::POST, path, JSON, serde_json::to_vec(&body)?))
}

fn eviction(target: &Target) -> Result<Request, serde_json::Error> {
    let body = Eviction {
        api_version: "policy/v1",
        kind: "Eviction",
        metadata: EvictionMetadata { name: &target.name.name, namespace: &target.name.namespace },
        delete_options: DeleteOptions {
            preconditions: target.preconditions(),
            ..DeleteOptions::default()
        },
    };
    let path = target.path() + "/eviction";
    Ok(Request::new(Method::POST, path, JSON, serde_json::to_vec(&body)?))
}

fn deletion(target: &Target, delete: Delete) -> Result<Request, serde_json::Error> {
    let Delete { grace_period_seconds } = delete;
    let options = DeleteOptions { grace_period_seconds, preconditions: target.preconditions() };
    Ok(Request::new(Method::DELETE, target.path(), JSON, serde_json::to_vec(&options)?))
}

fn patched(target: &Target, patch: &Patch) -> Result<Request, serde_json::Error> {
    let path = match patch.part {
        Part::Object => target.path(),
        Part::Status => target.path() + "/status",
    };
    let content_type = match patch.merge {
        Merge::Replace => MERGE_PATCH,
        Merge::ByKey => STRATEGIC_PATCH,
    };
    let Fields { metadata, .. } = &patch.fields;
    let precondition = target.preconditions();
    let is_named = precondition.is_some() || !metadata.is_empty();
    let metadata = is_named.then_some(PatchedMetadata { metadata, precondition });
    let body = serde_json::to_vec(&PatchBody { metadata, fields: &patch.fields })?;
    Ok(Request::new(Method::PATCH, path, content_type, body))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kai_core::input::ObjectName;
    use serde_json::{Value, json};

    use super::super::named;
    use super::*;

    fn sent(write: &Write) -> (String, String, &'static str, Value) {
        let request = request(write).expect("a request");
        let body = serde_json::from_slice(&request.body).expect("JSON");
        (request.method.to_string(), request.path, request.content_type, body)
    }

    fn pod() -> ObjectName {
        ObjectName::new("team", "p-0")
    }

    #[test]
    fn bind_names_pod_uid_and_node() {
        let write = Write::Bind(BindPod {
            pod: pod(),
            uid: "u".into(),
            node: "n".into(),
            labels: [("l".to_owned(), "m".to_owned())].into(),
            annotations: [("a".into(), "b".to_owned())].into(),
        });
        let metadata = json!({
            "name": "p-0", "namespace": "team", "uid": "u", "labels": {"l": "m"}, "annotations": {"a": "b"},
        });
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
        });
        let path = "/api/v1/namespaces/team/pods/p-0/binding".to_owned();
        assert_eq!(sent(&write), ("POST".to_owned(), path, JSON, body));
    }

    #[test]
    fn eviction_and_deletion_carry_the_uid() {
        let target = Target::of_uid(Resource::PODS, &pod(), "u");
        let (method, path, _, body) = sent(&Write::Evict(target.clone()));
        assert_eq!(
            (method.as_str(), path.as_str()),
            ("POST", "/api/v1/namespaces/team/pods/p-0/eviction")
        );
        assert_eq!(body["deleteOptions"], json!({"preconditions": {"uid": "u"}}));
        let delete = Delete { grace_period_seconds: Some(0) };
        let (method, path, _, body) = sent(&Write::Delete(target, delete));
        assert_eq!(
            (method.as_str(), path.as_str()),
            ("DELETE", "/api/v1/namespaces/team/pods/p-0")
        );
        assert_eq!(body, json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}));
    }

    #[test]
    fn patches_carry_uid_and_version_beside_other_metadata() {
        let target = Target::unchanged(Resource::PODS, &pod(), "u", "7");
        let patch = Patch::labels([("a", None)]);
        let (method, path, content_type, body) = sent(&Write::Patch(target, patch));
        assert_eq!((method.as_str(), content_type), ("PATCH", MERGE_PATCH));
        assert_eq!(path, "/api/v1/namespaces/team/pods/p-0");
        let metadata = json!({"labels": {"a": null}, "uid": "u", "resourceVersion": "7"});
        assert_eq!(body, json!({"metadata": metadata}));
        let node = Target::named(Resource::NODES, &ObjectName::new("", "n"));
        let (_, path, content_type, body) =
            sent(&Write::Patch(node, Patch::conditions(&[json!({"type": "Ready"})])));
        assert_eq!((path.as_str(), content_type), ("/api/v1/nodes/n/status", STRATEGIC_PATCH));
        assert_eq!(body, json!({"status": {"conditions": [{"type": "Ready"}]}}));
    }

    #[test]
    fn apply_names_its_manager() {
        let metadata = named(&ObjectName::new("team", "m"));
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        let write = Write::Apply(Apply::new(&map, "kai-binder"));
        let (method, path, content_type, _) = sent(&write);
        assert_eq!((method.as_str(), content_type), ("PATCH", APPLY_PATCH));
        assert_eq!(path, "/api/v1/namespaces/team/configmaps/m?fieldManager=kai-binder&force=true");
    }
}
