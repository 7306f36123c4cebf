//! Claims of pods that are placed and evicted in a cycle, and GPUs that several pods of one node share through a claim.
//!
//! Rule: a pod that is placed is entered in its claims; claims without devices get them now, the same as before
//! where those were freed in this cycle and are still free. A pod that is evicted is struck from its
//! claims; the last one frees the devices. A GPU that several pods of a node share counts once: as allocated while one
//! of them stays, as releasing when all are evicted. KAI counts a shared GPU with the pod that came first, only where
//! the claim was allocated before the cycle, and never as releasing.

use std::sync::Arc;

use crate::ids::{NodeId, TaskId};
use crate::input::devices::Allocation;
use crate::input::{ObjectName, Text};
use crate::placement::fit::When;
use crate::plugins::dynamicresources::allocator::{Wanted, matches_any};
use crate::plugins::dynamicresources::extended::ExtendedRequests;
use crate::plugins::dynamicresources::store::{ClaimState, Claims};
use crate::resources::GPU;
use crate::status::Status;
use crate::world::World;
use crate::world::node::{Node, NodeAmounts};
use crate::world::undo::Undo;

/// A claim as the cycle left it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClaimView<'a> {
    /// Devices that it has now; none before it is allocated.
    pub allocation: Option<&'a Allocation>,
    /// Pods that use it, by name in its namespace.
    pub reserved_for: &'a [Text],
}

/// What a pod changes on a node's GPUs through devices that other pods there hold as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SharedDevices {
    /// GPUs of the pod's request that are not its own.
    pub(crate) gpus: i64,
    idle: i64,
    releasing: i64,
    used: i64,
}

impl SharedDevices {
    /// Enters the pod in the node's amounts, or takes it out with `sign` −1.
    pub(crate) fn account(self, amounts: &mut NodeAmounts, sign: i64) {
        if self != (Self { gpus: self.gpus, ..Self::default() }) {
            amounts.idle.add_at(GPU, sign * self.idle);
            amounts.releasing.add_at(GPU, sign * self.releasing);
            amounts.used.add_at(GPU, sign * self.used);
        }
    }
}

/// Whether some pod of a node has, releases or is nominated to a device.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct DeviceUse {
    allocated: bool,
    releasing: bool,
    nominated: bool,
}

impl DeviceUse {
    fn with(self, status: Status) -> Self {
        match status {
            Status::Releasing => Self { releasing: true, ..self },
            Status::Pipelined => Self { nominated: true, ..self },
            _ => Self { allocated: true, ..self },
        }
    }

    fn idle(self) -> i64 {
        -i64::from(self.allocated || self.releasing)
    }

    fn releasing(self) -> i64 {
        if self.allocated { 0 } else { i64::from(self.releasing) - i64::from(self.nominated) }
    }

    fn used(self) -> i64 {
        i64::from(self != Self::default())
    }
}

impl Claims {
    /// The state of a claim.
    pub fn state_of(&self, name: &ObjectName) -> Option<ClaimView<'_>> {
        let state = &self.entries[self.find(name)?].state;
        let allocation = state.allocation.as_deref();
        Some(ClaimView { allocation, reserved_for: &state.reserved_for })
    }
}

impl World {
    /// Some devices are offered through slices.
    pub(crate) fn claims_are_in_play(&self) -> bool {
        !self.claims.slices.is_empty()
    }

    /// The store of claims.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Reserves and allocates the claims of a pod that was placed in a cycle.
    pub(crate) fn reserve_claims(&mut self, task: TaskId, node: NodeId) {
        if !self.uses_claims() {
            return;
        }
        let pod = self.task(task).spec.name.clone();
        let slots = self.task(task).claims.claims.clone();
        let same_as_before = slots.iter().all(|at| self.can_take_back(*at, node));
        for at in &slots {
            let mut state = self.claims.entries[*at].state.clone();
            if !state.reserved_for.contains(&pod.name) {
                state.reserved_for.push(pod.name.clone());
            }
            if state.allocation.is_none() && same_as_before {
                state.allocation.clone_from(&state.remembered);
            }
            self.change_claim(*at, state);
        }
        let extended = self.extended_requests(task, node);
        let open: Vec<usize> = slots
            .iter()
            .copied()
            .filter(|at| self.claims.entries[*at].state.allocation.is_none())
            .collect();
        let mut wanted: Vec<Wanted<'_>> =
            open.iter().map(|at| Wanted::by(&self.claims.entries[*at].spec)).collect();
        let requests = extended.iter().map(|(_, extended)| &*extended.requests);
        wanted.extend(requests.map(|requests| Wanted::unconstrained(&pod, requests)));
        if wanted.is_empty() {
            return;
        }
        // The filter saw that there is an allocation; without the filter the claims stay open.
        let target = &self.nodes[node.index()];
        let now = self.devices_for(target, &wanted, When::Now);
        let found = now.or_else(|| self.devices_for(target, &wanted, When::Later));
        let Some(found) = found else { return };
        let mut found = found.into_iter();
        for (at, allocation) in open.iter().zip(found.by_ref()) {
            self.give(*at, &pod, allocation);
        }
        if let (Some((at, extended)), Some(allocation)) = (extended, found.next()) {
            self.give(at, &pod, extended.complete(allocation));
        }
    }

