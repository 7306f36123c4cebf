//! What there is: groups, versions, resources; health and version of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::request::Answer;
use crate::cluster::Cluster;
use crate::kinds::{Resource, Version};

/// The release whose API this is.
pub(crate) const KUBERNETES: &str = "v1.36.4";

impl Cluster {
    /// Something that is always there; none where it is not.
    pub(super) fn describe(&self, path: &str) -> Option<Answer> {
        let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let object = match segments.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => {
                return Some(Answer::Text(200, "ok".to_owned()));
            }
            ["version"] => version(),
            ["api"] => json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }),
            ["apis"] => {
                let groups: Vec<Value> =
                    self.groups().keys().map(|group| self.group(group)).collect();
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            }
            ["api", version] => self.resource_list("", version)?,
            ["apis", group] => {
                if !self.groups().contains_key(*group) {
                    return None;
                }
                let mut object = self.group(group);
                object["kind"] = json!("APIGroup");
                object["apiVersion"] = json!("v1");
                object
            }
            ["apis", group, version] => self.resource_list(group, version)?,
            [] => {
                json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]})
            }
            // Protocol buffers, of which an empty text is an empty document: newer clients read the third version.
            ["openapi", "v2"] => return Some(Answer::Text(200, String::new())),
            ["openapi", ..] => super::openapi::describe(self, &segments)?,
            _ => return None,
        };
        Some(Answer::object(200, object))
    }

    /// Versions by group, without the core.
    fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in self.kinds.all().filter(|resource| !resource.id.group.is_empty()) {
            let versions = groups.entry(resource.id.group.to_string()).or_default();
            for version in &resource.versions {
                if !versions.contains(&version.name) {
                    versions.push(version.name.clone());
                }
            }
        }
        for (group, kind) in [("authorization.k8s.io", "v1"), ("authentication.k8s.io", "v1")] {
            groups.insert(group.to_owned(), vec![kind.to_owned()]);
        }
        groups
    }

    fn group(&self, group: &str) -> Value {
        let versions: Vec<Value> = self.groups()[group]
            .iter()
            .map(
                |version| json!({"groupVersion": format!("{group}/{version}"), "version": version}),
            )
            .collect();
        json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
    }

    fn served<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<Resource>, &'a Version)> {
        let ours = self.kinds.all().filter(move |resource| &*resource.id.group == group);
        ours.filter_map(move |resource| Some((resource, resource.version(version)?)))
    }

    fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let mut resources = Vec::new();
        for (resource, version) in self.served(group, version) {
            resources.push(json!({
                "name": &*resource.id.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": VERBS,
                "shortNames": resource.short_names,
                "categories": resource.categories,
            }));
            for (part, kind, verbs) in parts(resource, version) {
                let mut entry = json!({
                    "name": format!("{}/{part}", resource.id.plural),
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": kind,
                    "verbs": verbs,
                });
                // Some parts are of a kind of another group.
                if let Some((group, version)) = other_group(kind) {
                    entry["group"] = json!(group);
                    entry["version"] = json!(version);
                }
                resources.push(entry);
            }
        }
        resources.extend(reviews(group));
        if resources.is_empty() {
            return None;
        }
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Some(json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": name,
            "resources": resources,
        }))
    }
}

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The parts of a resource's objects that have paths of their own: name, kind, verbs.
fn parts<'a>(
    resource: &'a Resource,
    version: &Version,
) -> Vec<(&'static str, &'a str, Vec<&'static str>)> {
    let mut parts = Vec::new();
    if version.status {
        parts.push(("status", resource.kind.as_str(), vec!["get", "patch", "update"]));
    }
    if version.scale.is_some() {
        parts.push(("scale", "Scale", vec!["get", "patch", "update"]));
    }
    if resource.id.group.is_empty() && &*resource.id.plural == "pods" {
        parts.push(("binding", "Binding", vec!["create"]));
        parts.push(("eviction", "Eviction", vec!["create"]));
        parts.push(("log", "Pod", vec!["get"]));
    }
    parts
}

/// The group of a kind that parts of objects have.
fn other_group(kind: &str) -> Option<(&'static str, &'static str)> {
    match kind {
        "Eviction" => Some(("policy", "v1")),
        "Scale" => Some(("autoscaling", "v1")),
        _ => None,
    }
}

/// Questions about rights and identity; they are no objects.
fn reviews(group: &str) -> Vec<Value> {
    let review = |name: &str, kind: &str| json!({"name": name, "singularName": "", "namespaced": false, "kind": kind, "verbs": ["create"]});
    match group {
        "authorization.k8s.io" => vec![
            review("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
            review("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
            review("subjectaccessreviews", "SubjectAccessReview"),
        ],
        "authentication.k8s.io" => vec![review("selfsubjectreviews", "SelfSubjectReview")],
        _ => Vec::new(),
    }
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": KUBERNETES,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}
