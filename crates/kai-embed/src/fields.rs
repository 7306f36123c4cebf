//! Sets of fields, as in `managedFields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::lists::{ListKind, Lists, key_value};
use crate::object::equal;

/// Fields of an object whose owners are recorded.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    /// Fields of `metadata`.
    pub metadata: BTreeMap<&'a str, &'a Value>,
    /// Fields beside `metadata`.
    pub others: BTreeMap<&'a str, &'a Value>,
}

/// A set of fields: a tree whose edges are written as in `fieldsV1` (`f:name`, `k:{…}`, `v:…`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// The field itself is in the set.
    member: bool,
    below: Edges,
}

/// The sets below a field by their edges, in ascending order. A list, since most have one or two entries, and sets are made at
/// every write of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Edges(Vec<(String, FieldSet)>);

impl Edges {
    fn position(&self, edge: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(edge))
    }

    fn get(&self, edge: &str) -> Option<&FieldSet> {
        self.position(edge).ok().map(|at| &self.0[at].1)
    }

    /// Adds a set, in the place of one with this edge.
    fn insert(&mut self, edge: String, below: FieldSet) {
        match self.position(&edge) {
            Ok(at) => self.0[at].1 = below,
            Err(at) => self.0.insert(at, (edge, below)),
        }
    }

    /// The set with this edge, made empty where there is none.
    fn entry(&mut self, edge: &str) -> &mut FieldSet {
        let at = self.position(edge).unwrap_or_else(|at| {
            self.0.insert(at, (edge.to_owned(), FieldSet::default()));
            at
        });
        &mut self.0[at].1
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (&String, &FieldSet)> {
        self.0.iter().map(|(edge, below)| (edge, below))
    }
}

/// The edge of a field of a map.
fn field_edge(key: &str) -> String {
    ["f:", key].concat()
}

impl FieldSet {
    /// All of these fields.
    pub fn of(fields: &Fields<'_>, lists: Lists<'_>) -> Self {
        let (mut set, _) = Self::changed(&Fields::default(), fields, lists);
        set.member |= set.below.is_empty();
        set
    }

