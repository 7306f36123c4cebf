//! Requests and answers.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::Subject;
use super::path::percent_decode;
use super::protobuf;
use super::watch::Watch;
use crate::failure::Failure;
use crate::object::{self, name, namespace, text};

/// A request, without its transport.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// What follows the path.
    pub query: Query,
    /// What the client wants to read.
    pub accept: String,
    /// What the client sends.
    pub content_type: String,
    /// User agent of the client.
    pub user_agent: String,
    /// Body; empty for reads.
    pub body: Bytes,
}

/// Keys and values of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the text after the question mark.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let read = |text: &str| percent_decode(&text.replace('+', " "));
            (read(key), read(value))
        });
        Self(pairs.collect())
    }

    /// A value; empty ones count as missing.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    /// Every value of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether a key is set and means yes.
    pub fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some("true" | "1"))
    }
}

/// What the body of a patch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A list of operations.
    JsonPatch,
    /// A patch that is merged.
    MergePatch,
    /// A patch that is merged, lists by key.
    StrategicMergePatch,
    /// All that its author wants to own.
    Apply,
}

impl Request {
    /// A `GET` of a path, which may have a query.
    pub fn get(path: &str) -> Self {
        Self::new("GET", path, Bytes::new())
    }

    /// A request with a body of JSON.
    pub fn send(method: &str, path: &str, body: &Value) -> Self {
        Self::new(method, path, Bytes::from(body.to_string()))
    }

    fn new(method: &str, path: &str, body: Bytes) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: Query::parse(query),
            accept: "application/json".to_owned(),
            content_type: "application/json".to_owned(),
            user_agent: String::new(),
            body,
        }
    }

    /// The same with another type of content.
    #[must_use]
    pub fn of_type(self, content_type: &str) -> Self {
        Self { content_type: content_type.to_owned(), ..self }
    }

    /// What kind of patch the body is.
    pub(super) fn patch_kind(&self) -> Result<Content, Failure> {
        match self.content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Content::JsonPatch),
            "application/merge-patch+json" => Ok(Content::MergePatch),
            "application/strategic-merge-patch+json" => Ok(Content::StrategicMergePatch),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Content::Apply),
            other => Err(Failure::unsupported_media_type(other)),
        }
    }

    /// The body, in JSON or YAML.
    pub(super) fn value(&self) -> Result<Value, Failure> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        if protobuf::is_protobuf(&self.body) {
            return protobuf::read(&self.body).map_err(|why| Failure::not_json(&why));
        }
        let is_yaml = self.content_type.contains("yaml");
        let broken = |error: String| {
            Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        };
        match serde_json::from_slice(&self.body) {
            Ok(value) => Ok(value),
            Err(_) if is_yaml => {
                let text = String::from_utf8_lossy(&self.body);
                serde_saphyr::from_str(&text).map_err(|error| broken(error.to_string()))
            }
            Err(error) => Err(broken(error.to_string())),
        }
    }

    /// The body, which must be an object.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let value = self.value()?;
        if value.is_object() {
            Ok(value)
        } else {
            Err(Failure::bad_request("the body of the request must be an object"))
        }
    }

    /// The object in the body, which must fit the path.
    pub(super) fn object_for(&self, subject: &Subject) -> Result<Value, Failure> {
        let mut object = self.object()?;
        object::strip_nulls(&mut object);
        let resource = &subject.resource;
        let api_version = subject.api_version();
        let (sent_version, sent_kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let fits = |sent: &str, wanted: &str| sent.is_empty() || sent == wanted;
        if !fits(sent_version, &api_version) || !fits(sent_kind, &resource.kind) {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({sent_version}) does not match the expected API version ({api_version})"
            )));
        }
        object["apiVersion"] = Value::from(resource.api_version(&subject.version));
        object["kind"] = Value::from(resource.kind.as_str());
        subject.dialect.understand(&mut object);
        let sent = namespace(&object);
        if !sent.is_empty() && sent != subject.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if resource.namespaced {
            object::set(&mut object, &["metadata", "namespace"], subject.namespace.as_str().into());
        }
        Ok(object)
    }

    /// The object in the body, which must have this name.
    pub(super) fn object_named(&self, subject: &Subject, wanted: &str) -> Result<Value, Failure> {
        let mut object = self.object_for(subject)?;
        let sent = name(&object);
        if !sent.is_empty() && sent != wanted {
            return Err(Failure::bad_request(format!(
                "the name of the object ({sent}) does not match the name on the URL ({wanted})"
            )));
        }
        object::set(&mut object, &["metadata", "name"], wanted.into());
        Ok(object)
    }

    /// Field manager of the write; by default the first part of the user agent.
    pub(super) fn field_manager(&self) -> String {
        let agent = self.user_agent.split('/').next().filter(|agent| !agent.is_empty());
        self.query.get("fieldManager").or(agent).unwrap_or("unknown").to_owned()
    }
}

/// The answer to a request, without its transport.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An object, with its HTTP status and warnings.
    Object {
        /// HTTP status code.
        code: u16,
        /// Body of the answer.
        object: Arc<Value>,
        /// What the writer should know.
        warnings: Vec<String>,
    },
    /// A text, with its HTTP status.
    Text(u16, String),
    /// Everything that happens from now on.
    Watch(Box<Watch>),
}

impl Answer {
    /// An object without warnings.
    pub fn object(code: u16, object: Value) -> Self {
        Self::shared(code, Arc::new(object))
    }

    /// The same for an object that the store shares.
    pub(super) fn shared(code: u16, object: Arc<Value>) -> Self {
        Self::Object { code, object, warnings: Vec::new() }
    }

    /// The same with more that the writer should know.
    pub(crate) fn with_warnings(mut self, more: Vec<String>) -> Self {
        if let Self::Object { warnings, .. } = &mut self {
            warnings.extend(more);
        }
        self
    }

    /// The answer for a failure: a `Status` object, or a text for unknown paths.
    pub fn failed(failure: &Failure) -> Self {
        if failure.reason.is_empty() {
            return Self::Text(failure.code, failure.message.clone());
        }
        Self::object(failure.code, failure.status())
    }
}
