//! Creating and updating objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::managed;
use super::request::Request;
use crate::admission::{self, Operation, Stage};
use crate::cluster::Cluster;
use crate::crd;
use crate::failure::{Failure, FieldFault};
use crate::kinds::{NAMESPACES, Origin, Resource, check_shape, id};
use crate::object::{self, Key, at, finalizers, is_terminating, moment, name, namespace, uid};

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Whole,
    /// The status subresource only.
    Status,
}

/// Field manager and options of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The name under which fields are owned.
    pub manager: String,
    /// The part of the object that was addressed; empty: the object.
    pub subresource: &'static str,
    /// Nothing is written; the answer is what it would be.
    pub dry_run: bool,
    /// What becomes of unknown fields.
    pub unknown_fields: UnknownFields,
}

/// What becomes of fields that a kind does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// Unknown fields are dropped.
    Drop,
    /// The write is rejected.
    Reject,
}

impl Writer {
    /// A writer whose unknown fields are errors.
    pub fn strict(manager: &str) -> Self {
        Self { unknown_fields: UnknownFields::Reject, ..Self::named(manager) }
    }

    /// A part of the cluster.
    pub fn named(manager: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            subresource: "",
            dry_run: false,
            unknown_fields: UnknownFields::Drop,
        }
    }

    pub(super) fn of(request: &Request) -> Result<Self, Failure> {
        let dry_run = match request.query.get("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => {
                return Err(Failure::bad_request(format!(
                    "Invalid value: {other:?}: dryRun must be All"
                )));
            }
        };
        let unknown_fields = match request.query.get("fieldValidation") {
            Some("Strict") => UnknownFields::Reject,
            _ => UnknownFields::Drop,
        };
        Ok(Self { manager: request.field_manager(), subresource: "", dry_run, unknown_fields })
    }
}

