//! Kinds of workloads that others define: the definitions their operators would install.

use serde_json::{Value, json};

/// Group, version, kind and plural of each.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
];

/// The definitions. Their schemas take everything: what is wrong with such an object is its operator's business.
pub fn workload_definitions() -> impl Iterator<Item = Value> {
    KINDS.iter().map(|(group, version, kind, plural)| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {
                    "plural": plural,
                    "singular": kind.to_lowercase(),
                    "kind": kind,
                    "listKind": format!("{kind}List"),
                },
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    })
}
