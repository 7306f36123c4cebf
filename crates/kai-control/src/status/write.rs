//! Patches of statuses into requests.

use k8s_openapi::api::core::v1::PodCondition;
use kai_api::pod_group::{PodGroupResources, SchedulingCondition};
use kai_api::queue::QueueStatus;
use kai_client::failure::Failure;
use kai_client::path::Resource;
use kai_client::write::{Create, Identity, Patch, Target as Object, Write, Writer};
use kai_core::input::{ObjectName, Text};
use serde_json::{Map, Value};

use super::render::ObservedCondition;
use super::schedule::Target;

/// One write of a status or an event.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// Whose status it is; none: its outcome does not matter.
    target: Option<Target>,
    write: Write,
}

/// What a status says once it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A pod of this UID and its condition.
    Pod(Text, ObservedCondition),
    /// Conditions and resources of a pod group, where they were written.
    Group {
        /// Its conditions, where they changed.
        conditions: Option<Vec<SchedulingCondition>>,
        /// Its sums, where they changed.
        resources: Option<PodGroupResources>,
    },
    /// The whole status of a queue.
    Queue(QueueStatus),
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whose status it was.
    pub target: Option<Target>,
    /// How the write ended.
    pub outcome: Outcome,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server accepted the write.
    Done,
    /// The object is gone or changed meanwhile.
    Overtaken,
    /// The write failed and is retried.
    Failed,
}

impl StatusWrite {
    /// The condition of a pod of this UID.
    pub(super) fn pod(pod: &ObjectName, uid: &str, condition: PodCondition) -> Self {
        let object = Object::of_uid(Resource::PODS, pod, uid);
        Self {
            target: Some(Target::Pod(pod.clone())),
            write: Write::Patch(object, Patch::conditions(&[condition])),
        }
    }

    /// A condition whose outcome does not matter.
    pub(super) fn pod_note(pod: &ObjectName, uid: &str, condition: PodCondition) -> Self {
        Self { target: None, ..Self::pod(pod, uid, condition) }
    }

    pub(super) fn group(
        group: &ObjectName,
        identity: Identity,
        status: &Map<String, Value>,
    ) -> Self {
        let object = Object { resource: Resource::POD_GROUPS, name: group.clone(), identity };
        Self {
            target: Some(Target::Group(group.clone())),
            write: Write::Patch(object, Patch::status(status)),
        }
    }

    pub(super) fn queue(queue: &Text, status: &Map<String, Value>) -> Self {
        let object = Object::named(Resource::QUEUES, &ObjectName::new("", &**queue));
        Self {
            target: Some(Target::Queue(queue.clone())),
            write: Write::Patch(object, Patch::status(status)),
        }
    }

    pub(super) fn event(event: Create) -> Self {
        Self { target: None, write: Write::Create(event) }
    }

    /// Carries the write out.
    pub async fn carry_out(self, writer: Writer) -> Ended {
        let Self { target, write } = self;
        let outcome = match writer.write(&write).await {
            Ok(()) => Outcome::Done,
            Err(Failure::Gone { .. } | Failure::Conflict { .. }) => Outcome::Overtaken,
            Err(failure) => {
                tracing::warn!(object = %named(&write), %failure, "failed to write a status");
                Outcome::Failed
            }
        };
        Ended { target, outcome }
    }
}

/// Kind and name of what is written.
fn named(write: &Write) -> String {
    match write {
        Write::Patch(object, _) => format!("{} {}", object.resource.plural, object.name),
        Write::Create(Create { resource, namespace, .. }) => {
            format!("{} in {namespace}", resource.plural)
        }
        _ => String::new(),
    }
}
