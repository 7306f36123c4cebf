//! Objects as JSON, and the few fields that all of them have.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Namespace and name; the namespace is empty for objects of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
}

impl Key {
    /// A key of these parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(object: &Value) -> Self {
        Self::new(namespace(object), name(object))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            formatter.write_str(&self.name)
        } else {
            write!(formatter, "{}/{}", self.namespace, self.name)
        }
    }
}

/// A field; null where it is missing. Maps of objects are small, so that comparing their keys one by one takes a fraction of
/// hashing the wanted key, which `value[key]` does.
pub(crate) fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    let Value::Object(map) = value else { return &Value::Null };
    let found = if map.len() <= MOST_COMPARED_KEYS {
        map.iter().find_map(|(known, value)| (known == key).then_some(value))
    } else {
        map.get(key)
    };
    found.unwrap_or(&Value::Null)
}

/// In larger maps keys are hashed.
const MOST_COMPARED_KEYS: usize = 24;

/// A field of the metadata; null where it is missing.
fn metadata<'a>(object: &'a Value, key: &str) -> &'a Value {
    field(field(object, "metadata"), key)
}

/// `metadata.name`; empty if missing.
pub fn name(object: &Value) -> &str {
    text(metadata(object, "name"))
}

/// The namespace; empty where there is none.
pub fn namespace(object: &Value) -> &str {
    text(metadata(object, "namespace"))
}

/// `metadata.uid`; empty if missing.
pub fn uid(object: &Value) -> &str {
    text(metadata(object, "uid"))
}

/// The version of its latest write.
pub fn version(object: &Value) -> &str {
    text(metadata(object, "resourceVersion"))
}

/// It was deleted and is still there.
pub fn is_terminating(object: &Value) -> bool {
    !metadata(object, "deletionTimestamp").is_null()
}

/// The finalizers that keep it.
pub fn finalizers(object: &Value) -> Vec<&str> {
    items(metadata(object, "finalizers")).filter_map(Value::as_str).collect()
}

/// `metadata.labels`; entries that are not texts are skipped.
pub fn labels(object: &Value) -> BTreeMap<&str, &str> {
    entries(metadata(object, "labels"))
}

/// The value of an annotation; none if missing.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    field(metadata(object, "annotations"), key).as_str()
}

/// Keys and texts of a map; none where it is none.
pub fn entries(map: &Value) -> BTreeMap<&str, &str> {
    let map = map.as_object().into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// Items of a list; none where it is none.
pub fn items(list: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The references to the owners of the object.
pub(crate) fn owners(object: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    items(metadata(object, "ownerReferences"))
}

/// The reference to the owner that controls the object.
pub fn controller(object: &Value) -> Option<&Value> {
    owners(object).find(|owner| *field(owner, "controller") == true)
}

/// A text; empty where it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A field that is a map, made one where it is not.
pub fn map_at<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut here = object;
    for key in path {
        if !here.is_object() {
            *here = json!({});
        }
        here = &mut here[*key];
    }
    if !here.is_object() {
        *here = json!({});
    }
    here.as_object_mut().expect("it was made a map")
}

/// Sets a field; everything on the way that is no map becomes one.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    if let [parents @ .., last] = path {
        map_at(object, parents).insert((*last).to_owned(), value);
    }
}

/// Sets a field where it is missing.
pub fn set_default(object: &mut Value, path: &[&str], value: Value) {
    if at(object, path).is_null() {
        set(object, path, value);
    }
}

/// Removes the field at a path, if it exists.
pub fn remove(object: &mut Value, path: &[&str]) {
    let [parents @ .., last] = path else { return };
    let parent = parents.iter().try_fold(object, |here, key| here.get_mut(*key));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.shift_remove(*last);
    }
}

/// A field; null where it is missing.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(object, |here, key| field(here, key))
}

/// Removes every null: to Kubernetes a null is a field that is not there.
pub fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(strip_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// Whether two values are equal. Fields in the same order, as of an object and a changed copy of it, are compared without looking
/// them up, which takes most of the time of `==`.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let is_same =
                |((key, value), (other_key, other_value)): ((&String, _), (&String, _))| {
                    if key == other_key {
                        return equal(value, other_value);
                    }
                    other.get(key).is_some_and(|found| equal(value, found))
                };
            one.len() == other.len() && one.iter().zip(other).all(is_same)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (one, other) => one == other,
    }
}