    fn of_field(field: &str, value: &Value, lists: Lists<'_>) -> Self {
        let mut set = Self::default();
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let below = Self::of_field(key, value, lists.field(key));
                    set.below.insert(field_edge(key), below);
                }
            }
            Value::Array(list) => match lists.kind(field) {
                ListKind::Atomic => {}
                ListKind::Set => {
                    for one in list {
                        let leaf = Self { member: true, ..Self::default() };
                        set.below.insert(format!("v:{one}"), leaf);
                    }
                }
                ListKind::Map(keys) => {
                    for item in list {
                        let mut below = Self::of_field("", item, lists.item());
                        below.member = true;
                        set.below.insert(item_edge(&keys, item), below);
                    }
                }
            },
            _ => {}
        }
        set.member |= set.below.is_empty();
        set
    }

    /// The fields that differ between `old` and `new`, and the removed fields. Equal values are not descended into.
    pub fn changed(old: &Fields<'_>, new: &Fields<'_>, lists: Lists<'_>) -> (Self, Self) {
        let (mut changed, mut gone) = Self::changed_among(&old.others, &new.others, lists);
        let (changed_metadata, gone_metadata) =
            Self::changed_among(&old.metadata, &new.metadata, lists.field("metadata"));
        changed.put("metadata", changed_metadata);
        gone.put("metadata", gone_metadata);
        (changed, gone)
    }

    fn changed_among(
        old: &BTreeMap<&str, &Value>,
        new: &BTreeMap<&str, &Value>,
        lists: Lists<'_>,
    ) -> (Self, Self) {
        let mut difference = (Self::default(), Self::default());
        for (key, value) in new {
            note(&mut difference, key, old.get(key).copied(), Some(value), lists);
        }
        for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
            note(&mut difference, key, Some(value), None, lists);
        }
        difference
    }

    /// The same for the values of one field.
    fn changed_in(field: &str, old: &Value, new: &Value, lists: Lists<'_>) -> (Self, Self) {
        if equal(old, new) {
            return Default::default();
        }
        if let (Value::Array(before), Value::Array(after), ListKind::Map(keys)) =
            (old, new, lists.kind(field))
            && !before.is_empty()
            && !after.is_empty()
        {
            return Self::changed_items(&keys, before, after, lists.item());
        }
        let (Value::Object(before), Value::Object(after)) = (old, new) else {
            return Self::changed_as_a_whole(field, old, new, lists);
        };
        // An empty map is a member itself.
        if before.is_empty() || after.is_empty() {
            return Self::changed_as_a_whole(field, old, new, lists);
        }
        let mut difference = (Self::default(), Self::default());
        for (key, value) in after {
            note(&mut difference, key, before.get(key), Some(value), lists);
        }
        for (key, value) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
            note(&mut difference, key, Some(value), None, lists);
        }
        difference
    }

    /// The same for lists whose items have keys.
    fn changed_items(
        keys: &[String],
        old: &[Value],
        new: &[Value],
        lists: Lists<'_>,
    ) -> (Self, Self) {
        let by_edge = |items: &[Value]| -> BTreeMap<String, usize> {
            items.iter().enumerate().map(|(at, item)| (item_edge(keys, item), at)).collect()
        };
        let whole = |item: &Value| Self { member: true, ..Self::of_field("", item, lists) };
        let (before, after) = (by_edge(old), by_edge(new));
        let (mut changed, mut gone) = (Self::default(), Self::default());
        for (edge, at) in &before {
            if !after.contains_key(edge) {
                gone.put_edge(edge.clone(), whole(&old[*at]));
            }
        }
        for (edge, at) in after {
            let Some(known) = before.get(&edge) else {
                changed.put_edge(edge, whole(&new[at]));
                continue;
            };
            let (changed_below, gone_below) = Self::changed_in("", &old[*known], &new[at], lists);
            gone.put_edge(edge.clone(), gone_below);
            changed.put_edge(edge, changed_below);
        }
        (changed, gone)
    }

    fn changed_as_a_whole(field: &str, old: &Value, new: &Value, lists: Lists<'_>) -> (Self, Self) {
        let before = Self::of_field(field, old, lists);
        let after = Self::of_field(field, new, lists);
        let mut changed = Self::default();
        after.each_member(&mut Vec::new(), &mut |path, is_leaf| {
            let (old, new) = (value_at(old, path), value_at(new, path));
            if old.is_none() || (is_leaf && old != new) {
                changed.insert(path);
            }
        });
        (changed, before.without(&after))
    }

    fn put(&mut self, key: &str, below: Self) {
        if !below.is_empty() {
            self.below.insert(field_edge(key), below);
        }
    }

    fn put_edge(&mut self, edge: String, below: Self) {
        if !below.is_empty() {
            self.below.insert(edge, below);
        }
    }

    fn each_member(&self, path: &mut Vec<String>, visit: &mut impl FnMut(&[String], bool)) {
        if self.member {
            visit(path, self.below.is_empty());
        }
        for (edge, below) in self.below.iter() {
            path.push(edge.clone());
            below.each_member(path, visit);
            path.pop();
        }
    }

    /// Paths of all fields in the set.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        self.each_member(&mut Vec::new(), &mut |path, _| paths.push(path.to_vec()));
        paths
    }

    fn insert(&mut self, path: &[String]) {
        match path {
            [] => self.member = true,
            [first, rest @ ..] => self.below.entry(first).insert(rest),
        }
    }

    /// A set of one field.
    pub fn single(path: &[String]) -> Self {
        let mut set = Self::default();
        set.insert(path);
        set
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.iter().all(|(_, below)| below.is_empty())
    }

    /// Whether a field is in it.
    pub fn contains(&self, path: &[String]) -> bool {
        match path {
            [] => self.member,
            [first, rest @ ..] => self.below.get(first).is_some_and(|below| below.contains(rest)),
        }
    }

    /// Whether a field, or anything below it, is in it.
    pub fn touches(&self, path: &[String]) -> bool {
        match path {
            [] => !self.is_empty(),
            [first, rest @ ..] => self.below.get(first).is_some_and(|below| below.touches(rest)),
        }
    }

    /// The fields of either.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.member |= other.member;
        for (edge, below) in other.below.iter() {
            let mine = self.below.entry(edge);
            *mine = std::mem::take(mine).union(below);
        }
        self
    }

    /// The fields that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = Self { member: self.member && !other.member, ..Self::default() };
        for (edge, below) in self.below.iter() {
            let kept = match other.below.get(edge) {
                Some(other) => below.without(other),
                None => below.clone(),
            };
            if !kept.is_empty() {
                rest.below.insert(edge.clone(), kept);
            }
        }
        rest
    }

    /// The set in the form of `fieldsV1`.
    pub fn into_value(self) -> Value {
        let is_also_member = self.member && !self.below.is_empty();
        let mut map = Map::with_capacity(self.below.0.len() + usize::from(is_also_member));
        if is_also_member {
            map.insert(".".to_owned(), json!({}));
        }
        for (edge, below) in self.below.0.into_iter().filter(|(_, below)| !below.is_empty()) {
            map.insert(edge, below.into_value());
        }
        Value::Object(map)
    }

    /// Whether a set in the form of `fieldsV1` shares a field with this set.
    pub fn meets(&self, written: &Value) -> bool {
        let Some(map) = written.as_object() else { return false };
        (self.member && is_member(map))
            || self
                .below
                .iter()
                .any(|(edge, below)| map.get(edge).is_some_and(|written| below.meets(written)))
    }

    /// Whether a set in the form of `fieldsV1` has all fields of this set.
    pub fn is_within(&self, written: &Value) -> bool {
        let Some(map) = written.as_object() else { return self.is_empty() };
        (!self.member || is_member(map))
            && self.below.iter().all(|(edge, below)| {
                map.get(edge).map_or_else(|| below.is_empty(), |written| below.is_within(written))
            })
    }

    /// Reads the form of `fieldsV1`.
    pub fn from_value(value: &Value) -> Self {
        let Some(map) = value.as_object() else { return Self::default() };
        let mut set = Self { member: is_member(map), ..Self::default() };
        for (edge, value) in map.iter().filter(|(edge, _)| *edge != ".") {
            set.below.insert(edge.clone(), Self::from_value(value));
        }
        set
    }
}

