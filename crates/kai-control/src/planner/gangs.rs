//! Gangs: which pods are bound together, and what becomes of a gang of which only some could be.

use std::collections::BTreeMap;

use kai_core::input::ObjectName;
use kai_core::plan::{Step, StepKind};

use super::Planner;
use super::pods::named_group;

impl Planner {
    /// Groups of which several pods are bound, one of them in several steps: no pod may be bound before all of them can
    /// be. With the number of pods that must be ready or placed by then.
    pub(super) fn gangs_to_prepare(&self, steps: &[Step]) -> BTreeMap<ObjectName, u32> {
        let mut gangs: BTreeMap<&ObjectName, (u32, bool)> = BTreeMap::new();
        for step in steps {
            if let (StepKind::Bind { .. }, Some(group)) = (&step.kind, &step.group) {
                let (pods, prepared) = gangs.entry(group).or_default();
                *pods += 1;
                *prepared |= !self.is_bound_at_once(step);
            }
        }
        let gangs = gangs.into_iter().filter(|(_, (pods, prepared))| *pods > 1 && *prepared);
        gangs.map(|(group, (pods, _))| (group.clone(), pods + self.placed_members(group))).collect()
    }

    /// Pods of a group that have a node or are about to get one.
    fn placed_members(&self, group: &ObjectName) -> u32 {
        let members = self.members.get(group).into_iter().flatten();
        let placed = members.filter(|pod| {
            let entry = self.pods.get(*pod);
            entry.is_some_and(|entry| entry.base.status.is_active_allocated())
                || self.is_being_bound(pod)
        });
        u32::try_from(placed.count()).unwrap_or(u32::MAX)
    }

    /// Pods of the group are being bound: whether it will be whole is not known before they show it.
    pub(super) fn is_being_completed(&self, group: &ObjectName) -> bool {
        let mut members = self.members.get(group).into_iter().flatten();
        members.any(|pod| self.in_flight.contains(pod))
    }

    /// Others of the pod's group have a node or are about to get one: they wait for it.
    pub(super) fn is_needed_by_its_gang(&self, pod: &ObjectName) -> bool {
        let group = self.pods.get(pod).and_then(|entry| named_group(&entry.base));
        let others = group.iter().filter_map(|group| self.members.get(group)).flatten();
        others.filter(|other| *other != pod).any(|other| {
            let entry = self.pods.get(other);
            entry.is_some_and(|entry| entry.base.status.is_active_allocated())
                || self.in_flight.contains(other)
                || self.is_being_bound(other)
        })
    }

    /// A bind of one of the group's pods failed and was not made good.
    pub(super) fn has_failed_binds(&self, group: &ObjectName) -> bool {
        // Failed binds are few, and members may be thousands.
        self.backoffs.failed_binds().any(|(pod, uid)| {
            let entry = self.pods.get(pod).filter(|entry| entry.base.uid == *uid);
            entry.and_then(|entry| named_group(&entry.base)).is_some_and(|named| named == *group)
        })
    }

    /// The pod is bound: what went wrong before does not count.
    pub(super) fn clear_failed_binds(&mut self, pod: &ObjectName) {
        let entry = self.pods.get(pod);
        let had_failed =
            entry.is_some_and(|entry| self.backoffs.has_failed_bind(pod, &entry.base.uid));
        self.backoffs.clear_bind(pod);
        if had_failed {
            self.tell_group_of(pod);
        }
    }

    /// Tells the world of the group that a pod names.
    pub(super) fn tell_group_of(&mut self, pod: &ObjectName) {
        if let Some(group) = self.pods.get(pod).and_then(|entry| named_group(&entry.base)) {
            self.tell_group(&group);
        }
    }
}
