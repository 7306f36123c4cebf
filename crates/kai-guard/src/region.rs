//! The usage region: one file per container, mapped by all of its processes.
//!
//! There is no lock and no counter that two writers have to keep in step. Every process has a slot with its own
//! charges; what the container uses is the sum over slots. A reservation is added first and then judged, so the
//! last of several concurrent reservations sees all others and the sum never exceeds the limit. A process that is
//! killed at any instruction leaves nothing but its slot, which the next process that needs memory takes back.

mod layout;
mod slots;

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

pub use layout::{Charge, DeviceRow, GuardState, Header, MAGIC, Region, SLOTS, Slot, VERSION};
pub use slots::{Liveness, Owner};

use crate::limits::{DeviceLimits, DeviceUuid, MAX_DEVICES};
use crate::process_table::hash;

/// How often a reservation is tried again while other reservations are undecided.
const UNDECIDED_RETRIES: u32 = 64;

/// Index of a device row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIndex(usize);

/// Index of a process slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotIndex(usize);

impl SlotIndex {
    /// Position of the slot, for locks on the region file.
    pub fn position(self) -> usize {
        self.0
    }
}

/// The file belongs to something else, or to a newer library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFormat;

impl Region {
    /// Marks an empty region as ours.
    ///
    /// # Errors
    /// The region has another format.
    pub fn open(&self) -> Result<(), UnknownFormat> {
        let _ = self.header.magic.compare_exchange(0, MAGIC, SeqCst, SeqCst);
        let _ = self.header.version.compare_exchange(0, VERSION, SeqCst, SeqCst);
        let is_ours = self.header.magic.load(Acquire) == MAGIC
            && self.header.version.load(Acquire) == VERSION;
        if is_ours { Ok(()) } else { Err(UnknownFormat) }
    }

    /// Row of a device; taken when the device has none yet. `None` when all rows are taken.
    pub fn device(&self, uuid: DeviceUuid) -> Option<DeviceIndex> {
        let key = hash(&uuid.0);
        for (index, row) in self.devices.iter().enumerate() {
            let taken = row.key.compare_exchange(0, key, SeqCst, SeqCst);
            if taken.is_ok() || taken == Err(key) {
                let (high, low) = uuid.0.split_at(8);
                row.uuid_high.store(from_bytes(high), Relaxed);
                row.uuid_low.store(from_bytes(low), Relaxed);
                return Some(DeviceIndex(index));
            }
        }
        None
    }

    /// Records limits for readers.
    pub fn publish_limits(&self, device: DeviceIndex, limits: &DeviceLimits) {
        if let Some(row) = self.devices.get(device.0) {
            row.limit.store(limits.limit_bytes, Relaxed);
            row.request.store(limits.request_bytes, Relaxed);
        }
    }

    /// Sum of all charges on a device.
    pub fn used(&self, device: DeviceIndex) -> u64 {
        self.sum(device, |charge| {
            charge.data.load(SeqCst).saturating_add(charge.overhead.load(SeqCst))
        })
    }

    /// Sum of reservations whose allocation has not returned yet.
    fn undecided(&self, device: DeviceIndex) -> u64 {
        self.sum(device, |charge| charge.pending.load(SeqCst))
    }

    fn sum(&self, device: DeviceIndex, of: impl Fn(&Charge) -> u64) -> u64 {
        let count = usize::try_from(self.header.slots_used.load(SeqCst)).unwrap_or(SLOTS);
        let slots = self.slots.get(..count.min(SLOTS)).unwrap_or(&self.slots);
        let charges = slots.iter().filter_map(|slot| slot.charges.get(device.0));
        charges.fold(0, |sum, charge| sum.saturating_add(of(charge)))
    }

    fn charge(&self, slot: SlotIndex, device: DeviceIndex) -> Option<&Charge> {
        self.slots.get(slot.0)?.charges.get(device.0)
    }

