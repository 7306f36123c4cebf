//! Just enough of the API's description for `kubectl explain`, and for `kubectl` to know that the server checks fields itself.

mod built_in;

use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::kinds::Resource;

/// A part of the description; none where there is no such part.
pub(super) fn describe(cluster: &Cluster, segments: &[&str]) -> Option<Value> {
    match segments {
        ["openapi", "v3"] => Some(index(cluster)),
        ["openapi", "v3", "api", version] => document(cluster, "", version),
        ["openapi", "v3", "apis", group, version] => document(cluster, group, version),
        _ => None,
    }
}

/// Where each version of a group is described.
fn index(cluster: &Cluster) -> Value {
    let mut paths = Map::new();
    for resource in cluster.kinds.all() {
        for version in &resource.versions {
            let path = path(&resource.id.group, &version.name);
            let url = format!("/openapi/v3/{path}?hash={}", cluster.store.version());
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn document(cluster: &Cluster, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    for resource in cluster.kinds.all() {
        if &*resource.id.group == group && resource.version(version).is_some() {
            let namespace = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
            let place =
                format!("/{}/{namespace}{}/{{name}}", path(group, version), resource.id.plural);
            paths.insert(place, json!({"patch": patch(resource, version)}));
        }
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "kai", "version": super::discovery::KUBERNETES},
        "paths": paths,
        "components": {"schemas": schemas(cluster, group, version)},
    }))
}

/// What `kubectl explain` prints: the fields of all kinds, and where the fields of Kubernetes' own kinds are documented.
fn schemas(cluster: &Cluster, group: &str, version: &str) -> Map<String, Value> {
    let mut schemas = Map::new();
    for resource in cluster.kinds.all().filter(|resource| &*resource.id.group == group) {
        let Some(served) = resource.version(version) else { continue };
        let mut schema = match &served.schema {
            Some(schema) => Value::clone(schema),
            None => built_in::describe(&mut schemas, group, &resource.kind),
        };
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "version": version, "kind": resource.kind}]);
        schemas.insert(format!("{group}.{version}.{}", resource.kind), schema);
    }
    schemas
}

/// Patches of a resource can be checked and tried.
fn patch(resource: &Resource, version: &str) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    json!({
        "operationId": format!("patch{}", resource.kind),
        "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"), parameter("force")],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": &*resource.id.group,
            "version": version,
            "kind": resource.kind,
        },
    })
}
