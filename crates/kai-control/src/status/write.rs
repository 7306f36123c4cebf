//! Patches of statuses into requests.

use kai_api::pod_group::{PodGroupResources, SchedulingCondition};
use kai_api::queue::QueueStatus;
use kai_client::request::{MERGE_PATCH, STRATEGIC_PATCH, object_path, path_segment, send};
use kai_core::input::{ObjectName, Text};
use kube::Client;
use serde_json::Value;

use super::render::SeenCondition;
use super::schedule::Target;

/// One request that tells something.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// Whose status it is; none: nobody waits for it.
    target: Option<Target>,
    method: &'static str,
    path: String,
    content_type: Option<&'static str>,
    body: Value,
}

/// What a status says once it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A pod of this UID and its condition.
    Pod(Text, SeenCondition),
    /// A group.
    Group {
        /// Its conditions, where they changed.
        conditions: Option<Vec<SchedulingCondition>>,
        /// Its sums, where they changed.
        resources: Option<PodGroupResources>,
    },
    /// A queue.
    Queue(QueueStatus),
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whose status it was.
    pub target: Option<Target>,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is written.
    Done,
    /// The object is gone or changed meanwhile.
    Overtaken,
    /// Something went wrong.
    Failed,
}

impl StatusWrite {
    pub(super) fn pod(pod: &ObjectName, patch: &Value) -> Self {
        Self {
            target: Some(Target::Pod(pod.clone())),
            method: "PATCH",
            path: object_path("/api/v1", "pods", pod) + "/status",
            content_type: Some(STRATEGIC_PATCH),
            body: patch.clone(),
        }
    }

    /// A condition that nobody waits for.
    pub(super) fn pod_note(pod: &ObjectName, patch: &Value) -> Self {
        Self { target: None, ..Self::pod(pod, patch) }
    }

    pub(super) fn group(group: &ObjectName, patch: &Value) -> Self {
        let path = object_path("/apis/scheduling.run.ai/v2alpha2", "podgroups", group);
        Self {
            target: Some(Target::Group(group.clone())),
            method: "PATCH",
            path: path + "/status",
            content_type: Some(MERGE_PATCH),
            body: patch.clone(),
        }
    }

    pub(super) fn queue(queue: &Text, patch: &Value) -> Self {
        Self {
            target: Some(Target::Queue(queue.clone())),
            method: "PATCH",
            path: format!("/apis/scheduling.run.ai/v2/queues/{}/status", path_segment(queue)),
            content_type: Some(MERGE_PATCH),
            body: patch.clone(),
        }
    }

    pub(super) fn event(path: String, object: Value) -> Self {
        Self { target: None, method: "POST", path, content_type: None, body: object }
    }

    /// Sends it.
    pub async fn carry_out(self, client: Client) -> Ended {
        let Self { target, method, path, content_type, body } = self;
        let outcome = match send::<Value>(&client, method, &path, content_type, &body).await {
            Ok(_) => {
                tracing::debug!(path, "told");
                Outcome::Done
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Outcome::Overtaken,
            Err(error) => {
                tracing::warn!(path, %error, "a status was not written");
                Outcome::Failed
            }
        };
        Ended { target, outcome }
    }
}
