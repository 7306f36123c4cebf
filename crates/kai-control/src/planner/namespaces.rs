//! Labels of namespaces, and which namespaces and priority classes each queue admits.

use std::collections::BTreeMap;

use kai_core::input::pod::PodRole;
use kai_core::input::{ObjectName, PodSpec, Text};
use kai_core::status::Status;
use kai_settings::queue_access::{Applicant, QueueAccess};
use kai_workloads::GrouperConfig;

/// What decides whether pods of a namespace are grouped, and whether queues admit them.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    labels: BTreeMap<Text, BTreeMap<String, String>>,
    queues: QueueAccess,
}

impl Namespaces {
    /// A namespace was observed. True when queues may admit or deny others than before.
    pub(super) fn set(&mut self, namespace: Text, labels: BTreeMap<String, String>) -> bool {
        let is_changed = self.labels.get(&namespace) != Some(&labels);
        self.labels.insert(namespace, labels);
        is_changed && self.queues.selects_namespaces()
    }

    /// A namespace is gone, and with it soon its pods.
    pub(super) fn remove(&mut self, namespace: &str) {
        self.labels.remove(namespace);
    }

    /// A queue was observed. True when queues may admit or deny others than before.
    pub(super) fn set_queue(
        &mut self,
        queue: Text,
        parent: Option<Text>,
        annotations: &BTreeMap<String, String>,
    ) -> bool {
        self.queues.set(queue, parent, annotations)
    }

    /// A queue is gone. True when others may be admitted now.
    pub(super) fn remove_queue(&mut self, queue: &str) -> bool {
        self.queues.remove(queue)
    }

    /// Pods of this namespace are grouped. A namespace that is not known has no labels.
    pub(super) fn is_grouped(&self, namespace: &str, config: Option<&GrouperConfig>) -> bool {
        let nothing = BTreeMap::new();
        let labels = self.labels.get(namespace).unwrap_or(&nothing);
        config.is_some_and(|config| config.selects_namespace(labels))
    }

    /// The pod is grouped by us: it is ours to schedule, has not ended, and is in a namespace that is grouped.
    pub(super) fn groups_pod(&self, pod: &PodSpec, config: Option<&GrouperConfig>) -> bool {
        let has_ended = matches!(pod.status, Status::Succeeded | Status::Failed);
        let is_ours = pod.role == PodRole::Workload && !has_ended;
        is_ours && self.is_grouped(&pod.name.namespace, config)
    }

    /// Why the queue of a pod group denies it; none: it does not.
    pub(super) fn denial(
        &self,
        group: &ObjectName,
        queue: &str,
        priority_class: Option<&str>,
    ) -> Option<Text> {
        let applicant = Applicant {
            namespace: &group.namespace,
            namespace_labels: self.labels.get(&group.namespace),
            priority_class: priority_class.unwrap_or_default(),
        };
        self.queues.denial(queue, applicant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELECTOR: &str = "kai.scheduler/allowed-namespace-selector";

    fn labels(team: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("team".to_owned(), team.to_owned())])
    }

    #[test]
    fn labels_matter_to_queues_only_where_one_selects_namespaces() {
        let mut namespaces = Namespaces::default();
        assert!(!namespaces.set("a".into(), labels("x")), "no queue selects");
        let selects = BTreeMap::from([(SELECTOR.to_owned(), "team=y".to_owned())]);
        assert!(namespaces.set_queue("q".into(), None, &selects));
        let group = ObjectName::new("a", "g");
        assert!(namespaces.denial(&group, "q", None).is_some());
        assert!(namespaces.set("a".into(), labels("y")));
        assert_eq!(namespaces.denial(&group, "q", None), None);
        assert!(!namespaces.set("a".into(), labels("y")), "the same labels");
        namespaces.remove("a");
        assert!(namespaces.denial(&group, "q", None).is_some(), "its labels are not known");
        assert!(namespaces.remove_queue("q"));
        assert_eq!(namespaces.denial(&group, "q", None), None);
    }

    #[test]
    fn without_a_grouper_no_namespace_is_grouped() {
        let namespaces = Namespaces::default();
        assert!(!namespaces.is_grouped("a", None));
        assert!(namespaces.is_grouped("a", Some(&GrouperConfig::default())));
    }
}
