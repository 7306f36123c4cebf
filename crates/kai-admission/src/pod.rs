//! A pod in an admission review: typed where the rules look, everything else kept as it came.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields that no rule looks at; a patch writes them back unchanged.
type OtherFields = Map<String, Value>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Pod {
    /// Name, namespace, annotations and owners.
    pub metadata: Metadata,
    pub spec: Spec,
}

/// Metadata of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Empty where the API server still has to generate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Empty where the pod leaves it to the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Prefix of a generated name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_references: Option<Vec<Owner>>,
}

/// An owner of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Owner {
    pub name: String,
}

/// Containers, volumes and placement of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Scheduler that the pod asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Node that the pod is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<Vec<Container>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Vec<Container>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Volume>>,
    /// Security context of all containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Value>,
    /// Secrets with which images are pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Unique within the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<Variable>>,
    /// Objects whose keys become environment variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_from: Option<Vec<VariableSource>>,
    /// Requests, limits and claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Volumes in the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,
    #[serde(flatten)]
    others: OtherFields,
}

impl Container {
    /// Image of the container.
    pub fn image(&self) -> Option<&str> {
        self.others.get("image")?.as_str()
    }
}

/// A volume in a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    /// Name of the volume.
    pub name: String,
    /// Where the container finds the volume.
    pub mount_path: String,
    #[serde(flatten)]
    others: OtherFields,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variable {
    /// Name of the variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Literal value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Reference to the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<Value>,
    #[serde(flatten)]
    others: OtherFields,
}

impl Variable {
    /// A variable with a literal value.
    pub fn literal(name: &str, value: &str) -> Self {
        let (name, value) = (Some(name.to_owned()), Some(value.to_owned()));
        Self { name, value, ..Self::default() }
    }

    /// A variable whose value comes from a reference.
    pub fn reference(name: &str, source: Value) -> Self {
        Self { name: Some(name.to_owned()), value_from: Some(source), ..Self::default() }
    }

    /// Has the variable this name?
    pub fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }
}

/// An object whose keys become environment variables.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VariableSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapReference>,
    #[serde(flatten)]
    others: OtherFields,
}

impl VariableSource {
    /// A config map without which the container starts too.
    pub fn optional_config_map(name: &str) -> Self {
        let reference = ConfigMapReference {
            name: Some(name.to_owned()),
            optional: Some(true),
            others: OtherFields::default(),
        };
        Self { config_map_ref: Some(reference), others: OtherFields::default() }
    }

    /// Name of the config map.
    pub fn config_map_name(&self) -> Option<&str> {
        self.config_map_ref.as_ref()?.name.as_deref()
    }
}

/// A reference to a config map of the pod's namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ConfigMapReference {
    /// Name of the config map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// May the container start without it?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    #[serde(flatten)]
    others: OtherFields,
}

/// What a container asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Resources {
    /// Requests; quantities are strings or numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<BTreeMap<String, Value>>,
    /// Limits; quantities are strings or numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Value>>,
    /// Claims of the pod that the container uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<Value>>,
    #[serde(flatten)]
    others: OtherFields,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Volume {
    /// Unique within the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(flatten)]
    others: OtherFields,
}

impl Volume {
    /// A volume with the keys of a config map.
    pub fn config_map(name: &str, map: &str) -> Self {
        let source = serde_json::json!({"name": map});
        let others = OtherFields::from_iter([("configMap".to_owned(), source)]);
        Self { name: Some(name.to_owned()), others }
    }
}

impl Pod {
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) {
        let annotations = self.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
    }

    /// Init containers, or the others.
    pub fn containers(&self, init: bool) -> &[Container] {
        let list = if init { &self.spec.init_containers } else { &self.spec.containers };
        list.as_deref().unwrap_or_default()
    }

    /// Init containers, or the others.
    pub fn containers_mut(&mut self, init: bool) -> &mut [Container] {
        let list = if init { &mut self.spec.init_containers } else { &mut self.spec.containers };
        list.as_deref_mut().unwrap_or_default()
    }
}
