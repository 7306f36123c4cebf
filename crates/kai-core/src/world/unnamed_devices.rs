//! Devices of pods that do not say which. A GPU fraction without an id has a device of its own. Replicas of whole
//! GPUs never have ids, for only the device plugin knows the card: they are spread over as few devices as can hold
//! them, each pod on different ones. Spreading, not filling one device after the other, is what always works: as long
//! as no device has two replicas more than another, any pod finds as many devices as it needs.

use crate::ids::{NodeId, TaskId};
use crate::world::World;
use crate::world::node::{DeviceDemand, GroupId, GroupKind, Groups};

impl World {
    /// How many devices the replicas of `pods` take on `node`: enough for all, and for the pod with most of them.
    pub(crate) fn replica_devices(&self, node: NodeId, pods: &[TaskId]) -> usize {
        let node = self.node(node);
        let (mut sum, mut widest) = (0, 0);
        for pod in pods {
            let demand =
                node.demand_of(self.task(*pod), self.shape_of(*pod), self.config.compatibility);
            if let DeviceDemand::Shared { devices, kind: GroupKind::Replicas, .. } = demand {
                sum += devices;
                widest = widest.max(devices);
            }
        }
        let each = node.gpus.usable_mib(GroupKind::Replicas) / node.gpus.replica_mib();
        let needed = if each > 0 { (sum + each - 1) / each } else { sum };
        usize::try_from(needed.max(widest)).unwrap_or(0)
    }

    /// The devices of a pod that takes a part of each: those it names, and one of its own for each it does not.
    pub(crate) fn devices_of_part(&mut self, task: TaskId, devices: i64) -> Groups {
        let mut groups = self.task(task).state.groups.clone();
        let mut number = 0;
        while groups.len() < devices as usize {
            groups.push(self.own_device(task, number));
            number += 1;
        }
        groups
    }

    /// The devices of a pod that takes replicas, of the `most` that hold replicas on the node.
    pub(crate) fn devices_of_replicas(
        &mut self,
        task: TaskId,
        node: NodeId,
        devices: i64,
        most: usize,
    ) -> Groups {
        let groups = self.node(node).groups.iter();
        let of_replicas = groups.filter(|group| group.kind == GroupKind::Replicas);
        let mut open: Vec<(i64, GroupId)> =
            of_replicas.map(|group| (group.used_mib, group.id)).collect();
        let mut groups = Groups::new();
        let unopened = most.saturating_sub(open.len());
        for number in 0..unopened.min(devices as usize) {
            groups.push(self.own_device(task, number));
        }
        // Stable: of equally full devices the first that was opened.
        open.sort_by_key(|(used, _)| *used);
        let missing = devices as usize - groups.len();
        groups.extend(open.iter().map(|(_, group)| *group).take(missing));
        groups
    }

    fn own_device(&mut self, task: TaskId, number: usize) -> GroupId {
        let name = format!("{}#{number}", self.task(task).spec.uid);
        self.groups.intern(&name)
    }
}
