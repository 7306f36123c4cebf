//! How objects are shown: in full, their metadata only, or as rows of a table.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::Subject;
use super::request::{Answer, Request};
use crate::cluster::Cluster;
use crate::tables;

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Full,
    Metadata,
    Table(RowObject),
}

/// What a row of a table carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowObject {
    None,
    Metadata,
    /// The whole object: `kubectl get --sort-by` reads its fields.
    Object,
}

impl RowObject {
    fn of(request: &Request) -> Self {
        match request.query.get("includeObject") {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

impl Representation {
    /// What the client would like best of what there is.
    pub(super) fn of(request: &Request) -> Self {
        for media_type in request.accept.split(',') {
            if media_type.contains("as=Table") {
                return Self::Table(RowObject::of(request));
            }
            if media_type.contains("as=PartialObjectMetadata") {
                return Self::Metadata;
            }
            if media_type.contains("application/json") || media_type.contains("*/*") {
                return Self::Full;
            }
        }
        Self::Full
    }
}

/// An object as it is shown.
pub(super) fn represent(
    representation: Representation,
    subject: &Subject,
    object: &Arc<Value>,
    now: Timestamp,
) -> Arc<Value> {
    match representation {
        Representation::Full if subject.is_stored_form(object) => Arc::clone(object),
        Representation::Full => Arc::new(subject.in_served_form(object)),
        Representation::Metadata => Arc::new(metadata_only(object)),
        Representation::Table(rows) => {
            let metadata = json!({"resourceVersion": crate::object::version(object)});
            Arc::new(table(rows, subject, &[object], &metadata, now))
        }
    }
}

fn table(
    rows: RowObject,
    subject: &Subject,
    objects: &[&Value],
    metadata: &Value,
    now: Timestamp,
) -> Value {
    let row_object = |object: &Value| match rows {
        RowObject::None => Value::Null,
        RowObject::Metadata => metadata_only(object),
        RowObject::Object => subject.in_served_form(object),
    };
    tables::table(&subject.resource, subject.version(), objects, metadata, now, &row_object)
}

fn metadata_only(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

/// A list as it is shown.
pub(super) fn represent_list(
    representation: Representation,
    subject: &Subject,
    objects: &[&Arc<Value>],
    metadata: &Value,
    now: Timestamp,
) -> Value {
    let resource = &subject.resource;
    match representation {
        Representation::Full => {
            // Items of lists do not repeat kind and version of the list, except items of custom resources.
            let items: Vec<Value> = objects
                .iter()
                .map(|object| {
                    let mut item = subject.in_served_form(object);
                    if resource.origin == crate::kinds::Origin::Builtin {
                        crate::object::remove(&mut item, &["apiVersion"]);
                        crate::object::remove(&mut item, &["kind"]);
                    }
                    item
                })
                .collect();
            json!({
                "kind": resource.list_kind,
                "apiVersion": subject.api_version(),
                "metadata": metadata,
                "items": items,
            })
        }
        Representation::Metadata => {
            let items: Vec<Value> = objects.iter().map(|object| metadata_only(object)).collect();
            json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items,
            })
        }
        Representation::Table(rows) => {
            let objects: Vec<&Value> = objects.iter().map(|object| &***object).collect();
            table(rows, subject, &objects, metadata, now)
        }
    }
}

impl Cluster {
    /// One object as an answer.
    pub(super) fn show(
        &self,
        request: &Request,
        subject: &Subject,
        code: u16,
        object: &Arc<Value>,
    ) -> Answer {
        Answer::shared(code, represent(Representation::of(request), subject, object, self.now))
    }
}
