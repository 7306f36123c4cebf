//! Which pod groups their queues deny.

use std::collections::BTreeMap;

use kai_core::input::{ObjectName, Text};
use kai_settings::queue_access::Applicant;

use super::Planner;

impl Planner {
    /// Why the queue of a group denies it; none: it does not.
    pub(super) fn queue_denial(
        &self,
        group: &ObjectName,
        queue: &str,
        priority_class: Option<&str>,
    ) -> Option<Text> {
        let applicant = Applicant {
            namespace: &group.namespace,
            namespace_labels: self.namespaces.get(&group.namespace),
            priority_class: priority_class.unwrap_or_default(),
        };
        self.queue_access.denial(queue, applicant)
    }

    /// A queue exists and looks like this.
    pub(super) fn set_queue_access(
        &mut self,
        queue: Text,
        parent: Option<Text>,
        annotations: &BTreeMap<String, String>,
    ) {
        if self.queue_access.set(queue, parent, annotations) {
            self.tell_all_groups();
        }
    }

    /// A queue is gone.
    pub(super) fn lose_queue_access(&mut self, queue: &str) {
        if self.queue_access.remove(queue) {
            self.tell_all_groups();
        }
    }

    /// Labels of a namespace changed.
    pub(super) fn namespace_access_changed(&mut self) {
        if self.queue_access.selects_namespaces() {
            self.tell_all_groups();
        }
    }
}
