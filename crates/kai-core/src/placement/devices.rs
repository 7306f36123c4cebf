//! Which devices of a node a sharing pod gets: devices in use by score, new ones behind or before them.

use smallvec::SmallVec;

use crate::ids::{NodeId, TaskId};
use crate::placement::fit::When;
use crate::world::World;
use crate::world::node::{DeviceDemand, Groups};

/// Devices chosen for a pod.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) groups: Groups,
    /// Some of them must be waited for.
    pub(crate) must_wait: bool,
    /// Some of them are new.
    pub(crate) opens_device: bool,
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
        promise_only: bool,
    ) -> Option<Chosen> {
        let shape = self.shape_of(task);
        let target = self.node(node);
        let DeviceDemand::Shared { mib, devices, replica } =
            target.demand(shape, self.config.compatibility)
        else {
            return None;
        };
        let starts_now = !promise_only && self.fits(task, target, When::Now);
        let candidates = self.candidates(node, mib, devices, replica);
        if candidates.len() < devices as usize {
            return None;
        }
        let mut chosen =
            Chosen { groups: Groups::new(), must_wait: !starts_now, opens_device: false };
        let mut opened = 0;
        for candidate in candidates {
            match candidate {
                Candidate::InUse(at) => {
                    let group = self.node(node).groups[at];
                    chosen.must_wait |= !group.fits_now(mib, self.node(node).gpus.memory_mib);
                    chosen.groups.push(group.id);
                }
                Candidate::New => {
                    let name = self.new_device_name(task, node, opened);
                    opened += 1;
                    chosen.opens_device = true;
                    let id = self.groups.intern(&name);
                    chosen.groups.push(id);
                }
            }
        }
        Some(chosen)
    }

    /// Whether placing `task` on `node` would open a new device.
    pub(crate) fn would_open_device(&self, task: TaskId, node: NodeId) -> bool {
        let shape = self.shape_of(task);
        match self.node(node).demand(shape, self.config.compatibility) {
            DeviceDemand::Vector => false,
            DeviceDemand::Shared { mib, devices, replica } => {
                let candidates = self.candidates(node, mib, devices, replica);
                if !self.config.compatibility.is_kai() {
                    return candidates.contains(&Candidate::New);
                }
                // KAI takes every group whose id is not an integer for a new one (fault 9).
                candidates.iter().any(|candidate| match candidate {
                    Candidate::New => true,
                    Candidate::InUse(at) => {
                        let id = self.node(node).groups[*at].id;
                        self.group_name(id).parse::<i64>().is_err()
                    }
                })
            }
        }
    }

    /// The best `devices` devices: by score, those in use by id where scores are equal, before new ones.
    fn candidates(
        &self,
        node: NodeId,
        mib: i64,
        devices: i64,
        replica: bool,
    ) -> SmallVec<[Candidate; 4]> {
        let target = self.node(node);
        let memory = target.gpus.memory_mib;
        let mut scored: SmallVec<[(f64, Candidate); 8]> = SmallVec::new();
        for (at, group) in target.groups.iter().enumerate() {
            if !group.fits(mib, replica, memory) {
                continue;
            }
            let scores = self.policy.device_scores.iter();
            let score: Option<f64> = scores.map(|rule| rule.of_group(group, target)).sum();
            if let Some(score) = score {
                scored.push((score, Candidate::InUse(at)));
            }
        }
        let idle = target.amounts.idle.get(crate::resources::GPU);
        let releasing = target.amounts.releasing.get(crate::resources::GPU);
        let new_devices =
            if mib <= memory && (idle > 0 || releasing > 0) { idle + releasing } else { 0 };
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

    /// A name no device of the node has: from the pod's UID, so that equal plans give equal names.
    fn new_device_name(&self, task: TaskId, node: NodeId, opened: usize) -> String {
        let uid = &self.task(task).spec.uid;
        let mut number = opened;
        loop {
            let name = format!("{uid}-{number}");
            let taken =
                self.node(node).groups.iter().any(|group| **self.group_name(group.id) == *name);
            if !taken {
                return name;
            }
            number += 1;
        }
    }
}
