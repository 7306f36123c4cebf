//! What is served: built-in resources and custom resources.

mod builtin;
pub(crate) mod messages;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use builtin::{
    CONFIG_MAPS, CRDS, EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
};
pub use shape::{ShapeFault, check_shape};

use crate::store::ResourceId;

/// A resource that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// API group and plural name, which identify the resource.
    pub id: ResourceId,
    /// Name of one in commands.
    pub singular: String,
    /// Name of one in objects.
    pub kind: String,
    /// Name of a list of them.
    pub list_kind: String,
    /// Whether they live in namespaces.
    pub namespaced: bool,
    /// Shorter names in commands.
    pub short_names: Vec<String>,
    /// Groups of resources they belong to in commands, such as `all`.
    pub categories: Vec<String>,
    /// Versions that are served; the first is preferred and stored.
    pub versions: Vec<Version>,
    /// Whether the resource is built in or comes from a custom resource definition.
    pub origin: Origin,
}

/// Where the definition of a resource comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built into Kubernetes.
    Builtin,
    /// A custom resource definition.
    Custom,
}

/// A version of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Version {
    /// Its name, such as `v1`.
    pub name: String,
    /// The status is written by itself.
    pub status: bool,
    /// It can be scaled.
    pub scale: Option<ScalePaths>,
    /// What its objects must look like; none for built-in ones, whose types are known.
    pub schema: Option<Arc<Value>>,
    /// Columns of tables; none for built-in ones.
    pub columns: Vec<Value>,
    /// Fields that may be selected by, beyond name and namespace.
    pub selectable: Vec<String>,
}

/// Where the numbers of a scale are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// Wanted replicas, such as `.spec.replicas`.
    pub spec: String,
    /// Path of the existing replicas, such as `.status.replicas`.
    pub status: String,
    /// Their selector, as a text or as a selector object.
    pub selector: Option<String>,
}

impl Resource {
    /// The version of a name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version that is stored.
    pub fn stored(&self) -> &Version {
        &self.versions[0]
    }

    /// Group and version as objects name them.
    pub fn api_version(&self, version: &str) -> String {
        if self.id.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.id.group)
        }
    }

    /// Whether its objects may be selected by more than name and namespace.
    pub fn has_own_selectors(&self) -> bool {
        !builtin::selectable_fields(&self.id).is_empty()
    }

    /// Whether its objects may be selected by a field.
    pub fn selects_by(&self, version: &str, path: &str) -> bool {
        let ours = || self.version(version).into_iter().flat_map(|version| &version.selectable);
        matches!(path, "metadata.name" | "metadata.namespace")
            || builtin::selectable_fields(&self.id).contains(&path)
            || ours().any(|own| own == path)
    }
}

/// Everything that is served.
#[derive(Clone, Debug)]
pub struct Kinds {
    resources: BTreeMap<ResourceId, Arc<Resource>>,
}

impl Default for Kinds {
    fn default() -> Self {
        let resources = builtin::resources().map(|one| (one.id.clone(), Arc::new(one)));
        Self { resources: resources.collect() }
    }
}

impl Kinds {
    /// Every resource, by group and name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The resource of an id; none if it is not served.
    pub fn get(&self, id: &ResourceId) -> Option<&Arc<Resource>> {
        self.resources.get(id)
    }

    /// The resource of a kind in one of its versions.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.resources.values().find(|resource| {
            &*resource.id.group == group
                && resource.kind == kind
                && resource.version(version).is_some()
        })
    }

    /// Serves what a custom resource definition defines.
    pub fn define(&mut self, definition: &Value) {
        if let Some(resource) = crate::crd::resource(definition) {
            self.resources.insert(resource.id.clone(), Arc::new(resource));
        }
    }

    /// Serves it no more.
    pub fn undefine(&mut self, definition: &Value) {
        if let Some(resource) = crate::crd::resource(definition) {
            self.resources.remove(&resource.id);
        }
    }
}

/// The id of a built-in resource.
pub fn id(named: (&str, &str)) -> ResourceId {
    ResourceId::new(named.0, named.1)
}