/// Whether a node in the form of `fieldsV1` is in the set itself.
fn is_member(node: &Map<String, Value>) -> bool {
    node.is_empty() || node.contains_key(".")
}

/// Adds the difference of one field to that of the map that it is in.
fn note(
    (changed, gone): &mut (FieldSet, FieldSet),
    key: &str,
    old: Option<&Value>,
    new: Option<&Value>,
    lists: Lists<'_>,
) {
    let below = lists.field(key);
    match (old, new) {
        (Some(old), Some(new)) => {
            let (changed_below, gone_below) = FieldSet::changed_in(key, old, new, below);
            changed.put(key, changed_below);
            gone.put(key, gone_below);
        }
        (None, Some(new)) => changed.put(key, FieldSet::of_field(key, new, below)),
        (Some(old), None) => gone.put(key, FieldSet::of_field(key, old, below)),
        (None, None) => {}
    }
}

fn item_edge(keys: &[String], item: &Value) -> String {
    let keys: BTreeMap<&String, Value> =
        keys.iter().map(|key| (key, key_value(item, key))).collect();
    // Maps of texts to values are always valid JSON.
    ["k:", &serde_json::to_string(&keys).unwrap_or_default()].concat()
}

/// Whether an item of a list is the one that an edge names.
fn is_named(item: &Value, edge: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    match edge.split_once(':') {
        Some(("v", value)) => *item == read(value),
        Some(("k", keys)) => {
            let keys = read(keys);
            let mut keys = keys.as_object().into_iter().flatten();
            keys.all(|(key, value)| key_value(item, key) == *value)
        }
        _ => false,
    }
}

/// The value of a field.
pub fn value_at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    let [edge, rest @ ..] = path else { return Some(value) };
    let below = match edge.strip_prefix("f:") {
        Some(key) => value.get(key)?,
        None => value.as_array()?.iter().find(|item| is_named(item, edge))?,
    };
    value_at(below, rest)
}

/// Removes the field at a path, if it exists.
pub fn remove_at(value: &mut Value, path: &[String]) {
    let [edge, rest @ ..] = path else { return };
    if let Some(key) = edge.strip_prefix("f:") {
        let Some(map) = value.as_object_mut() else { return };
        match map.get_mut(key) {
            Some(_) if rest.is_empty() => {
                map.shift_remove(key);
            }
            Some(below) => {
                remove_at(below, rest);
                let is_empty = below.as_object().is_some_and(Map::is_empty)
                    || below.as_array().is_some_and(Vec::is_empty);
                if is_empty {
                    map.shift_remove(key);
                }
            }
            None => {}
        }
    } else if let Some(list) = value.as_array_mut()
        && let Some(at) = list.iter().position(|item| is_named(item, edge))
    {
        if rest.is_empty() {
            list.remove(at);
        } else {
            remove_at(&mut list[at], rest);
        }
    }
}

