//! Field managers of an object: its `managedFields`.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

use super::write::Writer;
use crate::fields::{FieldSet, Fields};
use crate::kinds::Resource;
use crate::lists::Lists;
use crate::object::{self, at, field, items, moment, text};

/// What is known about the fields of a resource.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    /// The schema of a custom resource; built-in types are known.
    schema: Option<Arc<Value>>,
    /// Only writes of the `status` subresource write the status.
    has_status_part: bool,
}

impl Schema {
    pub(super) fn of(resource: &Resource) -> Self {
        let version = resource.stored();
        Self { schema: version.schema.clone(), has_status_part: version.status }
    }

    pub(super) fn lists(&self) -> Lists<'_> {
        Lists::at_root(self.schema.as_deref())
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

impl Operation {
    fn read(entry: &Value) -> Self {
        match text(field(entry, "operation")) {
            "Apply" => Self::Apply,
            _ => Self::Update,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Entry {
    fn is(&self, manager: &str, operation: Operation, subresource: &str) -> bool {
        self.manager == manager && self.operation == operation && self.subresource == subresource
    }

    /// The entry that a writer updates.
    fn of_update(writer: &Writer) -> Self {
        Self {
            manager: writer.manager.clone(),
            operation: Operation::Update,
            subresource: writer.subresource.to_owned(),
            fields: FieldSet::default(),
            time: Value::Null,
            api_version: Value::Null,
        }
    }
}

pub(super) fn read(object: &Value) -> Vec<Entry> {
    items(at(object, &["metadata", "managedFields"]))
        .map(|entry| Entry {
            manager: text(field(entry, "manager")).to_owned(),
            operation: Operation::read(entry),
            subresource: text(field(entry, "subresource")).to_owned(),
            fields: FieldSet::from_value(field(entry, "fieldsV1")),
            time: field(entry, "time").clone(),
            api_version: field(entry, "apiVersion").clone(),
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
    // `json!` would copy the fields twice.
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    put("manager", entry.manager.into());
    put("operation", entry.operation.name().into());
    put("apiVersion", entry.api_version);
    put("time", entry.time);
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", entry.fields.into_value());
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
    let mut fields = Fields::default();
    for (key, value) in object.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                let owned = metadata.iter().filter(|(key, _)| !UNOWNED.contains(&key.as_str()));
                fields.metadata = owned.map(|(key, value)| (key.as_str(), value)).collect();
            }
            (key, value) => {
                fields.others.insert(key, value);
            }
        }
    }
    fields
}

/// The writer owns the fields that it changed; removed fields have no owner. Entries of other managers whose fields stay as
/// they are, most of them, are not decoded.
pub(super) fn record_update(
    old: Option<&Value>,
    new: &mut Value,
    schema: &Schema,
    writer: &Writer,
    now: Timestamp,
) {
    let written_fields = |object| {
        let mut fields = owned_fields(object);
        if schema.has_status_part && writer.subresource != "status" {
            fields.others.remove("status");
        }
        fields
    };
    let before = old.map(written_fields).unwrap_or_default();
    let (changed, gone) = FieldSet::changed(&before, &written_fields(new), schema.lists());
    let api_version = field(new, "apiVersion").clone();
    let known = object::map_at(new, &["metadata"]).shift_remove("managedFields");
    let mut entries = match known {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    let is_own = |entry: &Value| {
        text(field(entry, "manager")) == writer.manager
            && Operation::read(entry) == Operation::Update
            && text(field(entry, "subresource")) == writer.subresource
    };
    let mut has_own = false;
    for entry in &mut entries {
        let is_own = is_own(entry);
        has_own |= is_own;
        drop_fields(entry, &gone);
        if !is_own {
            drop_fields(entry, &changed);
        } else if !changed.is_empty() {
            add_fields(entry, &changed);
            entry["time"] = moment(now);
            entry["apiVersion"] = api_version.clone();
        }
    }
    entries.retain(|entry| field(entry, "fieldsV1").is_object());
    if !has_own && !changed.is_empty() {
        let entry =
            Entry { fields: changed, time: moment(now), api_version, ..Entry::of_update(writer) };
        entries.push(written(entry));
    }
    if !entries.is_empty() {
        object::set(new, &["metadata", "managedFields"], Value::Array(entries));
    }
}

/// Takes fields from an entry; null fields where it has none left.
fn drop_fields(entry: &mut Value, fields: &FieldSet) {
    if fields.meets(field(entry, "fieldsV1")) {
        let left = FieldSet::from_value(field(entry, "fieldsV1")).without(fields);
        entry["fieldsV1"] = if left.is_empty() { Value::Null } else { left.into_value() };
    }
}

/// Gives fields to an entry.
fn add_fields(entry: &mut Value, fields: &FieldSet) {
    if !fields.is_within(field(entry, "fieldsV1")) {
        entry["fieldsV1"] =
            FieldSet::from_value(field(entry, "fieldsV1")).union(fields).into_value();
    }
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
    let own = Entry {
        operation: Operation::Apply,
        fields: applied.clone(),
        time: moment(now),
        api_version: field(new, "apiVersion").clone(),
        ..Entry::of_update(writer)
    };
    match entries.iter_mut().find(|entry| entry.is(&own.manager, own.operation, &own.subresource)) {
        Some(entry) => *entry = own,
        None => entries.push(own),
    }
    write(new, entries);
}

/// The fields of an applied configuration.
pub(super) fn applied_fields(config: &Value, schema: &Schema) -> FieldSet {
    FieldSet::of(&owned_fields(config), schema.lists())
}
