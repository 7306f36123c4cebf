//! Gangs: which pods are bound together, and what becomes of a gang of which only some could be.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::input::ObjectName;
use kai_core::plan::{Step, StepKind};

use super::backoff::Backoffs;
use super::binds::Binds;
use super::pod_entry::PodEntry;
use super::workloads::Workloads;

/// Pod groups with the state of their binds.
#[derive(Clone, Copy)]
pub(super) struct Gangs<'a> {
    pub(super) workloads: &'a Workloads,
    pub(super) binds: &'a Binds,
    pub(super) backoffs: &'a Backoffs,
}

impl Gangs<'_> {
    /// Groups of which several pods are bound, one of them in several steps: no pod may be bound before all of them can
    /// be. With the number of pods that must be ready or placed by then.
    pub(super) fn needing_preparation(
        &self,
        steps: &[Step],
        needs_request: impl Fn(&Step) -> bool,
    ) -> BTreeMap<ObjectName, u32> {
        let mut gangs: BTreeMap<&ObjectName, (u32, bool)> = BTreeMap::new();
        for step in steps {
            if let (StepKind::Bind { .. }, Some(group)) = (&step.kind, &step.group) {
                let (pods, is_prepared) = gangs.entry(group).or_default();
                *pods += 1;
                *is_prepared |= needs_request(step);
            }
        }
        let gangs = gangs.into_iter().filter(|(_, (pods, prepared))| *pods > 1 && *prepared);
        let bound = |step: &&Step| matches!(step.kind, StepKind::Bind { .. });
        let planned: BTreeSet<&ObjectName> =
            steps.iter().filter(bound).map(|step| &step.pod).collect();
        let size = |group, pods| pods + self.placed_members(group, &planned);
        gangs.map(|(group, (pods, _))| (group.clone(), size(group, pods))).collect()
    }

    /// Pods of a group that have a node or are about to get one, beside those of the plan. The plan may bind a pod again whose
    /// earlier bind is under way.
    fn placed_members(&self, group: &ObjectName, planned: &BTreeSet<&ObjectName>) -> u32 {
        let members = self.workloads.members(group).filter(|(pod, _)| !planned.contains(pod));
        let placed = members.filter(|(pod, entry)| self.is_placed(pod, entry)).count();
        u32::try_from(placed).unwrap_or(u32::MAX)
    }

    fn is_placed(&self, pod: &ObjectName, entry: &PodEntry) -> bool {
        entry.base.status.is_active_allocated() || self.binds.is_requested(pod)
    }

    /// Pods of the group are being bound: whether it will be whole is not known before they show it.
    pub(super) fn is_being_completed(&self, group: &ObjectName) -> bool {
        self.workloads.members(group).any(|(pod, _)| self.binds.is_in_flight(pod))
    }

    /// Others of the pod's group have a node or are about to get one: they wait for it.
    pub(super) fn is_needed(&self, pod: &ObjectName) -> bool {
        let group = self.workloads.named_group_of(pod);
        let others = group.iter().flat_map(|group| self.workloads.members(group));
        others
            .filter(|(other, _)| *other != pod)
            .any(|(other, entry)| self.is_placed(other, entry) || self.binds.is_in_flight(other))
    }

    /// The latest bind of one of the group's pods failed.
    pub(super) fn has_failed_binds(&self, group: &ObjectName) -> bool {
        // Failed binds are few, and members may be thousands.
        self.backoffs.failed_binds().any(|(pod, uid)| {
            let is_current = self.workloads.is_current(pod, uid);
            is_current && self.workloads.named_group_of(pod).as_ref() == Some(group)
        })
    }
}

#[cfg(test)]
mod tests {
    use kai_api::names::workload;
    use kai_core::time::Timestamp;
    use serde_json::json;

    use super::super::pod_entry::tests::{entry, pod};
    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("a", name)
    }

    /// Pods of the group `g`, all of them pending.
    fn group_of(pods: &[&str]) -> Workloads {
        let mut workloads = Workloads::default();
        for one in pods {
            let named = json!({"metadata": {"annotations": {workload::POD_GROUP_NAME: "g"}}});
            workloads.set_pod(&name(one), entry(&pod(one, named)));
        }
        workloads
    }

    #[test]
    fn a_pod_is_needed_while_others_of_its_gang_are_bound() {
        let (workloads, mut binds, backoffs) =
            (group_of(&["p", "q"]), Binds::default(), Backoffs::default());
        let gangs = Gangs { workloads: &workloads, binds: &binds, backoffs: &backoffs };
        assert!(!gangs.is_needed(&name("p")) && !gangs.is_being_completed(&name("g")));
        binds.begin(name("q"));
        let gangs = Gangs { workloads: &workloads, binds: &binds, backoffs: &backoffs };
        assert!(gangs.is_needed(&name("p")) && gangs.is_being_completed(&name("g")));
        assert!(!gangs.is_needed(&name("q")), "no other pod is bound");
    }

    #[test]
    fn a_failed_bind_counts_for_the_pod_that_exists_now() {
        let (workloads, binds) = (group_of(&["p"]), Binds::default());
        let mut backoffs = Backoffs::default();
        let now = Timestamp::default();
        backoffs.bind_failed(&name("p"), &"earlier".into(), &"n1".into(), "no device", now);
        let gangs = Gangs { workloads: &workloads, binds: &binds, backoffs: &backoffs };
        assert!(!gangs.has_failed_binds(&name("g")), "an earlier pod of the name");
        backoffs.bind_failed(&name("p"), &"uid-p".into(), &"n1".into(), "no device", now);
        let gangs = Gangs { workloads: &workloads, binds: &binds, backoffs: &backoffs };
        assert!(gangs.has_failed_binds(&name("g")) && !gangs.has_failed_binds(&name("other")));
    }
}