/// A path as messages show it: `.spec.containers[name="c"].image`.
pub fn shown(path: &[String]) -> String {
    path.iter().fold(String::new(), |text, edge| match edge.split_once(':') {
        Some(("f", key)) => format!("{text}.{key}"),
        Some(("k", keys)) => {
            let keys: BTreeMap<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{text}[{}]", keys.join(","))
        }
        Some((_, value)) => format!("{text}[={value}]"),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x"]}, "spec": {"containers": [{"name": "c", "image": "i"}], "args": ["a"]}})
    }

    fn by_name(object: &Value) -> BTreeMap<&str, &Value> {
        let map = object.as_object().into_iter().flatten();
        map.map(|(key, value)| (key.as_str(), value)).collect()
    }

    fn fields(object: &Value) -> Fields<'_> {
        let mut others = by_name(object);
        let metadata = others.remove("metadata").map(by_name).unwrap_or_default();
        Fields { metadata, others }
    }

    #[test]
    fn sets_are_written_as_the_real_one_writes_them() {
        let set = FieldSet::of(&fields(&pod()), Lists::Builtin);
        let written = json!({
            "f:metadata": {"f:finalizers": {"v:\"x\"": {}}, "f:labels": {"f:a": {}}},
            "f:spec": {"f:args": {}, "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}},
        });
        assert_eq!(set.clone().into_value(), written);
        assert_eq!(FieldSet::from_value(&written), set);
    }

    #[test]
    fn changes_and_removals() {
        let mut new = pod();
        new["spec"]["containers"][0]["image"] = json!("j");
        new["metadata"]["labels"] = json!({"b": "2"});
        let (changed, gone) = FieldSet::changed(&fields(&pod()), &fields(&new), Lists::Builtin);
        let texts = |set: &FieldSet| -> Vec<String> {
            set.paths().iter().map(|path| shown(path)).collect()
        };
        assert_eq!(texts(&changed), [".metadata.labels.b", ".spec.containers[name=\"c\"].image"]);
        assert_eq!(texts(&gone), [".metadata.labels.a"]);
        for path in FieldSet::of(&fields(&pod()), Lists::Builtin).paths() {
            assert!(value_at(&pod(), &path).is_some(), "{path:?}");
        }
    }

    #[test]
    fn written_sets_are_compared_without_reading_them() {
        let written = FieldSet::of(&fields(&pod()), Lists::Builtin).into_value();
        let set = |fields: Value| FieldSet::from_value(&fields);
        let label = set(json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        assert!(label.meets(&written) && label.is_within(&written));
        let labels = set(json!({"f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}}}));
        assert!(labels.meets(&written) && !labels.is_within(&written));
        let other = set(json!({"f:spec": {"f:containers": {"k:{\"name\":\"d\"}": {".": {}}}}}));
        assert!(!other.meets(&written) && !other.is_within(&written));
        let item = set(json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}}}}}));
        assert!(item.meets(&written) && item.is_within(&written));
        assert!(FieldSet::default().is_within(&written) && !FieldSet::default().meets(&written));
    }

    #[test]
    fn pruned_comparison_finds_the_same_differences_as_a_full_one() {
        let base = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]},
            "spec": {"containers": [{"name": "c", "image": "i"}], "args": ["a"], "nodeSelector": {}},
            "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}});
        let changes: [(&str, Value); 8] = [
            ("/metadata/labels", json!({})),
            ("/metadata/labels/a", json!("2")),
            ("/metadata/finalizers", json!(["y", "z"])),
            ("/spec/containers", json!([{"name": "d"}])),
            ("/spec/nodeSelector", json!({"zone": "b"})),
            ("/spec/args", Value::Null),
            ("/status/conditions", json!([{"type": "Ready", "status": "True"}, {"type": "New"}])),
            ("/status", json!({"phase": {"nested": []}})),
        ];
        for (at, value) in changes {
            let mut new = base.clone();
            *new.pointer_mut(at).unwrap() = value;
            for (old, new) in [(&base, &new), (&new, &base)] {
                let pruned = FieldSet::changed(&fields(old), &fields(new), Lists::Builtin);
                let full = FieldSet::changed_as_a_whole("", old, new, Lists::Builtin);
                assert_eq!(pruned, full, "{at}");
            }
        }
    }
}
