//! Slots of processes: taken with compare-and-swap, taken back from processes that ended.

use std::sync::atomic::Ordering::SeqCst;

use super::SlotIndex;
use super::layout::{Region, SLOTS, Slot};
use crate::process_table::ProcessIdentity;

const PID: u64 = 0xffff_ffff;
/// The owner wrote its identity.
const READY: u64 = 1 << 32;
/// The PID is that of a process that clears the slot.
const CLEARING: u64 = 2 << 32;

/// Owner of a slot, as far as its identity is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The identity is complete.
    Process(ProcessIdentity),
    /// Only the PID is known: the process takes or clears the slot right now, or ended while it did.
    Pid(u32),
}

/// Answers whether owners still run.
pub trait Liveness {
    /// Whether the owner of the slot at `position` runs, with the program that took the slot. In doubt: true,
    /// because memory of a running process must stay charged.
    fn is_alive(&self, owner: Owner, position: usize) -> bool;
}

impl Region {
    /// Takes a slot for a process. A slot with the same identity belonged to the program that this process ran
    /// before `exec`; its charges are gone. `None` when all slots belong to running processes.
    pub fn take_slot(&self, me: ProcessIdentity, liveness: &dyn Liveness) -> Option<SlotIndex> {
        if let Some(index) = self.slots.iter().position(|slot| identity(slot) == Some(me)) {
            self.clear_charges(SlotIndex(index));
            return Some(SlotIndex(index));
        }
        self.take_free_slot(me, self.slots_used()).or_else(|| {
            self.reap(liveness, Some(me.pid));
            self.take_free_slot(me, self.slots_used()).or_else(|| self.take_free_slot(me, SLOTS))
        })
    }

    fn slots_used(&self) -> usize {
        usize::try_from(self.header.slots_used.load(SeqCst)).unwrap_or(SLOTS).min(SLOTS)
    }

    fn take_free_slot(&self, me: ProcessIdentity, among: usize) -> Option<SlotIndex> {
        for (index, slot) in self.slots.iter().enumerate().take(among) {
            let pid = u64::from(me.pid);
            if slot.owner.compare_exchange(0, pid, SeqCst, SeqCst).is_err() {
                continue;
            }
            self.header.slots_used.fetch_max(index as u64 + 1, SeqCst);
            self.clear_charges(SlotIndex(index));
            slot.start_ticks.store(me.start_ticks, SeqCst);
            slot.pid_namespace.store(me.pid_namespace, SeqCst);
            slot.boot.store(me.boot, SeqCst);
            slot.owner.store(pid | READY, SeqCst);
            return Some(SlotIndex(index));
        }
        None
    }

    /// Clears the slots of processes that ended. Returns how many.
    pub fn reap(&self, liveness: &dyn Liveness, own_pid: Option<u32>) -> usize {
        let mut reaped = 0;
        for (index, slot) in self.slots.iter().enumerate().take(self.slots_used()) {
            let observed = slot.owner.load(SeqCst);
            let owner = match observed {
                0 => continue,
                _ if observed & READY != 0 => match identity(slot) {
                    Some(identity) => Owner::Process(identity),
                    None => continue,
                },
                _ => Owner::Pid((observed & PID) as u32),
            };
            if liveness.is_alive(owner, index) {
                continue;
            }
            let mine = CLEARING | u64::from(own_pid.unwrap_or(0));
            if slot.owner.compare_exchange(observed, mine, SeqCst, SeqCst).is_ok() {
                self.clear_charges(SlotIndex(index));
                let _ = slot.owner.compare_exchange(mine, 0, SeqCst, SeqCst);
                reaped += 1;
            }
        }
        reaped
    }

    /// PIDs of all slots whose owner wrote its identity.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        let slots = self.slots.iter().take(self.slots_used());
        slots.filter_map(|slot| identity(slot).map(|identity| identity.pid))
    }

    fn clear_charges(&self, index: SlotIndex) {
        let Some(slot) = self.slots.get(index.0) else { return };
        for charge in &slot.charges {
            charge.data.store(0, SeqCst);
            charge.pending.store(0, SeqCst);
            charge.overhead.store(0, SeqCst);
        }
    }
}

fn identity(slot: &Slot) -> Option<ProcessIdentity> {
    let owner = slot.owner.load(SeqCst);
    (owner & READY != 0).then(|| ProcessIdentity {
        pid: (owner & PID) as u32,
        start_ticks: slot.start_ticks.load(SeqCst),
        pid_namespace: slot.pid_namespace.load(SeqCst),
        boot: slot.boot.load(SeqCst),
    })
}
