//! Custom resource definitions: what they define, and what their schemas ask of objects.

mod rules;
mod schema;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use rules::{check_rules, has_rules};
pub(crate) use schema::property;
pub use schema::{apply_defaults, prune};
pub(crate) use schema::{duplicates, validate};

use crate::kinds::{Origin, Resource, ScalePaths, Version};
use crate::object::{items, text};
use crate::store::ResourceId;

/// The resource that a definition defines; none where the definition says too little.
pub fn resource(definition: &Value) -> Option<Resource> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let (group, plural, kind) =
        (spec["group"].as_str()?, names["plural"].as_str()?, names["kind"].as_str()?);
    let mut versions: Vec<(bool, Version)> = items(&spec["versions"])
        .filter(|version| version["served"] != false)
        .map(|one| (one["storage"] == true, version(one)))
        .collect();
    versions.sort_by_key(|(stored, _)| !stored);
    if versions.is_empty() {
        return None;
    }
    let texts = |list: &Value| items(list).map(|one| text(one).to_owned()).collect();
    let or = |value: &Value, or: String| value.as_str().map_or(or, str::to_owned);
    Some(Resource {
        id: ResourceId::new(group, plural),
        singular: or(&names["singular"], kind.to_lowercase()),
        kind: kind.to_owned(),
        list_kind: or(&names["listKind"], format!("{kind}List")),
        namespaced: spec["scope"] == "Namespaced",
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        versions: versions.into_iter().map(|(_, version)| version).collect(),
        origin: Origin::Custom,
    })
}

fn version(version: &Value) -> Version {
    let subresources = &version["subresources"];
    let scale = &subresources["scale"];
    Version {
        name: text(&version["name"]).to_owned(),
        status: subresources["status"].is_object(),
        scale: scale.is_object().then(|| ScalePaths {
            spec: text(&scale["specReplicasPath"]).to_owned(),
            status: text(&scale["statusReplicasPath"]).to_owned(),
            selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        }),
        schema: version["schema"].get("openAPIV3Schema").map(|schema| Arc::new(schema.clone())),
        columns: items(&version["additionalPrinterColumns"]).cloned().collect(),
        selectable: items(&version["selectableFields"])
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
    }
}
