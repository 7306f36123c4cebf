//! What a process allocated: pointers with their charges, and physical handles with their mappings.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Charge of one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Device ordinal of the process.
    pub device: i32,
    /// Charged bytes, which can exceed the requested ones.
    pub bytes: u64,
    /// Managed memory, which NVML does not count as memory of the process.
    pub is_managed: bool,
}

const SHARDS: usize = 16;

/// Pointers (or array handles) and their charges. Threads meet only when their pointers fall into one shard.
#[derive(Debug, Default)]
pub struct PointerTable {
    shards: [Mutex<BTreeMap<u64, Allocation>>; SHARDS],
}

impl PointerTable {
    fn shard(&self, pointer: u64) -> Option<MutexGuard<'_, BTreeMap<u64, Allocation>>> {
        // Device pointers are multiples of 512, large ones of 2 MiB: mix higher bits in.
        let mixed = (pointer >> 9) ^ (pointer >> 21);
        self.shards.get(mixed as usize % SHARDS).map(lock)
    }

    /// Records an allocation under the pointer that the driver returned.
    pub fn insert(&self, pointer: u64, allocation: Allocation) {
        if let Some(mut shard) = self.shard(pointer) {
            shard.insert(pointer, allocation);
        }
    }

    /// Removes an allocation. Call this before the driver frees the pointer: afterwards another thread may get
    /// the same pointer. Insert it again when the driver refuses.
    pub fn remove(&self, pointer: u64) -> Option<Allocation> {
        self.shard(pointer)?.remove(&pointer)
    }

    /// Removes all allocations of a device, whose last context is gone.
    pub fn remove_device(&self, device: i32) -> Vec<Allocation> {
        let mut removed = Vec::new();
        for shard in &self.shards {
            lock(shard).retain(|_, allocation| {
                let stays = allocation.device != device;
                if !stays {
                    removed.push(*allocation);
                }
                stays
            });
        }
        removed
    }
}

/// A poisoned lock only means that a thread panicked; the tables stay usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Physical {
    device: i32,
    bytes: u64,
    references: u64,
    mappings: u64,
}

#[derive(Debug)]
struct Mapping {
    bytes: u64,
    physical: u64,
}

#[derive(Debug, Default)]
struct Physicals {
    next: u64,
    by_id: BTreeMap<u64, Physical>,
    /// A handle value can be used again by the driver while the memory behind the old one is still mapped.
    by_handle: BTreeMap<u64, u64>,
    by_address: BTreeMap<u64, Mapping>,
}

/// Physical allocations of virtual memory management: charged until the last handle and mapping are gone.
#[derive(Debug, Default)]
pub struct PhysicalTable(Mutex<Physicals>);

/// Bytes that are no longer held on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Device ordinal of the process.
    pub device: i32,
    /// Number of bytes.
    pub bytes: u64,
}

impl PhysicalTable {
    /// Records a new physical allocation.
    pub fn create(&self, handle: u64, device: i32, bytes: u64) {
        let mut table = lock(&self.0);
        table.next += 1;
        let id = table.next;
        table.by_id.insert(id, Physical { device, bytes, references: 1, mappings: 0 });
        table.by_handle.insert(handle, id);
    }

    /// Records one more reference to a handle. Unknown handles (imports) are ignored.
    pub fn retain(&self, handle: u64, address: u64) {
        let mut table = lock(&self.0);
        let mapped = table.by_address.range(..=address).next_back();
        let id = mapped
            .filter(|(start, mapping)| address - **start < mapping.bytes)
            .map(|(_, mapping)| mapping.physical);
        if let Some(physical) = id.and_then(|id| table.by_id.get_mut(&id)) {
            physical.references += 1;
        }
        if let Some(id) = id {
            table.by_handle.insert(handle, id);
        }
    }

    /// Drops one reference to a handle.
    pub fn release(&self, handle: u64) -> Option<Freed> {
        let mut table = lock(&self.0);
        let id = *table.by_handle.get(&handle)?;
        let physical = table.by_id.get_mut(&id)?;
        physical.references = physical.references.saturating_sub(1);
        if physical.references == 0 {
            table.by_handle.remove(&handle);
        }
        table.forget_unused(id)
    }

    /// Records a mapping of a physical handle at an address.
    pub fn map(&self, address: u64, bytes: u64, handle: u64) {
        let mut table = lock(&self.0);
        let Some(id) = table.by_handle.get(&handle).copied() else { return };
        if let Some(physical) = table.by_id.get_mut(&id) {
            physical.mappings += 1;
            table.by_address.insert(address, Mapping { bytes, physical: id });
        }
    }

    /// Drops all mappings in a range.
    pub fn unmap(&self, address: u64, bytes: u64) -> Vec<Freed> {
        let mut table = lock(&self.0);
        let end = address.saturating_add(bytes);
        let starts: Vec<u64> =
            table.by_address.range(address..end).map(|(start, _)| *start).collect();
        let mut freed = Vec::new();
        for start in starts {
            let Some(mapping) = table.by_address.remove(&start) else { continue };
            if let Some(physical) = table.by_id.get_mut(&mapping.physical) {
                physical.mappings = physical.mappings.saturating_sub(1);
            }
            freed.extend(table.forget_unused(mapping.physical));
        }
        freed
    }
}

impl Physicals {
    fn forget_unused(&mut self, id: u64) -> Option<Freed> {
        let physical = self.by_id.get(&id)?;
        if physical.references > 0 || physical.mappings > 0 {
            return None;
        }
        let freed = Freed { device: physical.device, bytes: physical.bytes };
        self.by_id.remove(&id);
        Some(freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREED: Freed = Freed { device: 0, bytes: 4 };

    #[test]
    fn physical_memory_is_freed_with_its_last_handle_or_mapping() {
        let table = PhysicalTable::default();
        table.create(100, 0, 4);
        table.map(0x1000, 4, 100);
        assert_eq!(table.release(100), None, "still mapped");
        assert_eq!(table.release(100), None, "unknown by now");
        table.create(100, 1, 8);
        assert_eq!(
            table.unmap(0x1000, 4),
            [FREED],
            "the old allocation, not the new one of the same handle"
        );
        assert_eq!(table.release(100), Some(Freed { device: 1, bytes: 8 }));
    }

    #[test]
    fn retained_handle_keeps_the_memory() {
        let table = PhysicalTable::default();
        table.create(100, 0, 4);
        table.map(0x1000, 4, 100);
        table.retain(100, 0x1002);
        assert_eq!(table.unmap(0x0, 0x2000), []);
        assert_eq!(table.release(100), None);
        assert_eq!(table.release(100), Some(FREED));
    }

    #[test]
    fn imported_handles_and_unknown_ranges_are_ignored() {
        let table = PhysicalTable::default();
        table.map(0x1000, 4, 7);
        assert_eq!(table.unmap(0x1000, 4), []);
        assert_eq!(table.release(7), None);
        table.retain(7, 0x1000);
    }

    #[test]
    fn pointers_are_removed_once() {
        let table = PointerTable::default();
        let allocation = Allocation { device: 0, bytes: 5, is_managed: false };
        table.insert(0x20_0000, allocation);
        assert_eq!(table.remove(0x20_0000), Some(allocation));
        assert_eq!(table.remove(0x20_0000), None);
        table.insert(1, allocation);
        table.insert(2, Allocation { device: 1, ..allocation });
        assert_eq!(table.remove_device(0), [allocation]);
        assert!(table.remove(2).is_some());
    }
}
