//! GPUs of nodes as reservation pods report them: a node is translated again when more is known of its devices, and pods of
//! GPU groups that share one device are accounted on that one.

use std::collections::BTreeMap;

use kai_binder::reserved_devices::ReservedDevices;
use kai_core::input::{NodeSpec, ObjectName, Text};
use kai_translate::{Translated, node, view};

/// Nodes of our partition, and the devices that reservation pods keep on them.
#[derive(Debug, Default)]
pub(super) struct NodeGpus {
    nodes: BTreeMap<Text, view::Node>,
    reserved: ReservedDevices,
}

/// A node of which reservation pods report something else than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedReservations {
    pub(super) node: Text,
    /// Pods on the node that share GPUs may count on other devices than before.
    pub(super) moves_pods: bool,
}

impl NodeGpus {
    /// A node was observed.
    pub(super) fn set_node(&mut self, name: Text, view: view::Node) {
        self.nodes.insert(name, view);
    }

    /// A node is gone, or belongs to another partition.
    pub(super) fn remove_node(&mut self, name: &Text) {
        self.nodes.remove(name);
        self.reserved.forget_node(name);
    }

    /// The node with everything that is known of its GPUs; none where the node is not ours.
    pub(super) fn translate(&self, name: &Text) -> Option<Translated<NodeSpec>> {
        let view = self.nodes.get(name)?;
        Some(node::translate(view, &self.reserved.probed(name)))
    }

    /// A reservation pod was observed.
    pub(super) fn set_reservation(&mut self, pod: &view::Pod) -> Option<ChangedReservations> {
        let node = pod.spec.node_name.as_deref();
        let had_conflict = node.is_some_and(|node| self.reserved.has_gpu_group_conflict(node));
        let node = self.reserved.set(pod)?;
        let moves_pods = had_conflict || self.reserved.has_gpu_group_conflict(&node);
        Some(ChangedReservations { node, moves_pods })
    }

    /// A pod is gone, which may be a reservation pod.
    pub(super) fn remove_reservation(&mut self, pod: &ObjectName) -> Option<ChangedReservations> {
        let node = self.reserved.remove(pod)?;
        Some(ChangedReservations { node, moves_pods: true })
    }

    /// The GPU groups on whose devices a pod on the node counts. Another scheduler may have given one device to several groups:
    /// the first of them stands for all, unless the pod has two of them.
    pub(super) fn merged_groups(&self, node: &Text, groups: &[Text]) -> Vec<Text> {
        let first: Vec<Text> =
            groups.iter().map(|group| self.reserved.first_group(node, group)).collect();
        let is_distinct =
            first.iter().all(|one| first.iter().filter(|other| *other == one).count() == 1);
        if is_distinct { first } else { groups.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A reservation pod of a GPU group on node `n1`.
    fn reservation(group: &str, device: &str) -> view::Pod {
        let pod = json!({
            "metadata": {
                "name": format!("reservation-{group}"),
                "namespace": "kai-resource-reservation",
                "uid": group,
                "creationTimestamp": format!("2026-01-01T00:00:0{}Z", group.len()),
                "labels": {"runai-gpu-group": group},
                "annotations": {"run.ai/reserve_for_gpu_index": device},
            },
            "spec": {"nodeName": "n1"},
        });
        serde_json::from_value(pod).expect("a pod")
    }

    fn merged(gpus: &NodeGpus, groups: &[&str]) -> Vec<String> {
        let groups: Vec<Text> = groups.iter().map(|group| Text::from(*group)).collect();
        gpus.merged_groups(&"n1".into(), &groups).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pods_of_groups_that_share_a_device_count_on_the_first_group() {
        let mut gpus = NodeGpus::default();
        let first = gpus.set_reservation(&reservation("g", "GPU-1"));
        assert_eq!(first, Some(ChangedReservations { node: "n1".into(), moves_pods: false }));
        assert_eq!(gpus.set_reservation(&reservation("g", "GPU-1")), None, "nothing new");
        let second = gpus.set_reservation(&reservation("gg", "GPU-1"));
        assert_eq!(second, Some(ChangedReservations { node: "n1".into(), moves_pods: true }));
        assert_eq!(merged(&gpus, &["gg"]), ["g"]);
        assert_eq!(merged(&gpus, &["g", "gg"]), ["g", "gg"], "a pod keeps two groups apart");
        let gone =
            gpus.remove_reservation(&ObjectName::new("kai-resource-reservation", "reservation-g"));
        assert_eq!(gone, Some(ChangedReservations { node: "n1".into(), moves_pods: true }));
        assert_eq!(merged(&gpus, &["gg"]), ["gg"]);
    }

    #[test]
    fn only_nodes_of_our_partition_are_translated() {
        let mut gpus = NodeGpus::default();
        assert!(gpus.translate(&"n1".into()).is_none());
        let node = json!({"metadata": {"name": "n1", "uid": "u"}, "spec": {}, "status": {}});
        gpus.set_node("n1".into(), serde_json::from_value(node).expect("a node"));
        assert!(gpus.translate(&"n1".into()).is_some());
        gpus.remove_node(&"n1".into());
        assert!(gpus.translate(&"n1".into()).is_none());
    }
}
