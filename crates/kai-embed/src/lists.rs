//! How lists are merged: replaced as a whole, as sets, or item by item by key.

use serde_json::Value;

/// How a list is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Replaced as a whole.
    Atomic,
    /// A set of values.
    Set,
    /// Items are identified by these keys.
    Map(Vec<String>),
}

/// Where in an object we are, as far as it matters to lists.
#[derive(Clone, Copy, Debug)]
pub enum Lists<'a> {
    /// In a built-in object, or in the metadata of any.
    Builtin,
    /// In a custom resource of this schema.
    Schema(&'a Value),
}

impl<'a> Lists<'a> {
    /// At the root of an object.
    pub fn at_root(schema: Option<&'a Value>) -> Self {
        schema.map_or(Self::Builtin, Self::Schema)
    }

    /// The rules for a field of the object.
    #[must_use]
    pub fn field(self, key: &str) -> Self {
        match self {
            Self::Builtin => Self::Builtin,
            Self::Schema(_) if key == "metadata" => Self::Builtin,
            Self::Schema(schema) => {
                let named = schema["properties"].get(key);
                Self::Schema(named.unwrap_or(&schema["additionalProperties"]))
            }
        }
    }

    /// In an item of the list we are at.
    #[must_use]
    pub fn item(self) -> Self {
        match self {
            Self::Builtin => Self::Builtin,
            Self::Schema(schema) => Self::Schema(&schema["items"]),
        }
    }

    /// How the list is merged that we are at, in a field of this name.
    pub fn kind(self, key: &str) -> ListKind {
        match self {
            Self::Builtin => builtin(key),
            Self::Schema(schema) => match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListKind::Set,
                Some("map") => {
                    let keys = crate::object::items(&schema["x-kubernetes-list-map-keys"]);
                    ListKind::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect())
                }
                _ => ListKind::Atomic,
            },
        }
    }
}

/// Lists of built-in objects, by the name of their field.
fn builtin(field: &str) -> ListKind {
    let key = match field {
        "finalizers" => return ListKind::Set,
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets"
        | "resourceClaims"
        | "resourceClaimStatuses"
        | "schedulingGates"
        | "webhooks" => "name",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ports" => return ListKind::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]),
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        _ => return ListKind::Atomic,
    };
    ListKind::Map(vec![key.to_owned()])
}

/// Whether two items of a list are the same one.
pub fn same_item(keys: &[String], one: &Value, other: &Value) -> bool {
    keys.iter().all(|key| key_value(one, key) == key_value(other, key))
}

/// The value of a key; protocols that are not given are TCP.
pub fn key_value(item: &Value, key: &str) -> Value {
    match item.get(key) {
        None if key == "protocol" => Value::from("TCP"),
        None => Value::Null,
        Some(value) => value.clone(),
    }
}
