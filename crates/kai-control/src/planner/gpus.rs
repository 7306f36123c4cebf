//! GPUs of nodes as reservations tell of them: a node is told anew when more is known of its devices, and pods of groups
//! that met on one device are accounted on that one.

use kai_core::input::pod::PodRole;
use kai_core::input::{Delta, Object, ObjectKey, ObjectName, PodSpec, Text};
use kai_translate::{node, view};

use super::Planner;

impl Planner {
    pub(super) fn set_node(&mut self, view: &view::Node) {
        let name: Text = view.metadata.name.as_str().into();
        if !self.settings.partition.holds(&view.metadata.labels) {
            self.lose_node(&name);
            self.forget_object(ObjectKey::Node(name));
            return;
        }
        self.nodes.insert(name.clone(), view.clone());
        self.tell_node(&name);
    }

    fn tell_node(&mut self, name: &Text) {
        let Some(view) = self.nodes.get(name) else { return };
        let probed = self.reserved.probed(name);
        if let Some(spec) = Self::heard(node::translate(view, &probed)) {
            self.tell(Delta::Set(Object::Node(Box::new(spec))));
        }
    }

    /// A node is gone; the world is told by who calls.
    pub(super) fn lose_node(&mut self, name: &Text) {
        self.nodes.remove(name);
        self.reserved.forget_node(name);
    }

    pub(super) fn see_reservation(&mut self, pod: &view::Pod) {
        if self.settings.rules.role(pod) != PodRole::Reservation {
            return;
        }
        let before = pod
            .spec
            .node_name
            .as_deref()
            .is_some_and(|node| self.reserved.has_gpu_group_conflict(node));
        if let Some(node) = self.reserved.set(pod) {
            self.reservations_changed(&node, before);
        }
    }

    pub(super) fn lose_reservation(&mut self, pod: &ObjectName) {
        let Some(node) = self.reserved.remove(pod) else { return };
        self.reservations_changed(&node, true);
    }

    fn reservations_changed(&mut self, node: &Text, had_conflict: bool) {
        self.tell_node(node);
        if !had_conflict && !self.reserved.has_gpu_group_conflict(node) {
            return;
        }
        let sharing = self.pods.iter().filter(|(_, entry)| {
            entry.base.node.as_ref() == Some(node) && !entry.base.gpu_groups.is_empty()
        });
        let names: Vec<ObjectName> = sharing.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.refresh_pod(&name);
        }
    }

    /// Another scheduler may have given one device to several groups: a pod on a node counts on the device that it is on.
    pub(super) fn merge_twins(&self, pod: &mut PodSpec) {
        let Some(node) = pod.node.as_ref().filter(|_| !pod.gpu_groups.is_empty()) else { return };
        let first: Vec<Text> =
            pod.gpu_groups.iter().map(|group| self.reserved.first_group(node, group)).collect();
        let distinct =
            first.iter().all(|one| first.iter().filter(|other| *other == one).count() == 1);
        if distinct {
            pod.gpu_groups = first;
        }
    }
}
