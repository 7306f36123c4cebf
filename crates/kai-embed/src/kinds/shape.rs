//! Types of the fields of built-in objects, and the fields that their kind does not have.

use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::messages::{self, Field, FieldsByName, Kind, Shape, Width};
use super::{Origin, Resource};

/// A field of another type than its kind requires.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ShapeFault {
    /// Path of the field.
    pub path: String,
    /// The expected type and the given value.
    pub problem: String,
}

/// A field of pods in Kubernetes 1.35, which 1.36 does not have any more.
const OLDER_FIELD: &str = "spec.workloadRef";

/// Where a field is. Only a fault writes it out: objects are checked at every write.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, key) => out.write_str(key),
            Self::Field(parent, key) => write!(out, "{parent}.{key}"),
            Self::Item(parent, at) => write!(out, "{parent}[{at}]"),
        }
    }
}

/// Checks the types of an object's fields and returns the paths of fields that its kind does not have. Of custom resources
/// only the metadata is checked.
pub fn check_shape(resource: &Resource, object: &Value) -> Result<Vec<String>, ShapeFault> {
    let mut unknown = Vec::new();
    let group = format!("{}/", resource.id.group);
    let fields = match resource.origin {
        Origin::Builtin => messages::named_fields_of_kind(&group, &resource.kind),
        Origin::Custom => None,
    };
    let root = Place::Root;
    match (fields, object.get("metadata"), messages::named_fields("meta/ObjectMeta")) {
        (Some(fields), ..) => check_message(object, fields, root, &mut unknown)?,
        (None, Some(metadata), Some(fields)) if !metadata.is_null() => {
            check_message(metadata, fields, Place::Field(&root, "metadata"), &mut unknown)?;
        }
        _ => {}
    }
    unknown.retain(|path| !path.ends_with(OLDER_FIELD));
    Ok(unknown)
}

fn check_message(
    value: &Value,
    fields: &'static FieldsByName,
    place: Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), ShapeFault> {
    for (key, value) in as_object(value, place)?.iter().filter(|(_, value)| !value.is_null()) {
        let place = Place::Field(&place, key);
        match fields.get(key.as_str()) {
            Some(field) => check_field(value, field, place, unknown)?,
            None => unknown.push(place.to_string()),
        }
    }
    Ok(())
}

fn check_field(
    value: &Value,
    field: &Field,
    place: Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), ShapeFault> {
    match field.shape {
        Shape::Once | Shape::Inline => check_value(value, field.kind, place, unknown),
        Shape::Many => {
            let Value::Array(items) = value else { return Err(fault(place, "a list", value)) };
            let mut items = items.iter().enumerate();
            items.try_for_each(|(at, item)| {
                check_value(item, field.kind, Place::Item(&place, at), unknown)
            })
        }
        Shape::ByKey => as_object(value, place)?.iter().try_for_each(|(key, value)| {
            check_value(value, field.kind, Place::Field(&place, key), unknown)
        }),
    }
}

fn check_value(
    value: &Value,
    kind: Kind,
    place: Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), ShapeFault> {
    let is_time = || value.as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok());
    let (fits, expected) = match kind {
        _ if value.is_null() => (true, ""),
        Kind::Text => (value.is_string(), "a string"),
        Kind::Bytes => (ByteString::deserialize(value).is_ok(), "a string in base64"),
        Kind::Integer(_, Width::Bits32) => {
            let fits = value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
            (fits, "an integer of 32 bits")
        }
        Kind::Integer(_, Width::Bits64) => (value.is_i64(), "an integer of 64 bits"),
        Kind::Boolean(_) => (value.is_boolean(), "true or false"),
        Kind::Number => (value.is_number(), "a number"),
        Kind::Quantity => (value.is_string() || value.is_number(), "a quantity"),
        Kind::Time | Kind::MicroTime => (is_time(), "a time as in RFC 3339"),
        Kind::IntOrString => (value.is_string() || value.is_i64(), "an integer or a string"),
        Kind::Json => (true, ""),
        Kind::Message(name) => {
            let Some(fields) = messages::named_fields(name) else { return Ok(()) };
            return check_message(value, fields, place, unknown);
        }
    };
    if fits { Ok(()) } else { Err(fault(place, expected, value)) }
}

fn as_object<'a>(value: &'a Value, place: Place<'_>) -> Result<&'a Map<String, Value>, ShapeFault> {
    value.as_object().ok_or_else(|| fault(place, "an object", value))
}

fn fault(place: Place<'_>, expected: &str, value: &Value) -> ShapeFault {
    let given = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    ShapeFault { path: place.to_string(), problem: format!("expected {expected}, got {given}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Kinds, PODS, id};
    use super::*;

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        let kinds = Kinds::default();
        let pods = kinds.get(&id(PODS)).expect("pods");
        let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        let fine = pod(
            json!({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}], "workloadRef": {"name": "w"}}),
        );
        assert_eq!(check_shape(pods, &fine), Ok(vec![]));
        let odd = pod(json!({"containers": [{"name": "c", "imagee": "x"}]}));
        assert_eq!(check_shape(pods, &odd), Ok(vec!["spec.containers[0].imagee".to_owned()]));
        let wrong = pod(json!({"containers": "none"}));
        let fault = check_shape(pods, &wrong).expect_err("it is wrong");
        assert_eq!(fault.to_string(), "spec.containers: expected a list, got \"none\"");
    }

    #[test]
    fn every_type_of_field_is_checked() {
        let kinds = Kinds::default();
        let pods = kinds.get(&id(PODS)).expect("pods");
        let faulty = |spec: Value| {
            let pod =
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
            check_shape(pods, &pod).map_err(|fault| fault.path)
        };
        let wrong = |path: &str| Err(path.to_owned());
        assert_eq!(faulty(json!({"priority": 1_i64 << 40})), wrong("spec.priority"));
        assert_eq!(faulty(json!({"activeDeadlineSeconds": 1_i64 << 40})), Ok(vec![]));
        assert_eq!(
            faulty(json!({"activeDeadlineSeconds": "1"})),
            wrong("spec.activeDeadlineSeconds")
        );
        assert_eq!(faulty(json!({"hostNetwork": "yes"})), wrong("spec.hostNetwork"));
        assert_eq!(faulty(json!({"nodeName": 1})), wrong("spec.nodeName"));
        assert_eq!(faulty(json!({"nodeSelector": {"a": true}})), wrong("spec.nodeSelector.a"));
        assert_eq!(faulty(json!({"overhead": {"cpu": []}})), wrong("spec.overhead.cpu"));
        assert_eq!(faulty(json!({"securityContext": {"runAsUser": null}})), Ok(vec![]));
        let volume = |source: Value| json!({"volumes": [{"name": "v", "emptyDir": source}]});
        assert_eq!(faulty(volume(json!({"sizeLimit": "1Gi"}))), Ok(vec![]));
        assert_eq!(
            faulty(volume(json!({"size": "1Gi"}))),
            Ok(vec!["spec.volumes[0].emptyDir.size".to_owned()])
        );
    }

    #[test]
    fn every_built_in_kind_is_in_the_table() {
        for resource in Kinds::default().all().filter(|resource| resource.origin == Origin::Builtin)
        {
            let group = format!("{}/", resource.id.group);
            assert!(messages::of_kind(&group, &resource.kind).is_some(), "{}", resource.kind);
        }
    }
}