impl Cluster {
    /// Creates an object after defaults, webhooks and validation.
    pub(crate) fn create(
        &mut self,
        resource: &Arc<Resource>,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        object::strip_nulls(&mut object);
        fit(resource, &mut object, writer)?;
        self.check_namespace(resource, &object)?;
        self.name_new(resource, &mut object)?;
        if self.store.get(&resource.id, &Key::of(&object)).is_some() {
            return Err(Failure::already_exists(&resource.id, name(&object)));
        }
        if !object::version(&object).is_empty() {
            return Err(Failure::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let metadata = object::map_at(&mut object, &["metadata"]);
        for key in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"]
        {
            metadata.shift_remove(key);
        }
        metadata.insert("uid".to_owned(), self.ids.uid().into());
        metadata.insert("creationTimestamp".to_owned(), moment(self.now));
        if has_generation(resource) {
            metadata.insert("generation".to_owned(), json!(1));
        }
        if resource.stored().status {
            object::remove(&mut object, &["status"]);
        }
        admission::fill_alone(resource, &mut object);
        let operation = Operation::Create(&object);
        if let Some(mut changed) = self.ask_webhooks(Stage::Mutating, resource, operation)? {
            object::strip_nulls(&mut changed);
            object = changed;
        }
        admission::fill_new(self, resource, &mut object)?;
        self.check(resource, None, &object, Part::Whole)?;
        self.ask_webhooks(Stage::Validating, resource, Operation::Create(&object))?;
        self.record_managers(resource, None, &mut object, writer);
        if writer.dry_run {
            return Ok(Arc::new(object));
        }
        Ok(self.store.put(&resource.id, object))
    }

    /// Writes an object that exists.
    pub(crate) fn update(
        &mut self,
        resource: &Arc<Resource>,
        mut object: Value,
        part: Part,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        object::strip_nulls(&mut object);
        let key = Key::of(&object);
        let Some(old) = self.store.get(&resource.id, &key).cloned() else {
            return Err(Failure::not_found(&resource.id, &key.name));
        };
        check_preconditions(resource, &old, object::version(&object), uid(&object))?;
        remove_ignored_fields(&mut object, part, writer);
        fit(resource, &mut object, writer)?;
        let mut new = merged_parts(resource, &old, object, part);
        managed::keep(&old, &mut new);
        // A write of the status leaves the rest as it was filled and checked before.
        if part == Part::Whole {
            admission::fill_changed(resource, &old, &mut new);
        }
        let mut differs = !object::equal(&old, &new);
        if part == Part::Whole && differs {
            let operation = Operation::Update { old: &old, new: &new };
            if let Some(mut changed) = self.ask_webhooks(Stage::Mutating, resource, operation)? {
                object::strip_nulls(&mut changed);
                new = changed;
                differs = !object::equal(&old, &new);
            }
        }
        self.check(resource, Some(&old), &new, part)?;
        if !differs {
            return Ok(old);
        }
        if part == Part::Whole {
            let operation = Operation::Update { old: &old, new: &new };
            self.ask_webhooks(Stage::Validating, resource, operation)?;
        }
        self.record_managers(resource, Some(&old), &mut new, writer);
        Ok(self.write_back(resource, &old, new, writer))
    }

    /// Stores the new state of an object, or removes it where nothing keeps it any more.
    pub(super) fn write_back(
        &mut self,
        resource: &Arc<Resource>,
        old: &Value,
        mut new: Value,
        writer: &Writer,
    ) -> Arc<Value> {
        if has_generation(resource) && spec_changed(old, &new) {
            let generation = at(old, &["metadata", "generation"]).as_i64().unwrap_or_default() + 1;
            object::set(&mut new, &["metadata", "generation"], json!(generation));
        }
        if writer.dry_run {
            return Arc::new(new);
        }
        let is_released = is_terminating(&new)
            && finalizers(&new).is_empty()
            && at(&new, &["metadata", "deletionGracePeriodSeconds"]).as_i64().unwrap_or_default()
                == 0
            && at(&new, &["spec", "finalizers"]).as_array().is_none_or(Vec::is_empty);
        let key = Key::of(&new);
        let written = self.store.put(&resource.id, new);
        if is_released {
            self.store.remove(&resource.id, &key);
        }
        written
    }

    fn check_namespace(&self, resource: &Resource, object: &Value) -> Result<(), Failure> {
        if !resource.namespaced {
            return Ok(());
        }
        let wanted = namespace(object);
        let namespaces = id(NAMESPACES);
        let Some(found) = self.store.get(&namespaces, &Key::new("", wanted)) else {
            return Err(Failure::not_found(&namespaces, wanted));
        };
        if is_terminating(found) {
            let why = format!(
                "unable to create new content in namespace {wanted} because it is being terminated"
            );
            return Err(Failure::forbidden(&resource.id, name(object), &why));
        }
        Ok(())
    }

    /// The writer owns the fields that it changed, where owners are recorded.
    fn record_managers(
        &self,
        resource: &Resource,
        old: Option<&Value>,
        new: &mut Value,
        writer: &Writer,
    ) {
        if self.records_managers_of(&resource.id) {
            managed::record_update(old, new, &managed::Schema::of(resource), writer, self.now);
        }
    }

    fn check(
        &self,
        resource: &Resource,
        old: Option<&Value>,
        new: &Value,
        part: Part,
    ) -> Result<(), Failure> {
        let mut faults = admission::check_metadata(resource, new);
        if let Some(schema) = &resource.stored().schema {
            faults.extend(crd::validate(new, schema, &self.expressions));
            // What was let in once may stay as it is.
            if old.is_none_or(|old| crd::duplicates(old, schema, "").is_empty()) {
                faults.extend(crd::duplicates(new, schema, ""));
            }
            if faults.iter().any(|fault| fault.kind.blocks_rules()) {
                faults.extend(crd::has_rules(schema).then(FieldFault::unchecked_rules));
            } else {
                faults.extend(crd::check_rules(&self.expressions, old, new, schema));
            }
        }
        if resource.origin == Origin::Builtin && part == Part::Whole {
            faults.extend(admission::check_builtin(resource, old, new));
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid(&resource.id, &resource.kind, name(new), &faults))
    }

    /// Gives a new object its name where it asks for a generated one.
    fn name_new(&mut self, resource: &Resource, object: &mut Value) -> Result<(), Failure> {
        if !name(object).is_empty() {
            return Ok(());
        }
        let Some(prefix) = at(object, &["metadata", "generateName"]).as_str().map(str::to_owned)
        else {
            let fault = FieldFault::required("metadata.name", "name or generateName is required");
            return Err(Failure::invalid(&resource.id, &resource.kind, "", &[fault]));
        };
        let generated = loop {
            let generated = format!("{prefix}{}", self.ids.tail());
            let key = Key::new(namespace(object), generated.as_str());
            if self.store.get(&resource.id, &key).is_none() {
                break generated;
            }
        };
        object::set(object, &["metadata", "name"], generated.into());
        Ok(())
    }
}

/// Brings an object into the shape of its kind.
fn fit(resource: &Resource, object: &mut Value, writer: &Writer) -> Result<(), Failure> {
    let handled = |problem: &str| {
        Failure::bad_request(format!(
            "{0} in version {1:?} cannot be handled as a {0}: {problem}",
            resource.kind,
            resource.stored().name
        ))
    };
    let mut unknown = check_shape(resource, object).map_err(|fault| {
        let field = (fault.path.clone(), fault.problem.clone());
        handled(&fault.to_string()).with_fields(vec![field])
    })?;
    for path in &unknown {
        remove_path(object, path);
    }
    if let Some(schema) = &resource.stored().schema {
        unknown.extend(crd::prune(object, schema));
        crd::apply_defaults(object, schema);
    }
    if writer.unknown_fields == UnknownFields::Reject && !unknown.is_empty() {
        let texts: Vec<String> =
            unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        let failure = handled(&format!("strict decoding error: {}", texts.join(", ")));
        let fields = unknown.into_iter().map(|path| (path, "unknown field".to_owned()));
        return Err(failure.with_fields(fields.collect()));
    }
    object["apiVersion"] = Value::from(resource.api_version(&resource.stored().name));
    object["kind"] = Value::from(resource.kind.as_str());
    Ok(())
}

/// Removes the fields that the write ignores, so that they are not validated. A writer whose unknown fields are errors
/// keeps them, so that all of them are reported.
fn remove_ignored_fields(object: &mut Value, part: Part, writer: &Writer) {
    object::remove(object, &["metadata", "managedFields"]);
    if part == Part::Status && writer.unknown_fields == UnknownFields::Drop {
        object::remove(object, &["spec"]);
    }
}

/// What was sent, with the parts of the old object that this write does not touch. The field managers are not among them.
fn merged_parts(resource: &Resource, old: &Value, mut sent: Value, part: Part) -> Value {
    let mut new = match part {
        Part::Whole => sent,
        Part::Status => {
            let mut new = object::without_managers(old, &["status"]);
            if let Some(status) = sent.get_mut("status").map(Value::take) {
                new["status"] = status;
            }
            // The status of pods and nodes may be written together with their marks.
            if resource.origin == Origin::Builtin {
                for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
                    if let Some(marks) = sent["metadata"].get_mut(key) {
                        object::set(&mut new, &["metadata", key], marks.take());
                    }
                }
            }
            new
        }
    };
    if part == Part::Whole && resource.stored().status {
        match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => object::remove(&mut new, &["status"]),
        }
    }
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ] {
        match old["metadata"].get(key) {
            Some(value) => object::set(&mut new, &["metadata", key], value.clone()),
            None => object::remove(&mut new, &["metadata", key]),
        }
    }
    new
}

