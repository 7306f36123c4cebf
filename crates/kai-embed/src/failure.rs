//! Why a request fails, in the words of the real API server.

use serde_json::{Value, json};

use crate::store::ResourceId;

/// Why a request fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// HTTP status code.
    pub code: u16,
    /// Reason of the `Status` object, such as `NotFound`; empty for answers that are plain text.
    pub reason: &'static str,
    /// Message of the `Status` object.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Value>>,
    /// Fields that are wrong, each with what is wrong with it. Not a part of the answer, but of the sentence for people.
    pub fields: Vec<(String, String)>,
}

/// One field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// Path of the field.
    pub field: String,
    /// How it is wrong.
    pub kind: FaultKind,
    /// What is wrong, as the real one says it.
    pub message: String,
}

/// How a field is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It has a value it may not have.
    Invalid,
    /// It is of a type it may not have.
    Type,
    /// It must be there.
    Required,
    /// It has none of the values it may have.
    NotSupported,
    /// It may not be there, or not be changed.
    Forbidden,
    /// It is there already.
    Duplicate,
}

impl FaultKind {
    /// Whether the error prevents the evaluation of rules about the object.
    pub(crate) const fn blocks_rules(self) -> bool {
        matches!(self, Self::Type | Self::Required | Self::NotSupported)
    }

    /// The reason of such a cause.
    const fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Type => "FieldValueTypeInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }
}

impl FieldFault {
    /// A value that may not be.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {}: {why}", shown(value));
        Self { field: field.into(), kind: FaultKind::Invalid, message }
    }

    /// A field that must be there.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self { field: field.into(), kind: FaultKind::Required, message }
    }

    /// A value that is not supported.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[String]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let supported = supported.join(", ");
        let message = format!("Unsupported value: {}: supported values: {supported}", shown(value));
        Self { field: field.into(), kind: FaultKind::NotSupported, message }
    }

    /// A field that breaks a rule of its schema.
    pub(crate) fn broken_rule(field: String, kind: FaultKind, value: &Value, why: &str) -> Self {
        let message = match (kind, value) {
            (FaultKind::Forbidden, _) => format!("Forbidden: {why}"),
            (FaultKind::Required, _) => format!("Required value: {why}"),
            (FaultKind::Duplicate, value) => format!("Duplicate value: {value}"),
            // Lists and objects are too long to be shown.
            (_, Value::Object(_) | Value::Array(_)) => format!("Invalid value: {why}"),
            (_, value) => format!("Invalid value: {value}: {why}"),
        };
        Self { field, kind, message }
    }

    /// A duplicate item of a list, identified by these fields.
    pub(crate) fn duplicate(field: String, value: &Value) -> Self {
        let message = format!("Duplicate value: {value}");
        Self { field, kind: FaultKind::Duplicate, message }
    }

    /// Rules that were not evaluated because another field is invalid already.
    pub(crate) fn unchecked_rules() -> Self {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        Self::invalid("<nil>", &Value::Null, why)
    }

    /// A field that may not be there, or not be changed.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        let message = format!("Forbidden: {why}");
        Self { field: field.into(), kind: FaultKind::Forbidden, message }
    }
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        value => value.to_string(),
    }
}

