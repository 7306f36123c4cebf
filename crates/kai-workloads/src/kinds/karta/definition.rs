//! Reading and validating a `Karta`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::GroupingError;
use crate::facts::Gvk;
use crate::jq::Query;
use crate::object::Object;

/// A sound description of a kind.
#[derive(Debug)]
pub(super) struct Structure {
    pub(super) name: String,
    pub(super) root: String,
    pub(super) pod_group: Option<PodGroup>,
    pub(super) members: Vec<Member>,
    components: BTreeMap<String, Component>,
    /// Components in the order in which they are defined, the root first.
    order: Vec<String>,
}

/// A component of the kind.
#[derive(Debug)]
pub(super) struct Component {
    pub(super) parent: Option<String>,
    pub(super) children: Vec<String>,
    pub(super) has_pods: bool,
    pub(super) has_scale: bool,
    pub(super) replicas: Option<Query>,
    pub(super) min_replicas: Option<Query>,
    pub(super) instance_ids: Option<Query>,
    pub(super) type_selector: Option<TypeSelector>,
    pub(super) instance_selector: Option<Query>,
}

/// Which pods belong to a component: pods with a key, or with a value under it.
#[derive(Debug)]
pub(super) struct TypeSelector {
    pub(super) key: Query,
    pub(super) value: Option<String>,
}

/// A component of a group, and how its pods are split.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) component: String,
    pub(super) keys: Vec<Query>,
    pub(super) filters: Vec<Query>,
}

/// The group of a workload, in the current format.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodGroup {
    pub(super) name: String,
    #[serde(default)]
    pub(super) sub_groups: Vec<Part>,
    pub(super) topology: Option<Topology>,
}

/// A component that is a part of the group.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    pub(super) component_name: String,
    pub(super) topology: Option<Topology>,
}

/// Where pods belong together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Topology {
    #[serde(rename = "topologyName")]
    pub(super) name: Option<String>,
    #[serde(rename = "requiredTopologyLevel")]
    pub(super) required: Option<String>,
    #[serde(rename = "preferredTopologyLevel")]
    pub(super) preferred: Option<String>,
}

impl Structure {
    pub(super) fn component(&self, name: &str) -> Result<&Component, GroupingError> {
        let missing = || self.error(name, format!("component {name} is not defined"));
        self.components.get(name).ok_or_else(missing)
    }

