//! Devices that reservation pods keep, by node: what can be learnt from them about the node's GPUs, and which groups of
//! pods are on one device although each thinks that it has its own.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::gpu;
use kai_core::input::{ObjectName, Text};
use kai_translate::gpus::Probed;
use kai_translate::{pod as pods, view};

/// Devices that reservation pods keep.
#[derive(Debug, Default)]
pub struct ReservedDevices {
    nodes: BTreeMap<Text, NodeDevices>,
    /// The node of each reservation pod.
    homes: BTreeMap<ObjectName, Text>,
}

#[derive(Debug, Default)]
struct NodeDevices {
    kept: BTreeMap<ObjectName, Kept>,
    /// Two groups were once on one device: the node advertises devices more than once.
    had_gpu_group_conflict: bool,
    /// Every device that a reservation pod ever named.
    observed: BTreeSet<Text>,
    /// The most that the driver was ever found to keep of a device.
    reserve_mib: Option<i64>,
}

/// A device that a reservation pod keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    /// As the API server writes it: earlier moments are smaller texts.
    created: String,
    group: Text,
    device: Text,
    memory_mib: Option<i64>,
    /// What of it the driver keeps for itself.
    reserve_mib: Option<i64>,
    /// How many devices the node has.
    count: Option<i64>,
}

impl Kept {
    fn read(pod: &view::Pod) -> Option<Self> {
        let metadata = &pod.metadata;
        let annotation = |key: &str| metadata.annotations.get(key).filter(|text| !text.is_empty());
        let number = |key: &str| annotation(key).and_then(|text| text.parse().ok());
        Some(Self {
            created: metadata.creation_timestamp.clone().unwrap_or_default(),
            group: metadata.labels.get(gpu::GROUP)?.as_str().into(),
            device: annotation(gpu::RESERVED_DEVICE)?.as_str().into(),
            memory_mib: number(gpu::MEMORY_MIB),
            reserve_mib: number(gpu::MEMORY_RESERVE_MIB),
            count: number(gpu::COUNT),
        })
    }
}

impl ReservedDevices {
    /// Takes a reservation pod over; the node of which something is known now that was not known before.
    pub fn set(&mut self, pod: &view::Pod) -> Option<Text> {
        let node = pod.spec.node_name.as_deref().filter(|node| !node.is_empty())?;
        let (name, node) = (pods::name(pod), Text::from(node));
        let Some(kept) = Kept::read(pod) else { return self.remove(&name) };
        let devices = self.nodes.entry(node.clone()).or_default();
        if devices.kept.get(&name) == Some(&kept) {
            return None;
        }
        devices.observed.insert(kept.device.clone());
        devices.had_gpu_group_conflict |= devices
            .kept
            .values()
            .any(|other| other.device == kept.device && other.group != kept.group);
        devices.reserve_mib = devices.reserve_mib.max(kept.reserve_mib);
        devices.kept.insert(name.clone(), kept);
        self.homes.insert(name, node.clone());
        Some(node)
    }

    /// A pod is gone; the node that it kept a device of.
    pub fn remove(&mut self, pod: &ObjectName) -> Option<Text> {
        let node = self.homes.remove(pod)?;
        self.nodes.get_mut(&node)?.kept.remove(pod)?;
        Some(node)
    }

    /// A node is gone.
    pub fn forget_node(&mut self, node: &str) {
        self.nodes.remove(node);
        self.homes.retain(|_, home| **home != *node);
    }

    /// What is known of a node's GPUs. Devices count only where they were advertised more than once: on other nodes there
    /// are more than those that happen to be shared.
    pub fn probed(&self, node: &str) -> Probed {
        let Some(devices) = self.nodes.get(node) else { return Probed::default() };
        let observed = devices.observed.iter().filter(|_| devices.had_gpu_group_conflict);
        Probed {
            uuids: observed.map(ToString::to_string).collect(),
            count: devices.kept.values().find_map(|kept| kept.count),
            memory_mib: devices.kept.values().find_map(|kept| kept.memory_mib),
            reserve_mib: devices.reserve_mib,
        }
    }

    /// Two groups of the node are on one device now.
    pub fn has_gpu_group_conflict(&self, node: &str) -> bool {
        let groups = self.nodes.get(node).into_iter().flat_map(|devices| devices.kept.values());
        groups.clone().any(|one| self.first_group(node, &one.group) != one.group)
    }

    /// The group that was first on the device of this group.
    pub fn first_group(&self, node: &str, group: &Text) -> Text {
        let Some(devices) = self.nodes.get(node) else { return group.clone() };
        let Some(own) = devices.kept.values().find(|kept| kept.group == *group) else {
            return group.clone();
        };
        let same_device = devices.kept.values().filter(|kept| kept.device == own.device);
        let first = same_device.min_by_key(|kept| (&kept.created, &kept.group));
        first.map_or_else(|| group.clone(), |first| first.group.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reservation(name: &str, created: &str, device: &str) -> view::Pod {
        let object = json!({
            "metadata": {
                "name": name, "namespace": "r", "creationTimestamp": created,
                "labels": {"app": "r", "runai-gpu-group": name},
                "annotations": {"run.ai/reserve_for_gpu_index": device, "kai.scheduler/gpu-memory-mib": "32600"},
            },
            "spec": {"nodeName": "n"},
        });
        serde_json::from_value(object).expect("a pod")
    }

    #[test]
    fn devices_of_a_node_are_all_there_are_once_two_groups_met_on_one() {
        let mut known = ReservedDevices::default();
        assert_eq!(known.set(&reservation("a", "1", "GPU-1")).as_deref(), Some("n"));
        assert_eq!(known.set(&reservation("a", "1", "GPU-1")), None);
        assert_eq!(known.probed("n"), Probed { memory_mib: Some(32_600), ..Probed::default() });
        known.set(&reservation("b", "2", "GPU-2"));
        assert!(known.probed("n").uuids.is_empty());
        known.set(&reservation("c", "3", "GPU-1"));
        assert_eq!(known.probed("n").uuids, ["GPU-1", "GPU-2"]);
        assert!(known.has_gpu_group_conflict("n"));
        assert_eq!(&*known.first_group("n", &"c".into()), "a");
        assert_eq!(&*known.first_group("n", &"b".into()), "b");
        known.remove(&ObjectName::new("r", "c"));
        assert!(!known.has_gpu_group_conflict("n"));
        assert_eq!(known.probed("n").uuids.len(), 2);
    }
}
