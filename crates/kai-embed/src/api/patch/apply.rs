//! Server-side apply: the patch is all that its author wants to own.

use serde_json::Value;

use super::super::managed::{self, Operation};
use super::super::{Answer, Part, Request, Subject, Writer};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::fields::{self, FieldSet};
use crate::lists::{ListKind, Lists, same_item};
use crate::object::{self, Key};

impl Cluster {
    pub(super) fn apply(
        &mut self,
        request: &Request,
        subject: &Subject,
        name: &str,
        part: Part,
    ) -> Result<Answer, Failure> {
        if request.query.get("fieldManager").is_none() {
            return Err(Failure::bad_request(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        let config = request.object_named(subject, name)?;
        let mut writer = Writer::of(request)?;
        if part == Part::Status {
            writer.subresource = "status";
        }
        let resource = &subject.resource;
        let Some(old) = self.store.get(&resource.id, &Key::of(&config)).cloned() else {
            if part == Part::Status {
                return Err(Failure::not_found(&resource.id, name));
            }
            let made = self.create_applied(subject, config, &writer)?;
            return Ok(self.show(request, subject, 201, &made));
        };
        let schema = managed::Schema::of(resource);
        let applied = managed::applied_fields(&config, &schema);
        let (mine, others): (Vec<_>, Vec<_>) = managed::read(&old).into_iter().partition(|entry| {
            entry.manager == writer.manager
                && entry.operation == Operation::Apply
                && entry.subresource == writer.subresource
        });
        let mut new = Value::clone(&old);
        object::remove(&mut new, &["metadata", "resourceVersion"]);
        let mut taken = FieldSet::default();
        let mut conflicts = Vec::new();
        for entry in &others {
            let contested = contested(&applied, &entry.fields, &old, &config);
            for path in contested.paths() {
                let version = object::text(&old["apiVersion"]);
                conflicts.push((format!("{:?} using {version}", entry.manager), path));
            }
            taken = taken.union(&contested);
        }
        if !conflicts.is_empty() && !request.query.is_true("force") {
            let causes: Vec<(String, String)> = conflicts
                .into_iter()
                .map(|(manager, path)| (manager, fields::shown(&path)))
                .collect();
            return Err(Failure::apply_conflict(&causes));
        }
        merge_applied("", &mut new, &config, schema.lists());
        let before =
            mine.into_iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
        for path in before.without(&applied).paths() {
            if !others.iter().any(|entry| entry.fields.touches(&path)) && !applied.touches(&path) {
                fields::remove_at(&mut new, &path);
            }
        }
        if let Some(version) = config["metadata"].get("resourceVersion") {
            object::set(&mut new, &["metadata", "resourceVersion"], version.clone());
        }
        let written = self.update_applied(subject, &new, part, &applied, &taken, &writer)?;
        Ok(self.show(request, subject, 200, &written))
    }

    fn create_applied(
        &mut self,
        subject: &Subject,
        config: Value,
        writer: &Writer,
    ) -> Result<std::sync::Arc<Value>, Failure> {
        let resource = &subject.resource;
        let applied = managed::applied_fields(&config, &managed::Schema::of(resource));
        let dry = Writer { dry_run: true, ..writer.clone() };
        let mut new = Value::clone(&*self.create(resource, config, &dry)?);
        object::remove(&mut new, &["metadata", "managedFields"]);
        managed::record_apply(&mut new, &applied, &FieldSet::default(), writer, self.now);
        if writer.dry_run {
            return Ok(std::sync::Arc::new(new));
        }
        Ok(self.store.put(&resource.id, new))
    }

    fn update_applied(
        &mut self,
        subject: &Subject,
        new: &Value,
        part: Part,
        applied: &FieldSet,
        taken: &FieldSet,
        writer: &Writer,
    ) -> Result<std::sync::Arc<Value>, Failure> {
        let resource = &subject.resource;
        let dry = Writer { dry_run: true, ..writer.clone() };
        let old = self.find(subject, object::name(new))?;
        let mut written = Value::clone(&*self.update(resource, new.clone(), part, &dry)?);
        managed::keep(&old, &mut written);
        managed::record_apply(&mut written, applied, taken, writer, self.now);
        let unchanged = {
            let strip = |object: &Value| {
                let mut object = object.clone();
                object::remove(&mut object, &["metadata", "managedFields"]);
                object
            };
            let owned = |object: &Value| -> Vec<(String, FieldSet)> {
                managed::read(object).into_iter().map(|one| (one.manager, one.fields)).collect()
            };
            strip(&old) == strip(&written) && owned(&old) == owned(&written)
        };
        if unchanged || writer.dry_run {
            return Ok(if unchanged { old } else { std::sync::Arc::new(written) });
        }
        Ok(self.write_back(resource, &old, written, writer))
    }
}

/// Fields of other managers that would change.
fn contested(applied: &FieldSet, theirs: &FieldSet, old: &Value, config: &Value) -> FieldSet {
    let mut contested = applied.clone();
    for path in applied.paths() {
        let (is, wanted) = (fields::value_at(old, &path), fields::value_at(config, &path));
        let is_container = wanted.is_some_and(|wanted| {
            wanted.is_object() && !wanted.as_object().is_some_and(serde_json::Map::is_empty)
        });
        if !theirs.contains(&path) || is_container || is == wanted {
            contested = contested.without(&FieldSet::single(&path));
        }
    }
    contested
}

/// Merges an applied object into the one that is there.
fn merge_applied(field: &str, value: &mut Value, config: &Value, lists: Lists<'_>) {
    match (value, config) {
        (Value::Object(map), Value::Object(config)) => {
            for (key, config) in config {
                let place = map.entry(key.clone()).or_insert(Value::Null);
                merge_applied(key, place, config, lists.field(key));
            }
        }
        (Value::Array(list), Value::Array(config)) => match lists.kind(field) {
            ListKind::Atomic => list.clone_from(config),
            ListKind::Set => {
                for item in config {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
            }
            ListKind::Map(keys) => {
                for item in config {
                    match list.iter_mut().find(|one| same_item(&keys, one, item)) {
                        Some(known) => merge_applied("", known, item, lists.item()),
                        None => list.push(item.clone()),
                    }
                }
            }
        },
        (value, config) => *value = config.clone(),
    }
}
