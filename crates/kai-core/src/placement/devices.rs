//! Which devices of a node a sharing pod gets: devices in use by score, new ones behind or before them.

use smallvec::SmallVec;

use crate::ids::{NodeId, TaskId};
use crate::placement::fit::When;
use crate::resources::GPU;
use crate::world::World;
use crate::world::node::{DeviceDemand, GroupKind, Groups};

/// Devices chosen for a pod.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) groups: Groups,
    /// Some of them must be waited for.
    pub(crate) must_wait: bool,
}

/// A device that could be taken: one in use by position, or a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Candidate {
    InUse(usize),
    New,
}

impl World {
    /// The devices `task` would get on `node`; none when there are too few.
    pub(crate) fn choose_devices(
        &mut self,
        task: TaskId,
        node: NodeId,
        nominate_only: bool,
    ) -> Option<Chosen> {
        let shape = self.shape_of(task);
        let target = self.node(node);
        let DeviceDemand::Shared { mib, devices, kind } =
            target.demand(shape, self.config.compatibility)
        else {
            return None;
        };
        let starts_now = !nominate_only && self.fits(task, target, When::Now);
        let (idle, releasing) = (target.amounts.idle.get(GPU), target.amounts.releasing.get(GPU));
        let mut candidates = SmallVec::new();
        if starts_now {
            let not_nominated = idle.min(idle + releasing);
            candidates = self.candidates(node, mib, devices, kind, not_nominated);
        }
        // Devices that are free now are enough, or the pod waits for one that is releasing.
        let waits = candidates.len() < devices as usize;
        if waits {
            candidates = self.candidates(node, mib, devices, kind, idle + releasing);
        }
        if candidates.len() < devices as usize {
            return None;
        }
        let mut chosen = Chosen { groups: Groups::new(), must_wait: waits };
        let (mut next_number, mut opened) = (0, 0);
        for candidate in candidates {
            match candidate {
                Candidate::InUse(at) => {
                    let group = self.node(node).groups[at];
                    chosen.must_wait |= !group.fits_now(mib, &self.node(node).gpus);
                    chosen.groups.push(group.id);
                }
                Candidate::New => {
                    let (name, number) = self.new_device_name(task, node, next_number);
                    next_number = number + 1;
                    opened += i64::from(kind != GroupKind::Replicas); // a replica needs no reservation
                    let id = self.groups.intern(&name);
                    chosen.groups.push(id);
                }
            }
        }
        chosen.must_wait |= !self.has_slots_now(self.node(node), opened);
        Some(chosen)
    }

    /// How many new devices `task` would open on `node`.
    pub(crate) fn devices_to_open(&self, task: TaskId, node: NodeId) -> i64 {
        let shape = self.shape_of(task);
        match self.node(node).demand(shape, self.config.compatibility) {
            DeviceDemand::Vector => 0,
            DeviceDemand::Shared { mib, devices, kind } => {
                let candidates =
                    self.candidates(node, mib, devices, kind, self.node(node).available(GPU));
                if !self.config.compatibility.is_kai() {
                    let new = candidates.iter().filter(|one| **one == Candidate::New);
                    return new.count() as i64;
                }
                // KAI takes every group whose id is not an integer for a new one (fault 9), and several for one.
                let opens = candidates.iter().any(|candidate| match candidate {
                    Candidate::New => true,
                    Candidate::InUse(at) => {
                        let id = self.node(node).groups[*at].id;
                        self.group_name(id).parse::<i64>().is_err()
                    }
                });
                i64::from(opens)
            }
        }
    }

    /// The best `devices` devices: by score, those in use by id where scores are equal, before new ones, of which
    /// there are `unused`.
    fn candidates(
        &self,
        node: NodeId,
        mib: i64,
        devices: i64,
        kind: GroupKind,
        unused: i64,
    ) -> SmallVec<[Candidate; 4]> {
        let target = self.node(node);
        let memory = target.gpus.memory_mib;
        let mut scored: SmallVec<[(f64, Candidate); 8]> = SmallVec::new();
        for (at, group) in target.groups.iter().enumerate() {
            if !group.fits(mib, kind, &target.gpus) {
                continue;
            }
            let scores = self.policy.device_scores.iter();
            let score: Option<f64> = scores.map(|rule| rule.of_group(group, target)).sum();
            if let Some(score) = score {
                scored.push((score, Candidate::InUse(at)));
            }
        }
        let new_devices = if mib <= memory { unused } else { 0 };
        let new_score: f64 =
            self.policy.device_scores.iter().map(|rule| rule.of_new_device()).sum();
        for _ in 0..new_devices.clamp(0, devices) {
            scored.push((new_score, Candidate::New));
        }
        scored.sort_by(|left, right| {
            right
                .0
                .total_cmp(&left.0)
                .then_with(|| self.tie(target, left.1).cmp(&self.tie(target, right.1)))
        });
        scored.truncate(devices as usize);
        scored.into_iter().map(|(_, candidate)| candidate).collect()
    }

    fn tie<'a>(
        &'a self,
        node: &crate::world::node::Node,
        candidate: Candidate,
    ) -> (bool, Option<&'a crate::input::Text>) {
        match candidate {
            Candidate::InUse(at) => (false, Some(self.group_name(node.groups[at].id))),
            Candidate::New => (true, None),
        }
    }

    /// A name no device of the node has: from the pod's UID, so that equal plans give equal names. With its number,
    /// which is `from` or above.
    fn new_device_name(&self, task: TaskId, node: NodeId, from: usize) -> (String, usize) {
        let uid = &self.task(task).spec.uid;
        let mut number = from;
        loop {
            let name = format!("{uid}-{number}");
            let taken =
                self.node(node).groups.iter().any(|group| **self.group_name(group.id) == *name);
            if !taken {
                return (name, number);
            }
            number += 1;
        }
    }
}
