//! The API: requests into answers.

mod delete;
mod discovery;
mod events;
mod list;
mod managed;
mod openapi;
mod patch;
mod path;
mod pods;
mod protobuf;
mod representation;
mod request;
mod scale;
mod watch;
mod write;

use std::sync::Arc;

use serde_json::{Value, json};

pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN};
pub(crate) use patch::apply_json_patch;
pub use request::{Answer, Content, Query, Request};
pub use watch::{ReceivedFields, Watch, WatchEvent, WatchLine};
pub use write::{Part, Writer};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::{EVENTS, Resource, Version};
use crate::object::Key;
pub(crate) use events::Dialect;
use path::{Target, read};

/// What a request is about.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) resource: Arc<Resource>,
    /// The version the client speaks.
    pub(crate) version: String,
    /// Empty: all of them, or none for resources of the cluster.
    pub(crate) namespace: String,
    /// The words the client uses.
    pub(crate) dialect: Dialect,
}

impl Subject {
    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(self.namespace.as_str(), name)
    }

    pub(crate) fn version(&self) -> &Version {
        self.resource.version(&self.version).unwrap_or_else(|| self.resource.stored())
    }

    /// Whether the object is stored in the form the client reads.
    pub(crate) fn is_stored_form(&self, object: &Value) -> bool {
        self.dialect == Dialect::Stored
            && object["kind"] == self.resource.kind.as_str()
            && object["apiVersion"] == self.api_version().as_str()
    }

    /// The object in the version the client speaks.
    pub(crate) fn in_served_form(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["apiVersion"] = Value::from(self.api_version());
        object["kind"] = Value::from(self.resource.kind.as_str());
        self.dialect.speak(&mut object);
        object
    }

    /// Group and version as the client names them.
    pub(crate) fn api_version(&self) -> String {
        match self.dialect {
            Dialect::Stored => self.resource.api_version(&self.version),
            Dialect::NewEvents => "events.k8s.io/v1".to_owned(),
        }
    }
}

/// Reviews of users and their rights: every client of this API may do everything.
fn review(mut review: Value, path: &str) -> Result<Answer, Failure> {
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let anywhere = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let groups = ["system:masters", "system:authenticated"];
    review["status"] = match path.rsplit('/').next().unwrap_or_default() {
        "selfsubjectaccessreviews" | "subjectaccessreviews" => json!({"allowed": true}),
        "selfsubjectrulesreviews" => {
            json!({"resourceRules": everything, "nonResourceRules": anywhere, "incomplete": false})
        }
        "selfsubjectreviews" => json!({"userInfo": {"username": "admin", "groups": groups}}),
        _ => return Err(Failure::no_such_path()),
    };
    Ok(Answer::object(201, review))
}

