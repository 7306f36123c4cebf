//! Who owns which field: the `managedFields` of an object.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::write::Writer;
use crate::fields::FieldSet;
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
    let entries: Vec<Value> = entries
        .into_iter()
        .filter(|entry| !entry.fields.is_empty())
        .map(|entry| {
            let mut value = json!({
                "manager": entry.manager,
                "operation": match entry.operation {
                    Operation::Apply => "Apply",
                    Operation::Update => "Update",
                },
                "apiVersion": entry.api_version,
                "time": entry.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": entry.fields.to_value(),
            });
            if !entry.subresource.is_empty() {
                value["subresource"] = json!(entry.subresource);
            }
            value
        })
        .collect();
    if entries.is_empty() {
        object::remove(object, &["metadata", "managedFields"]);
    } else {
        object::set(object, &["metadata", "managedFields"], json!(entries));
    }
}

/// The new object carries what is known about owners, whatever the writer sent; an empty list resets it.
pub(super) fn keep(old: &Value, new: &mut Value) {
    match old["metadata"].get("managedFields") {
        Some(known) => object::set(new, &["metadata", "managedFields"], known.clone()),
        None => object::remove(new, &["metadata", "managedFields"]),
    }
}

/// The part of an object whose owners are known.
fn owned_part(object: &Value) -> Value {
    let mut part = object.clone();
    if let Some(map) = part.as_object_mut() {
        map.shift_remove("apiVersion");
        map.shift_remove("kind");
    }
    for key in [
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
    ] {
        object::remove(&mut part, &["metadata", key]);
    }
    if part["metadata"].as_object().is_some_and(serde_json::Map::is_empty) {
        object::remove(&mut part, &["metadata"]);
    }
    part
}

/// The writer owns what it changed, and nobody what is gone.
pub(super) fn record_update(
    old: Option<&Value>,
    new: &mut Value,
    schema: &Schema,
    writer: &Writer,
    now: Timestamp,
) {
    let lists = schema.lists();
    let before = old.map_or_else(|| json!({}), owned_part);
    let (changed, gone) = FieldSet::changed(&before, &owned_part(new), lists);
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
    FieldSet::of(&owned_part(config), schema.lists())
}