    /// Reserves `bytes` if the sum stays within `limit`. The reservation is undecided until [`Region::commit`].
    pub fn reserve(&self, slot: SlotIndex, device: DeviceIndex, bytes: u64, limit: u64) -> bool {
        let Some(charge) = self.charge(slot, device) else { return false };
        if bytes > limit {
            return false;
        }
        for retry in 0..UNDECIDED_RETRIES {
            charge.pending.fetch_add(bytes, SeqCst);
            charge.data.fetch_add(bytes, SeqCst);
            if self.used(device) <= limit {
                return true;
            }
            subtract(&charge.data, bytes);
            subtract(&charge.pending, bytes);
            if self.undecided(device) == 0 && self.used(device).saturating_add(bytes) > limit {
                return false;
            }
            // Different processes and attempts wait differently, so that two of them do not meet again and again.
            for _ in 0..(retry * 7 + slot.0 as u32 % 13) {
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
        false
    }

    /// Reserves whatever the limit says.
    pub fn reserve_unchecked(&self, slot: SlotIndex, device: DeviceIndex, bytes: u64) {
        if let Some(charge) = self.charge(slot, device) {
            charge.pending.fetch_add(bytes, SeqCst);
            charge.data.fetch_add(bytes, SeqCst);
        }
    }

    /// Ends a reservation of `reserved` bytes: `kept` bytes stay charged.
    pub fn commit(&self, slot: SlotIndex, device: DeviceIndex, reserved: u64, kept: u64) {
        let Some(charge) = self.charge(slot, device) else { return };
        if kept > reserved {
            charge.data.fetch_add(kept - reserved, SeqCst);
        } else {
            subtract(&charge.data, reserved - kept);
        }
        subtract(&charge.pending, reserved);
        if let Some(row) = self.devices.get(device.0) {
            row.peak.fetch_max(self.used(device), Relaxed);
        }
    }

    /// Takes `bytes` off the charges of the process.
    pub fn release(&self, slot: SlotIndex, device: DeviceIndex, bytes: u64) {
        if let Some(charge) = self.charge(slot, device) {
            subtract(&charge.data, bytes);
        }
    }

    /// Charges and undecided reservations of one process.
    pub fn own(&self, slot: SlotIndex, device: DeviceIndex) -> OwnCharges {
        self.charge(slot, device).map_or_else(OwnCharges::default, |charge| OwnCharges {
            data: charge.data.load(SeqCst),
            pending: charge.pending.load(SeqCst),
            overhead: charge.overhead.load(SeqCst),
        })
    }

    /// Sets what the process holds beside its allocations: contexts, code, slack of the driver's blocks.
    pub fn set_overhead(&self, slot: SlotIndex, device: DeviceIndex, bytes: u64) {
        if let Some(charge) = self.charge(slot, device) {
            charge.overhead.store(bytes, SeqCst);
        }
        if let Some(row) = self.devices.get(device.0) {
            row.peak.fetch_max(self.used(device), Relaxed);
        }
    }

    /// Counts a refused allocation.
    pub fn count_refusal(&self, device: DeviceIndex) {
        if let Some(row) = self.devices.get(device.0) {
            row.refused.fetch_add(1, Relaxed);
        }
    }

    /// Size of a context as measured by the first process; 0 before that.
    pub fn context_bytes(&self, device: DeviceIndex) -> u64 {
        self.devices.get(device.0).map_or(0, |row| row.context.load(Relaxed))
    }

    /// Records the measured size of a context.
    pub fn learn_context(&self, device: DeviceIndex, bytes: u64) {
        if let Some(row) = self.devices.get(device.0) {
            let _ = row.context.compare_exchange(0, bytes, Relaxed, Relaxed);
        }
    }

    /// Records what the library does in this container.
    pub fn publish_state(&self, state: GuardState, reason: &str) {
        let mut bytes = reason.bytes();
        for word in &self.header.reason {
            let mut packed = [0_u8; 8];
            for byte in &mut packed {
                *byte = bytes.next().unwrap_or(0);
            }
            word.store(u64::from_le_bytes(packed), Relaxed);
        }
        self.header.state.store(state as u64, SeqCst);
    }
}

/// What one process holds on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCharges {
    /// Bytes of allocations, reservations included.
    pub data: u64,
    /// Reservations whose allocation has not returned yet.
    pub pending: u64,
    /// Bytes of contexts and code, with some slack.
    pub overhead: u64,
}

fn from_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Never below zero: a tenant may write the region, and a wrapped counter would refuse everything forever.
fn subtract(counter: &std::sync::atomic::AtomicU64, bytes: u64) {
    let _ = counter.fetch_update(SeqCst, SeqCst, |value| Some(value.saturating_sub(bytes)));
}

const _: () = assert!(MAX_DEVICES == layout::DEVICES);

#[cfg(test)]
mod tests;
