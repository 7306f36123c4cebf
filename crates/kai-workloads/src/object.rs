//! Reading objects of any kind, with errors that name the object and the field.

use std::collections::BTreeMap;

use kai_api::view::{OwnerReference, Pod};
use serde_json::Value;

use crate::error::GroupingError;
use crate::facts::Gvk;

/// A view of an object of any kind.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a>(&'a Value);

impl<'a> Object<'a> {
    /// A view of `value`.
    pub const fn new(value: &'a Value) -> Self {
        Self(value)
    }

    /// The object as JSON.
    pub const fn value(self) -> &'a Value {
        self.0
    }

    fn text(self, section: &str, key: &str) -> &'a str {
        let parent = if section.is_empty() { self.0 } else { &self.0[section] };
        parent[key].as_str().unwrap_or_default()
    }

    /// Group and version, `batch/v1`.
    pub fn api_version(self) -> &'a str {
        self.text("", "apiVersion")
    }

    /// `kind` of the object; empty if missing.
    pub fn kind(self) -> &'a str {
        self.text("", "kind")
    }

    /// Group, version and kind.
    pub fn gvk(self) -> Gvk {
        Gvk::from_api_version(self.api_version(), self.kind())
    }

    /// `metadata.name`; empty if missing.
    pub fn name(self) -> &'a str {
        self.text("metadata", "name")
    }

    /// Namespace; empty for cluster-scoped objects.
    pub fn namespace(self) -> &'a str {
        self.text("metadata", "namespace")
    }

    /// `metadata.uid`; empty if missing.
    pub fn uid(self) -> &'a str {
        self.text("metadata", "uid")
    }

    /// The value of a label; none if missing.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.0["metadata"]["labels"][key].as_str()
    }

    /// The value of an annotation; none if missing.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.0["metadata"]["annotations"][key].as_str()
    }

    /// `metadata.labels` as a map.
    pub fn labels(self) -> BTreeMap<String, String> {
        strings(&self.0["metadata"]["labels"])
    }

    /// `metadata.annotations` as a map.
    pub fn annotations(self) -> BTreeMap<String, String> {
        strings(&self.0["metadata"]["annotations"])
    }

    /// A reference to the object, as an owner.
    pub fn reference(self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version().to_owned(),
            kind: self.kind().to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            controller: None,
        }
    }

    /// `Kind namespace/name`, for messages.
    pub fn describe(self) -> String {
        if self.namespace().is_empty() {
            format!("{} {}", self.kind(), self.name())
        } else {
            format!("{} {}/{}", self.kind(), self.namespace(), self.name())
        }
    }

    /// An error about a field of the object.
    pub fn error(self, field: impl Into<String>, problem: impl Into<String>) -> GroupingError {
        GroupingError { object: self.describe(), field: field.into(), problem: problem.into() }
    }

    /// The field at a dotted path; `null` counts as absent.
    pub fn field(self, path: &str) -> Option<&'a Value> {
        field(self.0, path)
    }

    /// A text field; another type is an error.
    pub fn string(self, path: &str) -> Result<Option<&'a str>, GroupingError> {
        self.string_in(self.0, path, path)
    }

    /// An integer field; another type is an error.
    pub fn integer(self, path: &str) -> Result<Option<i64>, GroupingError> {
        self.integer_in(self.0, path, path)
    }

    /// A text field within a part of the object; `shown` is its path in messages.
    pub fn string_in(
        self,
        part: &'a Value,
        path: &str,
        shown: &str,
    ) -> Result<Option<&'a str>, GroupingError> {
        let Some(value) = field(part, path) else { return Ok(None) };
        value
            .as_str()
            .map(Some)
            .ok_or_else(|| self.error(shown, format!("must be a string, is {value}")))
    }

    /// An integer field within a part of the object; `shown` is its path in messages.
    pub fn integer_in(
        self,
        part: &'a Value,
        path: &str,
        shown: &str,
    ) -> Result<Option<i64>, GroupingError> {
        let Some(value) = field(part, path) else { return Ok(None) };
        value
            .as_i64()
            .map(Some)
            .ok_or_else(|| self.error(shown, format!("must be an integer, is {value}")))
    }

    /// A list field; another type is an error.
    pub fn list(self, path: &str) -> Result<&'a [Value], GroupingError> {
        match self.field(path) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.error(path, "must be a list")),
        }
    }
}

/// The field at a dotted path; `null` counts as absent.
pub(crate) fn field<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let found = path.split('.').try_fold(value, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

/// An annotation of a pod template; an empty one counts as absent.
pub(crate) fn template_annotation<'a>(template: &'a Value, key: &str) -> Option<&'a str> {
    template["metadata"]["annotations"][key].as_str().filter(|value| !value.is_empty())
}

fn strings(map: &Value) -> BTreeMap<String, String> {
    map.as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// A pod as an object of any kind.
pub(crate) fn pod_object(pod: &Pod) -> Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
            "labels": pod.metadata.labels,
            "annotations": pod.metadata.annotations,
        },
    })
}

/// An error about a pod.
pub(crate) fn pod_error(pod: &Pod, field: &str, problem: impl Into<String>) -> GroupingError {
    GroupingError {
        object: format!("Pod {}/{}", pod.metadata.namespace, pod.metadata.name),
        field: field.to_owned(),
        problem: problem.into(),
    }
}

/// The path of a label in messages.
pub(crate) fn label_path(key: &str) -> String {
    format!("metadata.labels[{key}]")
}

/// The path of an annotation in messages.
pub(crate) fn annotation_path(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}