fn details(resource: &ResourceId, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": &*resource.plural});
    if !resource.group.is_empty() {
        details["group"] = json!(&*resource.group);
    }
    details
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, fields: Vec::new() }
    }

    /// The same, about these fields.
    pub(crate) fn with_fields(self, fields: Vec<(String, String)>) -> Self {
        Self { fields, ..self }
    }

    fn about(self, resource: &ResourceId, name: &str) -> Self {
        Self { details: Some(Box::new(details(resource, name))), ..self }
    }

    /// A webhook said no.
    pub(crate) fn denied(webhook: &str, why: &str) -> Self {
        let message = format!("admission webhook {webhook:?} denied the request: {why}");
        Self::new(403, "Forbidden", message)
    }

    /// A webhook did not answer.
    pub(crate) fn webhook_silent(webhook: &str) -> Self {
        let why = "no server listens at its address";
        let message = format!("Internal error occurred: failed calling webhook {webhook:?}: {why}");
        Self::new(500, "InternalError", message)
    }

    /// A webhook answered with a patch that cannot be applied.
    pub(crate) fn webhook_patch(webhook: &str, why: &str) -> Self {
        let message = format!(
            "Internal error occurred: failed calling webhook {webhook:?}: its patch: {why}"
        );
        Self::new(500, "InternalError", message)
    }

    /// 404 for an object that does not exist.
    pub fn not_found(resource: &ResourceId, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.full_name());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// No such path. The answer is a text, because the kind of the object is unknown.
    pub fn no_such_path() -> Self {
        Self::new(404, "", "404 page not found\n")
    }

    /// Another object has the name.
    pub fn already_exists(resource: &ResourceId, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.full_name());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// The object is not as the writer thinks.
    pub fn conflict(resource: &ResourceId, name: &str, why: &str) -> Self {
        let full = resource.full_name();
        let message = format!("Operation cannot be fulfilled on {full} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The object is another one than was to be deleted.
    pub fn other_object(
        resource: &ResourceId,
        kind: &str,
        name: &str,
        wanted: &str,
        is: &str,
    ) -> Self {
        let by_kind = ResourceId::new(&resource.group, kind);
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({is}). The object might have been deleted and then recreated"
        );
        Self::conflict(&by_kind, name, &why)
    }

    /// The object has been changed since the writer read it.
    pub fn outdated(resource: &ResourceId, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// Other managers own fields of an applied object.
    pub fn apply_conflict(causes: &[(String, String)]) -> Self {
        let lines: Vec<String> = causes
            .iter()
            .map(|(manager, field)| format!("conflict with {manager}: {field}"))
            .collect();
        let count = causes.len();
        let plural = if count == 1 { "conflict" } else { "conflicts" };
        let message = match lines.as_slice() {
            [one] => format!("Apply failed with 1 {plural}: {one}"),
            many => format!("Apply failed with {count} {plural}: {}", many.join("\n- ")),
        };
        let causes: Vec<Value> = causes
            .iter()
            .map(|(manager, field)| {
                json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": field})
            })
            .collect();
        let details = json!({"causes": causes});
        Self { details: Some(Box::new(details)), ..Self::new(409, "Conflict", message) }
    }

    /// The object is not as its kind must be.
    pub fn invalid(resource: &ResourceId, kind: &str, name: &str, faults: &[FieldFault]) -> Self {
        let texts: Vec<String> =
            faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect();
        let full = if resource.group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{}", resource.group)
        };
        let text = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = faults
            .iter()
            .map(|fault| {
                json!({"reason": fault.kind.reason(), "message": fault.message, "field": fault.field})
            })
            .collect();
        let mut details = json!({"kind": kind, "causes": causes});
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        if !resource.group.is_empty() {
            details["group"] = json!(&*resource.group);
        }
        let message = format!("{full} {name:?} is invalid: {text}");
        let fields = faults.iter().map(|fault| (fault.field.clone(), fault.message.clone()));
        Self { details: Some(Box::new(details)), ..Self::new(422, "Invalid", message) }
            .with_fields(fields.collect())
    }

    /// 400 for a malformed request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// A patch that cannot be applied.
    pub fn invalid_patch(resource: &ResourceId, why: &str) -> Self {
        let message =
            format!("the server rejected our request due to an error in our request: {why}");
        Self::new(422, "Invalid", message).about(resource, "")
    }

    /// The writer may not do that to this object.
    pub fn forbidden(resource: &ResourceId, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.full_name());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// The request has no valid credentials.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The object does not know this verb.
    pub fn method_not_allowed() -> Self {
        let why = "the server does not allow this method on the requested resource";
        Self { details: Some(Box::new(json!({}))), ..Self::new(405, "MethodNotAllowed", why) }
    }

    /// No such form of patch.
    pub fn unsupported_media_type(sent: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml, application/apply-patch+cbor; got {sent:?}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// A body in protobuf that cannot be read.
    pub fn not_json(why: &str) -> Self {
        let message = format!("the body of the request was in an unknown format: {why}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// A disruption budget forbids it for now.
    pub fn budget(budget: &str, healthy: i64, needed: i64) -> Self {
        let cause = format!(
            "The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently"
        );
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
        Self { details: Some(Box::new(details)), ..Self::new(429, "TooManyRequests", message) }
    }

    /// More than one budget covers a pod.
    pub fn several_budgets() -> Self {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        Self::new(500, "InternalError", message)
    }

    /// Objects cannot be selected by this field; kinds with selectable fields have another text.
    pub fn unknown_field_selector(path: &str, knows_own: bool) -> Self {
        Self::bad_request(if knows_own {
            format!("field label not supported: {path}")
        } else {
            format!(
                "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        })
    }

    /// The requested version is too old (410).
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The failure as an object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        });
        if let Some(details) = &self.details {
            status["details"] = Value::clone(details);
        }
        status["code"] = json!(self.code);
        status
    }
}
