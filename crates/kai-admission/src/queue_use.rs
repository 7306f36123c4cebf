//! Which queues and priority classes a new pod may use: annotations of queues say so, and RBAC where that is asked for. Pods
//! whose queue is a label of their owner are checked by the planner and the pod grouper, by the same rules. A pod group is
//! checked for the user that writes it; the pod grouper has asked for the accounts of pods before.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use kai_api::Queue;
use kai_api::names::workload;
use kai_client::access::{Requester, Use, denial, may};
use kai_client::env::Env;
use kai_client::kinds::Kind;
use kai_client::observed::Observed;
use kai_client::watch::{Change, Lists, watch};
use kai_core::input::Text;
use kai_settings::queue_access::{Applicant, QueueAccess};
use kube::Client;
use serde::Deserialize;
use tokio::sync::mpsc::channel;

use super::AdmissionSettings;
use super::review::Review;

/// Why the writer of a pod group may not use its queue or its priority class, where RBAC decides; none: it may, or it did not
/// change them. Accounts that may write `groupings`, as the pod grouper may, are not asked about.
pub(super) async fn group_denial(
    client: &Client,
    review: &Review<'_>,
    settings: &AdmissionSettings,
) -> Result<Option<String>, kai_client::failure::Failure> {
    if !settings.authorize_queues {
        return Ok(None);
    }
    let Some(written) = review.written_object() else { return Ok(None) };
    // A group that cannot be decoded is denied by the other rules.
    let Ok(group) = AppliedGroup::deserialize(written.object) else { return Ok(None) };
    let before = written.old_object.and_then(|old| AppliedGroup::deserialize(old).ok());
    if before.is_some_and(|before| before.spec == group.spec) {
        return Ok(None);
    }
    let (namespace, writer) = (written.namespace, written.writer);
    let groupings =
        Use { namespace, verb: "write", group: "kai.scheduler", resource: "groupings", name: "" };
    if may(client, writer, groupings).await? {
        return Ok(None);
    }
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let (queue, class) = (text(&group.spec.queue), text(&group.spec.priority_class_name));
    denial(client, writer, namespace, &queue, &class).await
}

/// Queues and namespaces that exist; empty until they were listed.
#[derive(Debug, Default)]
pub(super) struct QueueUse {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    access: QueueAccess,
    /// Labels of namespaces.
    namespaces: BTreeMap<Text, BTreeMap<String, String>>,
}

/// What a pod says about its queue.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AppliedPod {
    metadata: AppliedMetadata,
    spec: AppliedSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AppliedMetadata {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AppliedSpec {
    #[serde(rename = "schedulerName")]
    scheduler: String,
    #[serde(rename = "serviceAccountName")]
    account: String,
    #[serde(rename = "priorityClassName")]
    priority_class: String,
}

/// What a pod group says about its queue.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AppliedGroup {
    spec: GroupSpec,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupSpec {
    queue: Option<String>,
    priority_class_name: Option<String>,
}

impl QueueUse {
    /// Follows queues and namespaces for as long as the process lives.
    pub(super) fn follow(client: &Client, env: &Env) -> Arc<Self> {
        let known = Arc::new(Self::default());
        let (sink, mut changes) = channel(64);
        for kind in [Kind::Queue, Kind::Namespace] {
            let watched = watch(client.clone(), env.clone(), kind, Lists::default(), sink.clone());
            env.spawn("watch", watched);
        }
        let kept = Arc::clone(&known);
        env.spawn("watch", async move {
            while let Some(change) = changes.recv().await {
                kept.known.write().unwrap_or_else(PoisonError::into_inner).take(change);
            }
        });
        known
    }

    /// Why the new pod of a review may not use its queue or its priority class; none: it may, or it is no such pod.
    pub(super) async fn denial(
        &self,
        client: &Client,
        review: &Review<'_>,
        settings: &AdmissionSettings,
    ) -> Result<Option<String>, kai_client::failure::Failure> {
        let Some((namespace, object)) = review.new_object() else { return Ok(None) };
        // A pod that cannot be decoded is denied by the other rules.
        let Ok(pod) = AppliedPod::deserialize(object) else { return Ok(None) };
        let labels = pod.metadata.labels.unwrap_or_default();
        let label = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
        let queue = label(&settings.queue_label_key);
        if pod.spec.scheduler != settings.scheduler_name || queue.is_empty() {
            return Ok(None);
        }
        let class = match label(workload::PRIORITY_CLASS_NAME) {
            "" => pod.spec.priority_class.as_str(),
            class => class,
        };
        if let Some(why) = self.annotated_denial(namespace, queue, class) {
            return Ok(Some(why));
        }
        if !settings.authorize_queues {
            return Ok(None);
        }
        let account = Requester::account(namespace, &pod.spec.account);
        denial(client, &account, namespace, queue, class).await
    }

    fn annotated_denial(&self, namespace: &str, queue: &str, class: &str) -> Option<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let namespace_labels = known.namespaces.get(namespace);
        let applicant = Applicant { namespace, namespace_labels, priority_class: class };
        known.access.denial(queue, applicant).map(|why| why.to_string())
    }
}

impl Known {
    fn take(&mut self, change: Change) {
        match change {
            Change::Object(name, Observed::Queue(queue)) => self.set_queue(name.name, *queue),
            Change::Object(name, Observed::Namespace(namespace)) => {
                self.namespaces.insert(name.name, namespace.metadata.labels);
            }
            Change::Gone(Kind::Queue, name) => {
                self.access.remove(&name.name);
            }
            Change::Gone(Kind::Namespace, name) => {
                self.namespaces.remove(&name.name);
            }
            _ => {}
        }
    }

    fn set_queue(&mut self, name: Text, queue: Queue) {
        let parent = queue.spec.parent_queue.filter(|parent| !parent.is_empty());
        let annotations = queue.metadata.annotations.unwrap_or_default();
        self.access.set(name, parent.as_deref().map(Into::into), &annotations);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn queues_and_namespaces_that_are_watched_decide() {
        let all = QueueUse::default();
        let apply = |change: Change| all.known.write().expect("a lock").take(change);
        let queue = |annotations: Value| {
            let object = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
                "metadata": {"name": "q", "annotations": annotations}, "spec": {}});
            Change::decode(Kind::Queue, object)
        };
        assert_eq!(all.annotated_denial("a", "q", ""), None, "not listed yet: the planner decides");
        apply(queue(json!({"kai.scheduler/allowed-namespace-selector": "team=x"})));
        assert!(all.annotated_denial("a", "q", "").is_some());
        let namespace = json!({"metadata": {"name": "a", "labels": {"team": "x"}}});
        apply(Change::decode(Kind::Namespace, namespace));
        assert_eq!(all.annotated_denial("a", "q", ""), None);
        apply(queue(json!({"kai.scheduler/allowed-priority-classes": "train"})));
        assert!(all.annotated_denial("a", "q", "inference").is_some());
    }
}
