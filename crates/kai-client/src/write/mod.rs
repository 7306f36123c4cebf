//! Writes to the API server: one type for all of them, and one executor. A controller says what it wants written and for
//! which object; path, encoding, precondition, limit, deadline and repetition are the [`Writer`]'s.
//!
//! | module | subject |
//! |---|---|
//! | `object` | kinds whose objects are written whole |
//! | `patch` | changes of fields |
//! | `body` | a write as method, path, content type and body |
//! | `writer` | carries writes out |

mod body;
mod object;
mod patch;
mod writer;

use std::borrow::Cow;
use std::collections::BTreeMap;

use kai_core::input::{ObjectName, Text};
use serde_json::Value;

pub use object::{Object, named, owned_by_pod};
pub use patch::{Merge, Part, Patch, Texts};
pub use writer::{Limits, Outcome, Writer, read};

use crate::path::Resource;
use object::to_json;

/// Something to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Bind a pod to a node.
    Bind(BindPod),
    /// Evict a pod through the eviction API, which respects disruption budgets.
    Evict(Target),
    /// Remove an object. One that does not exist is removed, and so is one whose name another object has by now.
    Delete(Target, Delete),
    /// Create an object; fails with a conflict if the name is taken.
    Create(Create),
    /// Apply the fields that a manager owns, whether the object exists or not.
    Apply(Apply),
    /// Change fields of an object.
    Patch(Target, Patch),
}

/// An object that must exist, by kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Kind of the object, as a path of the API.
    pub resource: Resource,
    /// The name; the namespace is empty where the kind has none.
    pub name: ObjectName,
    /// Which object of this name.
    pub identity: Identity,
}

/// Which object of a name is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The one with this UID: the write fails with a conflict where another object has the name.
    Uid(Text),
    /// The one with this UID, unchanged since this resource version.
    Version {
        /// UID of the object; another object of the name is a conflict.
        uid: Text,
        /// Resource version that the write was decided on; a newer one is a conflict.
        version: String,
    },
    /// Whichever has the name, as for nodes, whose names are their identity.
    Any,
}

impl Target {
    /// The object of this UID.
    pub fn of_uid(resource: Resource, name: &ObjectName, uid: &str) -> Self {
        Self { resource, name: name.clone(), identity: Identity::Uid(uid.into()) }
    }

    /// The object of this UID while its resource version is this one.
    pub fn unchanged(resource: Resource, name: &ObjectName, uid: &str, version: &str) -> Self {
        let identity = Identity::Version { uid: uid.into(), version: version.to_owned() };
        Self { resource, name: name.clone(), identity }
    }

    /// Whichever object has the name.
    pub fn named(resource: Resource, name: &ObjectName) -> Self {
        Self { resource, name: name.clone(), identity: Identity::Any }
    }
}

/// The bind of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct BindPod {
    /// Namespace and name of the pod.
    pub pod: ObjectName,
    /// The UID of the pod.
    pub uid: Text,
    /// Name of the node.
    pub node: Text,
    /// Labels for the pod. API servers before Kubernetes 1.35 ignore them.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the pod gets in the same write.
    pub annotations: BTreeMap<Cow<'static, str>, String>,
}

/// How an object is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    /// Grace period of pods; none: the pod's own.
    pub grace_period_seconds: Option<u32>,
}

/// An object to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// Kind of the object, as a path of the API.
    pub resource: Resource,
    /// The namespace; empty where the kind has none.
    pub namespace: Text,
    /// Body of the request.
    pub object: Box<Value>,
    /// The owner of its fields, where they are applied later; none: the client.
    pub manager: Option<&'static str>,
}

impl Create {
    /// An object whose fields are not applied later.
    pub fn new<T: Object>(object: &T) -> Self {
        let namespace = object.metadata().namespace.as_deref().unwrap_or_default().into();
        Self { resource: T::RESOURCE, namespace, object: Box::new(to_json(object)), manager: None }
    }

    /// An object with parts from the settings, which are passed on as they stand there: newer servers know more fields.
    pub fn manifest(resource: Resource, namespace: &Text, object: Box<Value>) -> Self {
        Self { resource, namespace: namespace.clone(), object, manager: None }
    }
}

/// Fields that a manager owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// Kind of the object, as a path of the API.
    pub resource: Resource,
    /// Namespace and name; the object is created if it does not exist.
    pub name: ObjectName,
    /// The owner of the fields.
    pub manager: &'static str,
    /// The fields that the manager owns; fields it owned before and that are missing here are removed.
    pub object: Box<Value>,
}

impl Apply {
    /// The fields of an object.
    pub fn new<T: Object>(object: &T, manager: &'static str) -> Self {
        let metadata = object.metadata();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let name = ObjectName::new(text(&metadata.namespace), text(&metadata.name));
        Self { resource: T::RESOURCE, name, manager, object: Box::new(to_json(object)) }
    }
}

/// Writes of a class share a limit, and wait for no other class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Bind,
    /// Bind requests: a plan may make thousands, and binds of the first ones do not queue behind them.
    BindRequest,
    /// Pods that are evicted or removed.
    Evict,
    /// Statuses and events, which may be late.
    Status,
    /// All other objects: pod groups, config maps, claims.
    Object,
}

impl Write {
    /// Carried out twice, it has the same answer and the same effect as once.
    pub(crate) fn may_be_done_twice(&self) -> bool {
        match self {
            Self::Apply(_) | Self::Delete(..) => true,
            Self::Patch(target, _) => !matches!(target.identity, Identity::Version { .. }),
            Self::Bind(_) | Self::Evict(_) | Self::Create(_) => false,
        }
    }

    /// The class, which follows from what is written.
    pub fn class(&self) -> Class {
        match self {
            Self::Bind(_) => Class::Bind,
            Self::Create(create) if create.resource == Resource::BIND_REQUESTS => {
                Class::BindRequest
            }
            Self::Create(create) if create.resource == Resource::EVENTS => Class::Status,
            Self::Evict(_) => Class::Evict,
            Self::Delete(target, _) if target.resource == Resource::PODS => Class::Evict,
            Self::Patch(_, patch) if patch.part == Part::Status => Class::Status,
            Self::Create(_) | Self::Apply(_) | Self::Patch(..) | Self::Delete(..) => Class::Object,
        }
    }
}
