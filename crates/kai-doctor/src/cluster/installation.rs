//! What `kai manifests` prints, against what is there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::objects::{Role, RoleBinding, Rule};
use super::{ClusterFacts, Expectations, INSTALL};
use crate::check::Check;
use crate::finding::{Finding, Severity};

pub(super) fn findings(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    expected.manifests.iter().filter_map(|object| of_object(facts, object)).collect()
}

fn of_object(facts: &ClusterFacts, object: &Value) -> Option<Finding> {
    let kind = object["kind"].as_str()?;
    let name = object["metadata"]["name"].as_str()?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let finding = |check: Check, message: String| {
        let path =
            if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        let object = format!("{kind} {path}");
        Finding { check, severity: Severity::Error, object, message, fix: INSTALL.to_owned() }
    };
    let missing = "it is not installed".to_owned();
    if !facts.was_read(part_of(kind)) {
        return None;
    }
    match kind {
        "CustomResourceDefinition" => {
            let found = facts.definitions.iter().any(|one| one.metadata.name == name);
            (!found).then(|| finding(Check::CrdMissing, missing))
        }
        "ServiceAccount" => {
            let found = facts
                .accounts
                .iter()
                .any(|one| one.metadata.name == name && one.metadata.namespace == namespace);
            (!found).then(|| finding(Check::AccountMissing, missing))
        }
        "ClusterRole" | "Role" => {
            let roles = if kind == "Role" { &facts.roles } else { &facts.cluster_roles };
            lacking(object, roles).map(|message| finding(Check::RoleIncomplete, message))
        }
        "ClusterRoleBinding" | "RoleBinding" => {
            let cluster_wide = kind == "ClusterRoleBinding";
            let bindings =
                if cluster_wide { &facts.cluster_role_bindings } else { &facts.role_bindings };
            unbound(object, bindings).map(|message| finding(Check::BindingMissing, message))
        }
        _ => None,
    }
}

/// The list in which objects of a kind are found.
fn part_of(kind: &str) -> &'static str {
    match kind {
        "CustomResourceDefinition" => "definitions",
        "ServiceAccount" => "accounts",
        "ClusterRole" => "clusterRoles",
        "ClusterRoleBinding" => "clusterRoleBindings",
        "Role" => "roles",
        "RoleBinding" => "roleBindings",
        _ => "",
    }
}

/// Group, resource and verb.
type Right = (String, String, String);

fn rights(rules: &[Rule]) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for rule in rules {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                let right = |verb: &String| (group.clone(), resource.clone(), verb.clone());
                all.extend(rule.verbs.iter().map(right));
            }
        }
    }
    all
}

/// Whether one of them gives the right; `*` stands for everything.
fn gives(known: &BTreeSet<Right>, (group, resource, verb): &Right) -> bool {
    let fits = |known: &str, wanted: &str| known == "*" || known == wanted;
    known.iter().any(|one| fits(&one.0, group) && fits(&one.1, resource) && fits(&one.2, verb))
}

fn lacking(object: &Value, roles: &[Role]) -> Option<String> {
    let wanted: Role = serde_json::from_value(object.clone()).ok()?;
    let metadata = &wanted.metadata;
    let found = roles.iter().find(|role| {
        role.metadata.name == metadata.name && role.metadata.namespace == metadata.namespace
    });
    let Some(found) = found else { return Some("it is not installed".to_owned()) };
    let known = rights(&found.rules);
    let mut lacking: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for right in rights(&wanted.rules) {
        if !gives(&known, &right) {
            let (group, resource, verb) = right;
            let resource = if group.is_empty() { resource } else { format!("{resource}.{group}") };
            lacking.entry(resource).or_default().push(verb);
        }
    }
    let texts: Vec<String> = lacking
        .iter()
        .map(|(resource, verbs)| format!("{resource} ({})", verbs.join(", ")))
        .collect();
    (!texts.is_empty()).then(|| format!("it lacks rights: {}", texts.join("; ")))
}

fn unbound(object: &Value, bindings: &[RoleBinding]) -> Option<String> {
    let wanted: RoleBinding = serde_json::from_value(object.clone()).ok()?;
    let bound = |subject| {
        bindings.iter().any(|one| {
            one.metadata.namespace == wanted.metadata.namespace
                && one.role_ref == wanted.role_ref
                && one.subjects.contains(subject)
        })
    };
    let without: Vec<String> = wanted
        .subjects
        .iter()
        .filter(|subject| !bound(subject))
        .map(|subject| format!("{}/{}", subject.namespace, subject.name))
        .collect();
    let role = &wanted.role_ref.name;
    (!without.is_empty()).then(|| format!("role {role} is not bound to {}", without.join(", ")))
}
