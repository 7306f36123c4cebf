//! The queue of a pod: one rule for all callers.
//!
//! The configured label on the owner, then on the pod; then the label of earlier releases on the owner, then on the pod;
//! then the project; then the default queue. An empty label counts as none.

use std::collections::BTreeMap;

use kai_api::names::{legacy, objects, workload};
use serde::{Deserialize, Serialize};

/// Labels of an object, and what the object is called in messages.
#[derive(Clone, Copy, Debug)]
pub struct LabelSource<'a> {
    /// Name of the object in messages.
    pub object: &'a str,
    /// `metadata.labels` of the object.
    pub labels: &'a BTreeMap<String, String>,
}

/// A label that names a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueLabel {
    /// The object that carries it.
    pub object: String,
    /// Key of the label.
    pub key: String,
    /// The queue it names.
    pub value: String,
}

impl QueueLabel {
    /// The label in messages.
    pub fn place(&self) -> String {
        format!("label {} of {}", self.key, self.object)
    }
}

/// The queue of a pod, and an object that names another queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueChoice {
    /// Name of the chosen queue.
    pub queue: String,
    /// The label it came from; none for project and default.
    pub label: Option<QueueLabel>,
    /// Labels that name another queue.
    pub disagreeing: Vec<QueueLabel>,
}

/// The queue named by these objects, the most important first; usually the owner and the pod.
pub fn queue_of(
    sources: &[LabelSource<'_>],
    pod_labels: &BTreeMap<String, String>,
    queue_label_key: &str,
    node_pool_label_key: &str,
) -> QueueChoice {
    let mut keys = vec![queue_label_key];
    if queue_label_key != legacy::QUEUE {
        keys.push(legacy::QUEUE);
    }
    let mut labels = keys.iter().flat_map(|key| {
        sources.iter().filter_map(|source| {
            let value = non_empty(source.labels, key)?;
            Some(QueueLabel {
                object: source.object.to_owned(),
                key: (*key).to_owned(),
                value: value.to_owned(),
            })
        })
    });
    if let Some(label) = labels.next() {
        let disagreeing = labels.filter(|other| other.value != label.value).collect();
        return QueueChoice { queue: label.value.clone(), label: Some(label), disagreeing };
    }
    let project = sources.iter().find_map(|source| non_empty(source.labels, workload::PROJECT));
    let queue = match (project, non_empty(pod_labels, node_pool_label_key)) {
        (Some(project), Some(pool)) => format!("{project}-{pool}"),
        (Some(project), None) => project.to_owned(),
        (None, _) => objects::DEFAULT_QUEUE.to_owned(),
    };
    QueueChoice { queue, label: None, disagreeing: Vec::new() }
}

fn non_empty<'a>(labels: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(owner: &[(&str, &str)], pod: &[(&str, &str)]) -> QueueChoice {
        let map = |labels: &[(&str, &str)]| {
            labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let (owner, pod) = (map(owner), map(pod));
        let sources = [
            LabelSource { object: "the owner", labels: &owner },
            LabelSource { object: "the pod", labels: &pod },
        ];
        queue_of(&sources, &pod, "kai.scheduler/queue", "kai.scheduler/node-pool")
    }

    #[test]
    fn order_of_the_keys() {
        let (new, old, project) = ("kai.scheduler/queue", "runai/queue", "project");
        assert_eq!(queue(&[(new, "a")], &[(new, "b")]).queue, "a");
        assert_eq!(queue(&[(old, "a")], &[(new, "b")]).queue, "b");
        assert_eq!(queue(&[(old, "a")], &[(old, "b")]).queue, "a");
        assert_eq!(queue(&[(project, "a")], &[(old, "b")]).queue, "b");
        assert_eq!(queue(&[(project, "a")], &[(project, "b")]).queue, "a");
        assert_eq!(queue(&[], &[(project, "b")]).queue, "b");
        assert_eq!(queue(&[], &[]).queue, "default-queue");
    }

    #[test]
    fn project_and_node_pool_name_a_queue_together() {
        let pool = ("kai.scheduler/node-pool", "pool");
        assert_eq!(queue(&[("project", "p")], &[pool]).queue, "p-pool");
        assert_eq!(queue(&[], &[pool]).queue, "default-queue");
    }

    #[test]
    fn an_empty_label_is_none() {
        assert_eq!(queue(&[("kai.scheduler/queue", "")], &[("runai/queue", "b")]).queue, "b");
    }

    #[test]
    fn disagreement_is_reported() {
        let choice = queue(&[("kai.scheduler/queue", "a")], &[("runai/queue", "b")]);
        assert_eq!(choice.queue, "a");
        assert_eq!(choice.disagreeing.len(), 1);
        assert_eq!(choice.disagreeing[0].place(), "label runai/queue of the pod");
        assert!(
            queue(&[("runai/queue", "a")], &[("kai.scheduler/queue", "a")]).disagreeing.is_empty()
        );
    }
}