    /// A component and all below it.
    pub(super) fn subtree<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let mut names = vec![name];
        let mut at = 0;
        while let Some(component) = names.get(at).and_then(|name| self.components.get(*name)) {
            names.extend(component.children.iter().map(String::as_str));
            at += 1;
        }
        names
    }

    /// Components that define pods, in the order in which they are defined.
    pub(super) fn with_pods(&self) -> impl Iterator<Item = (&str, &Component)> {
        let all =
            self.order.iter().filter_map(|name| Some((name.as_str(), self.components.get(name)?)));
        all.filter(|(_, component)| component.has_pods)
    }

    pub(super) fn error(&self, field: &str, problem: String) -> GroupingError {
        GroupingError { object: format!("Karta {}", self.name), field: field.to_owned(), problem }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    structure_definition: RawStructure,
    optimization_instructions: RawInstructions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStructure {
    root_component: RawComponent,
    child_components: Vec<RawComponent>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawInstructions {
    gang_scheduling: Option<RawGang>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawGang {
    pod_group: Option<PodGroup>,
    pod_groups: Vec<RawPodGroup>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPodGroup {
    members: Vec<RawMember>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMember {
    component_name: String,
    group_by_key_paths: Vec<String>,
    filters: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawComponent {
    name: String,
    kind: Option<RawKind>,
    owner_ref: Option<String>,
    spec_definition: Option<Value>,
    scale_definition: Option<RawScale>,
    status_definition: Option<Value>,
    instance_id_path: Option<String>,
    pod_selector: Option<RawSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawKind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawScale {
    replicas_path: Option<String>,
    min_replicas_path: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSelector {
    component_type_selector: Option<RawTypeSelector>,
    component_instance_selector: Option<RawInstanceSelector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTypeSelector {
    key_path: String,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawInstanceSelector {
    id_path: String,
}

/// What a `Karta` says about a kind: nothing, a sound structure, or nonsense.
pub(super) fn read(karta: &Value, gvk: &Gvk) -> Result<Option<Structure>, String> {
    if !karta["metadata"]["deletionTimestamp"].is_null() {
        return Ok(None);
    }
    let spec = karta.get("spec").cloned().unwrap_or_default();
    let spec: RawSpec = serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))?;
    let root = &spec.structure_definition.root_component;
    let kind =
        root.kind.as_ref().ok_or("root component must have full kind (group, version, kind)")?;
    if (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str())
        != (gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str())
    {
        return Ok(None);
    }
    let Some(gang) = spec.optimization_instructions.gang_scheduling else { return Ok(None) };
    if gang.pod_group.is_none() && gang.pod_groups.is_empty() {
        return Ok(None);
    }
    if root.owner_ref.is_some() {
        return Err("root component cannot have owner ref".to_owned());
    }
    if root.status_definition.is_none() {
        return Err("root component must have status definition".to_owned());
    }
    let root_name = root.name.clone();
    let (components, order) = components(spec.structure_definition)?;
    let structure = Structure {
        name: Object::new(karta).name().to_owned(),
        root: root_name,
        members: members(&gang.pod_groups)?,
        pod_group: gang.pod_group,
        components,
        order,
    };
    check_references(&structure)?;
    Ok(Some(structure))
}

type Components = (BTreeMap<String, Component>, Vec<String>);

fn components(structure: RawStructure) -> Result<Components, String> {
    let mut components = BTreeMap::new();
    let mut order = Vec::new();
    for raw in std::iter::once(structure.root_component).chain(structure.child_components) {
        if raw.name.is_empty() {
            return Err("component name is empty".to_owned());
        }
        if !order.is_empty() && raw.owner_ref.as_deref().is_none_or(str::is_empty) {
            return Err(format!("child component '{}' has no owner ref", raw.name));
        }
        let name = raw.name.clone();
        if components.insert(name.clone(), component(raw)?).is_some() {
            return Err(format!("component name {name} is not unique"));
        }
        order.push(name);
    }
    for name in &order {
        let Some(parent) = components[name].parent.clone() else { continue };
        let problem =
            format!("child component '{name}' has owner ref to non-existing component '{parent}'");
        components.get_mut(&parent).ok_or(problem)?.children.push(name.clone());
    }
    for name in &order {
        let (mut current, mut steps) = (name, 0);
        while let Some(parent) = &components[current].parent {
            (current, steps) = (parent, steps + 1);
            if steps > order.len() {
                return Err(format!("ownership cycle detected involving component {name}"));
            }
        }
    }
    Ok((components, order))
}

fn component(raw: RawComponent) -> Result<Component, String> {
    let scale = raw.scale_definition;
    let selector = raw.pod_selector.unwrap_or_default();
    if raw.instance_id_path.is_some() != selector.component_instance_selector.is_some() {
        return Err(format!(
            "component '{}' needs both an instance id path and a component instance selector, or neither",
            raw.name
        ));
    }
    let has_pods = raw.spec_definition.as_ref().is_some_and(|spec| {
        ["podTemplateSpecPath", "podSpecPath", "fragmentedPodSpecDefinition"]
            .iter()
            .any(|field| !spec[*field].is_null())
    });
    let type_selector = match selector.component_type_selector {
        None => None,
        Some(raw) => Some(TypeSelector { key: query(&raw.key_path)?, value: raw.value }),
    };
    Ok(Component {
        parent: raw.owner_ref,
        children: Vec::new(),
        has_pods,
        has_scale: scale.is_some(),
        replicas: optional(scale.as_ref().and_then(|scale| scale.replicas_path.as_deref()))?,
        min_replicas: optional(
            scale.as_ref().and_then(|scale| scale.min_replicas_path.as_deref()),
        )?,
        instance_ids: optional(raw.instance_id_path.as_deref())?,
        type_selector,
        instance_selector: optional(
            selector.component_instance_selector.as_ref().map(|selector| selector.id_path.as_str()),
        )?,
    })
}

fn query(text: &str) -> Result<Query, String> {
    Query::parse(text).map_err(|error| error.to_string())
}

fn optional(text: Option<&str>) -> Result<Option<Query>, String> {
    text.filter(|text| !text.is_empty()).map(query).transpose()
}

fn members(groups: &[RawPodGroup]) -> Result<Vec<Member>, String> {
    let all = groups.iter().flat_map(|group| &group.members);
    all.map(|raw| {
        Ok(Member {
            component: raw.component_name.clone(),
            keys: raw
                .group_by_key_paths
                .iter()
                .map(|text| query(text))
                .collect::<Result<_, _>>()?,
            filters: raw.filters.iter().map(|text| query(text)).collect::<Result<_, _>>()?,
        })
    })
    .collect()
}

fn check_references(structure: &Structure) -> Result<(), String> {
    let parts = structure.pod_group.iter().flat_map(|group| &group.sub_groups);
    let named = parts
        .map(|part| &part.component_name)
        .chain(structure.members.iter().map(|member| &member.component));
    for name in named {
        if !structure.components.contains_key(name) {
            return Err(format!("pod-group member component '{name}' is not defined"));
        }
    }
    Ok(())
}
