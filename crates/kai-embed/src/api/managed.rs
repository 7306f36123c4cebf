//! Field managers of an object: its `managedFields`.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

use super::write::Writer;
use crate::fields::{FieldSet, Fields};
use crate::kinds::Resource;
use crate::lists::Lists;
use crate::object::{self, items, moment, text};

/// The schema of a resource, where it has one; built-in types are known.
#[derive(Clone, Debug)]
pub(super) struct Schema(Option<Arc<Value>>);

impl Schema {
    pub(super) fn of(resource: &Resource) -> Self {
        Self(resource.stored().schema.clone())
    }

    pub(super) fn lists(&self) -> Lists<'_> {
        Lists::at_root(self.0.as_deref())
    }
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) subresource: String,
    pub(super) fields: FieldSet,
    time: Value,
    api_version: Value,
}

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Entry {
    fn is(&self, manager: &str, operation: Operation, subresource: &str) -> bool {
        self.manager == manager && self.operation == operation && self.subresource == subresource
    }
}

pub(super) fn read(object: &Value) -> Vec<Entry> {
    items(&object["metadata"]["managedFields"])
        .map(|entry| Entry {
            manager: text(&entry["manager"]).to_owned(),
            operation: match text(&entry["operation"]) {
                "Apply" => Operation::Apply,
                _ => Operation::Update,
            },
            subresource: text(&entry["subresource"]).to_owned(),
            fields: FieldSet::from_value(&entry["fieldsV1"]),
            time: entry["time"].clone(),
            api_version: entry["apiVersion"].clone(),
        })
        .collect()
}

fn write(object: &mut Value, entries: Vec<Entry>) {
    let entries = entries.into_iter().filter(|entry| !entry.fields.is_empty());
    let entries: Vec<Value> = entries.map(written).collect();
    if entries.is_empty() {
        object::remove(object, &["metadata", "managedFields"]);
    } else {
        object::set(object, &["metadata", "managedFields"], Value::Array(entries));
    }
}

fn written(entry: Entry) -> Value {
    let operation = match entry.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    // `json!` would copy the fields twice.
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    put("manager", entry.manager.into());
    put("operation", operation.into());
    put("apiVersion", entry.api_version);
    put("time", entry.time);
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", entry.fields.to_value());
    if !entry.subresource.is_empty() {
        put("subresource", entry.subresource.into());
    }
    Value::Object(map)
}

/// The new object carries what is known about owners, whatever the writer sent; an empty list resets it.
pub(super) fn keep(old: &Value, new: &mut Value) {
    match old["metadata"].get("managedFields") {
        Some(known) => object::set(new, &["metadata", "managedFields"], known.clone()),
        None => object::remove(new, &["metadata", "managedFields"]),
    }
}

/// Metadata without owners: the cluster itself writes it.
const UNOWNED: [&str; 10] = [
    "managedFields",
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The fields of an object whose owners are known.
fn owned_fields(object: &Value) -> Fields<'_> {
    let mut fields = Fields::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                let owned = metadata.iter().filter(|(key, _)| !UNOWNED.contains(&key.as_str()));
                let owned: Map<String, Value> =
                    owned.map(|(key, value)| (key.clone(), value.clone())).collect();
                if !owned.is_empty() {
                    fields.insert(key, Cow::Owned(Value::Object(owned)));
                }
            }
            (key, value) => {
                fields.insert(key, Cow::Borrowed(value));
            }
        }
    }
    fields
}

/// The writer owns the fields that it changed; removed fields have no owner.
pub(super) fn record_update(
    old: Option<&Value>,
    new: &mut Value,
    schema: &Schema,
    writer: &Writer,
    now: Timestamp,
) {
    let lists = schema.lists();
    let before = old.map(owned_fields).unwrap_or_default();
    let (changed, gone) = FieldSet::changed(&before, &owned_fields(new), lists);
    let mut entries = read(new);
    for entry in &mut entries {
        entry.fields = entry.fields.without(&gone);
        if !entry.is(&writer.manager, Operation::Update, writer.subresource) {
            entry.fields = entry.fields.without(&changed);
        }
    }
    if !changed.is_empty() {
        own(&mut entries, new, writer, Operation::Update, now, |owned| owned.union(&changed));
    }
    write(new, entries);
}

/// The writer owns exactly what it applied, and takes it from others where it disagrees with them.
pub(super) fn record_apply(
    new: &mut Value,
    applied: &FieldSet,
    taken: &FieldSet,
    writer: &Writer,
    now: Timestamp,
) {
    let mut entries = read(new);
    for entry in &mut entries {
        entry.fields = entry.fields.without(taken);
    }
    own(&mut entries, new, writer, Operation::Apply, now, |_| applied.clone());
    write(new, entries);
}

fn own(
    entries: &mut Vec<Entry>,
    object: &Value,
    writer: &Writer,
    operation: Operation,
    now: Timestamp,
    change: impl FnOnce(FieldSet) -> FieldSet,
) {
    let at =
        entries.iter().position(|entry| entry.is(&writer.manager, operation, writer.subresource));
    let at = at.unwrap_or_else(|| {
        entries.push(Entry {
            manager: writer.manager.clone(),
            operation,
            subresource: writer.subresource.to_owned(),
            fields: FieldSet::default(),
            time: Value::Null,
            api_version: Value::Null,
        });
        entries.len() - 1
    });
    let entry = &mut entries[at];
    let fields = change(std::mem::take(&mut entry.fields));
    entry.fields = fields;
    entry.time = moment(now);
    entry.api_version = object["apiVersion"].clone();
}

/// The fields of an applied configuration.
pub(super) fn applied_fields(config: &Value, schema: &Schema) -> FieldSet {
    FieldSet::of(&owned_fields(config), schema.lists())
}
