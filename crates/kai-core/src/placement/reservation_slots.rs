//! Pod slots for reservations: the pod that opens a shared device brings a reservation pod along, which takes a slot of the
//! node, too. It counts until that pod is there and counts itself. KAI asks for one slot more where devices are opened, and
//! then forgets it.

use crate::input::pod::PodRole;
use crate::resources::PODS;
use crate::status::Status;
use crate::world::World;
use crate::world::node::{GpuGroup, GroupKind, Node};

impl World {
    /// Whether `node` has slots for one more pod that opens so many devices, now or when others have gone.
    #[inline]
    pub(crate) fn has_slots(&self, node: &Node, opened: i64) -> bool {
        self.slots_suffice(node, node.available(PODS), opened)
    }

    /// Whether it has them now.
    #[inline]
    pub(crate) fn has_slots_now(&self, node: &Node, opened: i64) -> bool {
        self.config.compatibility.is_kai()
            || self.slots_suffice(node, node.amounts.idle.get(PODS), opened)
    }

    #[inline]
    fn slots_suffice(&self, node: &Node, free: i64, opened: i64) -> bool {
        let left = free - 1 - opened;
        if left < 0 || left >= node.groups.len() as i64 {
            return left >= 0;
        }
        left >= self.slots_owed(node)
    }

    /// Slots for reservations that are still to come.
    fn slots_owed(&self, node: &Node) -> i64 {
        if self.config.compatibility.is_kai() {
            return 0;
        }
        let shared = node
            .groups
            .iter()
            .filter(|group| group.used_mib > 0 && group.kind != GroupKind::Replicas);
        shared.filter(|group| !self.is_reserved(node, group)).count() as i64
    }

    /// The reservation of a shared device is there; it is wherever a pod that shares it has started.
    fn is_reserved(&self, node: &Node, group: &GpuGroup) -> bool {
        node.residents.iter().any(|resident| {
            let pod = &self.task(resident.task).spec;
            if pod.role == PodRole::Reservation {
                return pod.gpu_groups.contains(self.group_name(group.id));
            }
            let started = matches!(
                resident.status,
                Status::Bound | Status::Running | Status::Releasing | Status::StuckInReleasing
            );
            started && resident.groups.contains(&group.id)
        })
    }
}
