//! Memory of a device that is not free: what the driver keeps for itself, and what processes hold.

use crate::gpu::discovery::Device;
use crate::gpu::nvml::Nvml;

/// A driver keeps at most this part of a card for itself, and this many MiB of a small one: where more is missing, the card is
/// in use.
const LARGEST_RESERVE_PERCENT: u64 = 5;
const LARGEST_SMALL_RESERVE_MIB: u64 = 1024;
/// A change of what processes hold is worth writing from this many MiB on.
pub(crate) const NOTABLE_MIB: u64 = 64;

/// MiB that the driver keeps: what is missing on an idle card. None where the card is in use or does not report its memory.
pub fn reserve_mib(device: &Device) -> Option<u64> {
    let (total, free) = (device.memory_mib?, device.free_mib?);
    let missing = total.checked_sub(free)?;
    let most = (total / 100 * LARGEST_RESERVE_PERCENT).max(LARGEST_SMALL_RESERVE_MIB);
    (missing <= most && missing < total).then_some(missing)
}

/// What processes hold of one device, measured again and again.
#[derive(Clone, Debug)]
pub struct HeldMemory {
    uuid: String,
    reserve_mib: u64,
    written_mib: Option<u64>,
}

impl HeldMemory {
    /// Of the device with this UUID, of which the driver keeps so much.
    pub fn of(uuid: &str, reserve_mib: u64) -> Self {
        Self { uuid: uuid.to_owned(), reserve_mib, written_mib: None }
    }

    /// MiB that processes hold now, if that is worth writing: the first time, when it reaches or leaves zero, and when it
    /// changed notably.
    pub fn changed_mib(&mut self, nvml: &dyn Nvml) -> Option<u64> {
        let held = self.held_mib(nvml)?;
        let is_notable =
            |written: u64| held.abs_diff(written) >= NOTABLE_MIB || (held == 0) != (written == 0);
        if !self.written_mib.is_none_or(is_notable) {
            return None;
        }
        self.written_mib = Some(held);
        Some(held)
    }

    fn held_mib(&self, nvml: &dyn Nvml) -> Option<u64> {
        let count = nvml.device_count().ok()?;
        let mut devices = (0..count).filter_map(|index| nvml.device(index).ok());
        let device = devices.find(|device| device.uuid().as_deref() == Ok(&self.uuid))?;
        let (total, free) = (device.memory_bytes().ok()? >> 20, device.free_bytes().ok()? >> 20);
        Some(total.saturating_sub(free).saturating_sub(self.reserve_mib))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::listed::ListedNvml;

    fn card(total: u64, free: u64) -> Device {
        let (memory_mib, free_mib) = (Some(total), Some(free));
        Device { uuid: "GPU-a".to_owned(), memory_mib, free_mib, ..Device::default() }
    }

    #[test]
    fn reserve_of_an_idle_card_is_what_is_missing() {
        assert_eq!(reserve_mib(&card(143_771, 143_155)), Some(616));
        assert_eq!(reserve_mib(&card(15_360, 14_910)), Some(450));
        assert_eq!(reserve_mib(&card(143_771, 100_000)), None, "the card is in use");
        assert_eq!(reserve_mib(&card(512, 0)), None, "nothing is free");
        assert_eq!(reserve_mib(&Device { free_mib: None, ..card(1, 1) }), None);
    }

    #[test]
    fn held_memory_is_reported_when_it_changes_notably() {
        let mut held = HeldMemory::of("GPU-a", 616);
        let mut measured = |free: u64| {
            let nvml = ListedNvml {
                driver: String::new(),
                devices: vec![card(143_771, free)],
                ..ListedNvml::default()
            };
            held.changed_mib(&nvml)
        };
        assert_eq!(measured(143_155), Some(0), "the first time");
        assert_eq!(measured(143_155), None);
        assert_eq!(measured(143_150), Some(5), "no longer zero");
        assert_eq!(measured(143_120), None, "hardly more");
        assert_eq!(measured(135_155), Some(8000));
        assert_eq!(measured(143_155), Some(0));
        let other =
            ListedNvml { driver: String::new(), devices: Vec::new(), ..ListedNvml::default() };
        assert_eq!(held.changed_mib(&other), None, "the device does not report its memory");
    }
}