/// The version and UID that a writer expects, where it says so.
pub(super) fn check_preconditions(
    resource: &Resource,
    old: &Value,
    version: &str,
    wanted_uid: &str,
) -> Result<(), Failure> {
    if !wanted_uid.is_empty() && wanted_uid != uid(old) {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {}",
            storage_key(resource, old),
            uid(old)
        );
        return Err(Failure::conflict(&resource.id, name(old), &why));
    }
    if !version.is_empty() && version != object::version(old) {
        return Err(Failure::outdated(&resource.id, name(old)));
    }
    Ok(())
}

/// Where the real API server would store an object; some of its messages say so.
fn storage_key(resource: &Resource, object: &Value) -> String {
    let group = match resource.origin {
        Origin::Builtin => String::new(),
        Origin::Custom => format!("{}/", resource.id.group),
    };
    format!("/registry/{group}{}/{}", resource.id.plural, Key::of(object))
}

/// Whether objects count the changes of their spec (`metadata.generation`).
fn has_generation(resource: &Resource) -> bool {
    let counts = matches!(
        (&*resource.id.group, &*resource.id.plural),
        ("", "pods")
            | (
                "apps"
                    | "batch"
                    | "policy"
                    | "apiextensions.k8s.io"
                    | "admissionregistration.k8s.io",
                _
            )
            | ("resource.k8s.io", "resourceslices")
            | ("scheduling.k8s.io", "priorityclasses")
    );
    counts || resource.origin == Origin::Custom
}

fn spec_changed(old: &Value, new: &Value) -> bool {
    fn spec(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(key, _)| *key != "metadata" && *key != "status")
    }
    spec(old).count() != spec(new).count()
        || spec(old).any(|(key, value)| !new.get(key).is_some_and(|new| object::equal(value, new)))
}

/// Removes a field by a path such as `spec.containers[0].x`.
fn remove_path(object: &mut Value, path: &str) {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut here = Some(object);
    for segment in parents.split('.').filter(|segment| !segment.is_empty()) {
        let (key, indices) = segment.split_once('[').unwrap_or((segment, ""));
        here = here.and_then(|here| here.get_mut(key));
        for index in indices.split(['[', ']']).filter_map(|index| index.parse::<usize>().ok()) {
            here = here.and_then(|here| here.get_mut(index));
        }
    }
    if let Some(map) = here.and_then(Value::as_object_mut) {
        map.shift_remove(last);
    }
}