    /// Frees the claims of a pod that was evicted in a cycle.
    pub(crate) fn free_claims(&mut self, task: TaskId) {
        if !self.uses_claims() {
            return;
        }
        let pod = self.task(task).spec.name.clone();
        let mut slots = self.task(task).claims.claims.clone();
        slots.extend(self.claims.extended_slot_of(&pod));
        for at in slots {
            let mut state = self.claims.entries[at].state.clone();
            state.reserved_for.retain(|other| *other != pod.name);
            if state.reserved_for.is_empty()
                && let Some(allocation) = state.allocation.take()
            {
                state.remembered = Some(allocation);
            }
            self.change_claim(at, state);
        }
    }

    /// Devices of the claims of a placed pod, by claim name, for its bind request.
    pub(crate) fn claim_allocations(&self, task: TaskId) -> Vec<(Text, Allocation)> {
        let entry = self.task(task);
        let slots = entry.claims.claims.iter().copied();
        let slots = slots.chain(self.claims.extended_slot_of(&entry.spec.name));
        let given = slots.filter_map(|at| {
            let claim = &self.claims.entries[at];
            let allocation = claim.state.allocation.as_deref()?;
            Some((claim.spec.name.name.clone(), allocation.clone()))
        });
        given.collect()
    }

    /// Whether a pod that was evicted in this cycle can still have the devices it had: only then it can stay
    /// as if nothing had happened.
    pub(crate) fn keeps_devices(&self, task: TaskId) -> bool {
        self.task(task).claims.claims.iter().all(|at| {
            let state = &self.claims.entries[*at].state;
            state.allocation.is_some()
                || state.remembered.as_ref().is_none_or(|given| self.claims.is_free(given))
        })
    }

    /// GPUs of a pod's request that it would share with pods already on the node: they cost nothing there.
    pub(crate) fn shared_gpus(&self, task: TaskId, node: NodeId) -> i64 {
        let shared = self.shared_devices(task, node, Status::Allocated);
        if shared.idle < 0 { shared.gpus + shared.idle } else { shared.gpus }
    }

    /// What a pod with `status` changes on a node through devices that other pods there hold as well.
    pub(crate) fn shared_devices(
        &self,
        task: TaskId,
        node: NodeId,
        status: Status,
    ) -> SharedDevices {
        let entry = self.task(task);
        let mut left = self.shapes[entry.shape].claimed_gpus;
        let mut shared = SharedDevices::default();
        for at in &entry.claims.claims {
            let claim = &self.claims.entries[*at];
            if claim.state.allocation.is_none() || left <= 0 {
                continue;
            }
            let mut others = DeviceUse::default();
            for resident in &self.node(node).residents {
                let other = self.task(resident.task);
                if resident.task != task && other.claims.claims.contains(at) {
                    others = others.with(resident.status);
                }
            }
            if others == DeviceUse::default() {
                continue;
            }
            let devices = self.claims.allocated_gpus(*at).min(left);
            if self.config.compatibility.is_kai() {
                shared.gpus += if claim.was_allocated { devices } else { 0 };
                continue;
            }
            left -= devices;
            let together = others.with(status);
            shared.gpus += devices;
            shared.idle += devices * (together.idle() - others.idle());
            shared.releasing += devices * (together.releasing() - others.releasing());
            shared.used += devices * (together.used() - others.used());
        }
        shared
    }

    /// Whether the pod's extended resources already have devices that can be used from the node.
    pub(super) fn has_extended_allocation(&self, task: TaskId, node: &Node) -> bool {
        let slot = self.claims.extended_slot_of(&self.task(task).spec.name);
        let given = slot.and_then(|at| self.claims.entries[at].state.allocation.as_ref());
        given.is_some_and(|given| given.nodes.is_empty() || matches_any(&given.nodes, node))
    }

    /// The open requests for the pod's extended resources and the slot of the claim that stands for them.
    fn extended_requests(
        &mut self,
        task: TaskId,
        node: NodeId,
    ) -> Option<(usize, ExtendedRequests)> {
        let spec = Arc::clone(&self.task(task).spec);
        let target = &self.nodes[node.index()];
        let requests = ExtendedRequests::of(&self.claims, &self.names, &spec, target)?;
        let at = self.claims.extended_slot(&spec.name);
        if !self.can_take_back(at, node) {
            return Some((at, requests));
        }
        let mut state = self.claims.entries[at].state.clone();
        state.allocation = state.allocation.or_else(|| state.remembered.clone());
        state.reserved_for = vec![spec.name.name.clone()];
        self.change_claim(at, state);
        None
    }

    /// Whether a claim has devices, or can have those back that it had before it was freed in this cycle.
    fn can_take_back(&self, at: usize, node: NodeId) -> bool {
        let state = &self.claims.entries[at].state;
        let usable = |given: &Arc<Allocation>| {
            (given.nodes.is_empty() || matches_any(&given.nodes, self.node(node)))
                && self.claims.is_free(given)
        };
        state.allocation.is_some() || state.remembered.as_ref().is_some_and(usable)
    }

    fn give(&mut self, at: usize, pod: &ObjectName, allocation: Allocation) {
        let mut state = self.claims.entries[at].state.clone();
        state.allocation = Some(Arc::new(allocation));
        if !state.reserved_for.contains(&pod.name) {
            state.reserved_for.push(pod.name.clone());
        }
        self.change_claim(at, state);
    }

    fn change_claim(&mut self, at: usize, state: ClaimState) {
        let old = self.claims.entries[at].state.clone();
        if old != state {
            self.log.push(Undo::Claim(at, old));
            self.claims.change(at, state);
        }
    }
}