/// A copy without some fields and without `managedFields`, which are a large part of an object.
pub(crate) fn without_managers(object: &Value, left_out: &[&str]) -> Value {
    let Some(map) = object.as_object() else { return object.clone() };
    let kept = map.iter().filter(|(key, _)| !left_out.contains(&key.as_str()));
    let copied = kept.map(|(key, value)| match value {
        Value::Object(_) if key == "metadata" => {
            let metadata = value.as_object().into_iter().flatten();
            let metadata = metadata.filter(|(key, _)| *key != "managedFields");
            let copy = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
            (key.clone(), Value::Object(copy))
        }
        value => (key.clone(), value.clone()),
    });
    Value::Object(copied.collect())
}

/// An object that is serialised without its `managedFields`.
pub(crate) struct WithoutManagers<'a>(pub(crate) &'a Value);

impl Serialize for WithoutManagers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(map) = self.0.as_object() else { return self.0.serialize(serializer) };
        serializer.collect_map(map.iter().map(|(key, value)| (key, UnmanagedPart(key, value))))
    }
}

/// A field of an object; of the metadata, everything but `managedFields`.
struct UnmanagedPart<'a>(&'a str, &'a Value);

impl Serialize for UnmanagedPart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            ("metadata", Value::Object(metadata)) => {
                serializer.collect_map(metadata.iter().filter(|(key, _)| *key != "managedFields"))
            }
            (_, value) => value.serialize(serializer),
        }
    }
}

/// A moment as Kubernetes writes it, to the second.
pub fn moment(time: Timestamp) -> Value {
    Value::from(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Reads a time as Kubernetes writes it; none for anything else.
pub fn read_moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A reference by which an object says that `owner` controls it.
pub fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Sets a condition; when it changes, so does its time.
pub fn set_condition(
    object: &mut Value,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let status = if status { "True" } else { "False" };
    let conditions = map_at(object, &["status"]).entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let known = conditions.iter().position(|condition| *field(condition, "type") == kind);
    let since = known
        .map(|at| &conditions[at])
        .filter(|condition| *field(condition, "status") == status)
        .map_or_else(|| moment(now), |condition| field(condition, "lastTransitionTime").clone());
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
    if !reason.is_empty() {
        condition["reason"] = json!(reason);
    }
    if !message.is_empty() {
        condition["message"] = json!(message);
    }
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Whether a condition is true.
pub fn has_condition(object: &Value, kind: &str) -> bool {
    let mut conditions = items(at(object, &["status", "conditions"]));
    conditions
        .any(|condition| *field(condition, "type") == kind && *field(condition, "status") == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_through_whatever_was_there() {
        let mut object = json!({"metadata": 7});
        set(&mut object, &["metadata", "labels", "a"], json!("b"));
        assert_eq!(object, json!({"metadata": {"labels": {"a": "b"}}}));
        remove(&mut object, &["metadata", "labels", "a"]);
        remove(&mut object, &["spec", "missing"]);
        assert_eq!(object, json!({"metadata": {"labels": {}}}));
    }

    #[test]
    fn values_are_equal_whatever_the_order_of_their_fields() {
        let one = json!({"a": 1, "b": {"c": [1, {"d": null}], "e": "x"}});
        for same in [one.clone(), json!({"b": {"e": "x", "c": [1, {"d": null}]}, "a": 1})] {
            assert!(equal(&one, &same) && equal(&same, &one), "{same}");
        }
        for other in [
            json!({"a": 1}),
            json!({"a": 1, "c": {"c": [1, {"d": null}], "e": "x"}}),
            json!({"a": 1, "b": {"c": [1], "e": "x"}}),
            json!({"a": 1, "b": {"c": [1, {"d": 2}], "e": "x"}}),
        ] {
            assert!(!equal(&one, &other) && !equal(&other, &one), "{other}");
        }
    }

    #[test]
    fn copies_without_managers_have_everything_else() {
        let object = json!({
            "kind": "Pod",
            "metadata": {"name": "p", "managedFields": [{"manager": "m"}], "labels": {"a": "b"}},
            "spec": {"managedFields": 1},
            "status": {"phase": "Pending"},
        });
        let mut expected = object.clone();
        remove(&mut expected, &["metadata", "managedFields"]);
        assert_eq!(without_managers(&object, &[]), expected);
        assert_eq!(json!(WithoutManagers(&object)), expected);
        remove(&mut expected, &["status"]);
        assert_eq!(without_managers(&object, &["status"]), expected);
        assert_eq!(json!(WithoutManagers(&json!(["no object"]))), json!(["no object"]));
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_changes() {
        let first: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let second: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a time");
        let mut object = json!({});
        set_condition(&mut object, "Ready", true, "", "", first);
        set_condition(&mut object, "Ready", true, "Still", "", second);
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        set_condition(&mut object, "Ready", false, "", "", second);
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:01:00Z");
        assert!(!has_condition(&object, "Ready"));
    }
}
