//! Namespaces: which of them are grouped, and their labels for pods that select namespaces.

use std::collections::BTreeMap;

use kai_core::input::{Delta, Object, ObjectName};
use kai_translate::namespace::{Namespace, translate};

use super::Planner;
use super::pods::Membership;

impl Planner {
    pub(super) fn set_namespace(&mut self, typed: Namespace) {
        let Some(spec) = Self::heard(translate(&typed)) else { return };
        let name = spec.name.clone();
        let was_selected = self.groups_in(&name);
        let before = self.namespaces.insert(name.clone(), typed.metadata.labels);
        if before.as_ref() != self.namespaces.get(&name) {
            self.namespace_access_changed();
        }
        self.tell(Delta::Set(Object::Namespace(spec)));
        if !was_selected && self.groups_in(&name) {
            self.group_namespace(&name);
        }
    }

    /// Pods of this namespace are grouped. One that is not known has no labels.
    pub(super) fn groups_in(&self, namespace: &str) -> bool {
        let nothing = BTreeMap::new();
        let labels = self.namespaces.get(namespace).unwrap_or(&nothing);
        self.settings.grouper.as_ref().is_some_and(|config| config.selects_namespace(labels))
    }

    /// Groups the pods of a namespace that was not looked at before. Those that were grouped once stay so.
    fn group_namespace(&mut self, namespace: &str) {
        let first = ObjectName::new(namespace, "");
        let pods = self.pods.range(first..).take_while(|(pod, _)| *pod.namespace == *namespace);
        let pods: Vec<ObjectName> = pods.map(|(pod, _)| pod.clone()).collect();
        for pod in pods {
            let Some(entry) = self.pods.get_mut(&pod) else { continue };
            if matches!(entry.group, Membership::Named) && entry.base.group.is_none() {
                entry.group = Membership::Unknown;
                if self.is_ready() {
                    self.find_group(&pod);
                }
            }
        }
    }
}