impl Cluster {
    /// Answers a request; only the entry point of the service calls this.
    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        match self.try_answer(request) {
            Ok(answer) => answer,
            Err(failure) => Answer::failed(&failure),
        }
    }

    fn try_answer(&mut self, request: &Request) -> Result<Answer, Failure> {
        match read(&request.path) {
            Some(Target::Fixed(path)) => self.fixed(request, &path),
            Some(Target::Resource { group, version, namespace, plural, name, subresource }) => {
                let resource = self
                    .kinds
                    .get(&crate::store::ResourceId::new(&group, &plural))
                    .filter(|resource| resource.version(&version).is_some())
                    .filter(|resource| resource.namespaced || namespace.is_empty())
                    .cloned()
                    .ok_or_else(Failure::no_such_path)?;
                let subject = self.subject(resource, version, namespace);
                match (name, subresource) {
                    (None, _) => self.collection(request, &subject),
                    (Some(name), None) => self.single(request, &subject, &name),
                    (Some(name), Some(sub)) => self.part(request, &subject, &name, &sub),
                }
            }
            None => Err(Failure::no_such_path()),
        }
    }

    /// Events of both groups are stored as core events.
    fn subject(&self, resource: Arc<Resource>, version: String, namespace: String) -> Subject {
        let core = self.kinds.get(&crate::kinds::id(EVENTS)).cloned();
        match core.filter(|core| core.id.plural == resource.id.plural && core.id != resource.id) {
            Some(resource) => Subject { resource, version, namespace, dialect: Dialect::NewEvents },
            None => Subject { resource, version, namespace, dialect: Dialect::Stored },
        }
    }

    fn fixed(&mut self, request: &Request, path: &str) -> Result<Answer, Failure> {
        match (request.method.as_str(), path) {
            ("GET" | "HEAD", path) => self.describe(path).ok_or_else(Failure::no_such_path),
            ("POST", path) => review(request.object()?, path),
            _ => Err(Failure::method_not_allowed()),
        }
    }

    fn collection(&mut self, request: &Request, subject: &Subject) -> Result<Answer, Failure> {
        match request.method.as_str() {
            "GET" if request.query.is_true("watch") => self.watch(request, subject),
            "GET" => self.list_objects(request, subject),
            "POST" => {
                let object = request.object_for(subject)?;
                let made = self.create(&subject.resource, object, &Writer::of(request)?)?;
                Ok(self.show(request, subject, 201, &made))
            }
            "DELETE" => self.delete_collection(request, subject),
            _ => Err(Failure::method_not_allowed()),
        }
    }

    fn single(
        &mut self,
        request: &Request,
        subject: &Subject,
        name: &str,
    ) -> Result<Answer, Failure> {
        match request.method.as_str() {
            "GET" if request.query.is_true("watch") => self.watch(request, subject),
            "GET" => {
                let object = self.find(subject, name)?;
                Ok(self.show(request, subject, 200, &object))
            }
            "PUT" => {
                let object = request.object_named(subject, name)?;
                let writer = Writer::of(request)?;
                let written = self.update(&subject.resource, object, Part::Whole, &writer)?;
                Ok(self.show(request, subject, 200, &written))
            }
            "PATCH" => self.patch(request, subject, name, Part::Whole),
            "DELETE" => self.delete_one(request, subject, name),
            _ => Err(Failure::method_not_allowed()),
        }
    }

    fn part(
        &mut self,
        request: &Request,
        subject: &Subject,
        name: &str,
        part: &str,
    ) -> Result<Answer, Failure> {
        let is_pod = &*subject.resource.id.plural == "pods" && subject.resource.id.group.is_empty();
        match (request.method.as_str(), part) {
            ("GET", "status") if subject.version().status => {
                let object = self.find(subject, name)?;
                Ok(self.show(request, subject, 200, &object))
            }
            ("PUT", "status") if subject.version().status => {
                let object = request.object_named(subject, name)?;
                let writer = Writer { subresource: "status", ..Writer::of(request)? };
                let written = self.update(&subject.resource, object, Part::Status, &writer)?;
                Ok(self.show(request, subject, 200, &written))
            }
            ("PATCH", "status") if subject.version().status => {
                self.patch(request, subject, name, Part::Status)
            }
            (_, "scale") if subject.version().scale.is_some() => self.scale(request, subject, name),
            ("POST", "binding") if is_pod => self.bind(request, subject, name),
            ("POST", "eviction") if is_pod => self.evict(request, subject, name),
            ("GET", "log") if is_pod => {
                self.find(subject, name)?;
                Ok(Answer::Text(
                    200,
                    "The containers of this cluster are simulated and say nothing.\n".to_owned(),
                ))
            }
            ("PUT", "finalize") if &*subject.resource.id.plural == "namespaces" => {
                let object = request.object_named(subject, name)?;
                let written =
                    self.update(&subject.resource, object, Part::Whole, &Writer::of(request)?)?;
                Ok(self.show(request, subject, 200, &written))
            }
            _ => Err(Failure::no_such_path()),
        }
    }

    /// An object by name.
    pub(crate) fn find(&self, subject: &Subject, name: &str) -> Result<Arc<Value>, Failure> {
        let found = self.store.get(&subject.resource.id, &subject.key(name)).cloned();
        found.ok_or_else(|| Failure::not_found(&subject.resource.id, name))
    }
}
