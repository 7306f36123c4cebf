//! Reader of the usage region for the host: bytes of the file into numbers.

use std::mem::offset_of;

use crate::limits::DeviceUuid;
use crate::region::{Charge, DeviceRow, Header, MAGIC, Region, Slot, VERSION};

/// What the library does in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No process has used CUDA through the library yet.
    NotAttached,
    /// The library is in mode off.
    Off,
    /// The library is in mode report.
    Reporting,
    /// The library is in mode enforce.
    Enforcing,
    /// The accounting could not start.
    Failed(String),
}

/// Charges of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// PID in the PID namespace of the container. The process may have ended since.
    pub pid: u32,
    /// Allocations, contexts and code.
    pub used_bytes: u64,
}

/// One device of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Device UUID without the prefix `GPU-`.
    pub uuid: DeviceUuid,
    /// Limit as the library read it last.
    pub limit_bytes: u64,
    /// Request as the library read it last.
    pub request_bytes: u64,
    /// Sum over all processes.
    pub used_bytes: u64,
    /// Highest sum so far.
    pub peak_bytes: u64,
    /// Number of refused allocations.
    pub refused_count: u64,
    /// Processes with charges on the device.
    pub processes: Vec<ProcessUsage>,
}

/// Contents of a usage region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What the library does.
    pub guard: Guard,
    /// Devices in the order in which they were first used.
    pub devices: Vec<DeviceUsage>,
}

/// Why bytes are not a usage region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageError {
    /// Shorter than the layout.
    TooShort,
    /// The file does not begin with the magic number.
    NotARegion,
    /// Written by another version of the library.
    UnknownVersion(u64),
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooShort => formatter.write_str("usage region is truncated"),
            Self::NotARegion => formatter.write_str("file is not a usage region"),
            Self::UnknownVersion(version) => {
                write!(formatter, "usage region has version {version}, this reader knows {VERSION}")
            }
        }
    }
}

impl std::error::Error for UsageError {}

/// Reads a usage region.
///
/// # Errors
/// The bytes are not a region of this version.
pub fn read(bytes: &[u8]) -> Result<Usage, UsageError> {
    if bytes.len() < size_of::<Region>() {
        return Err(UsageError::TooShort);
    }
    let file = File(bytes);
    match (file.word(offset_of!(Header, magic)), file.word(offset_of!(Header, version))) {
        (0, 0) => return Ok(Usage { guard: Guard::NotAttached, devices: Vec::new() }),
        (MAGIC, VERSION) => {}
        (MAGIC, version) => return Err(UsageError::UnknownVersion(version)),
        _ => return Err(UsageError::NotARegion),
    }
    let guard = match file.word(offset_of!(Header, state)) {
        0 => Guard::NotAttached,
        1 => Guard::Off,
        2 => Guard::Reporting,
        3 => Guard::Enforcing,
        _ => Guard::Failed(file.reason()),
    };
    let rows = (size_of::<[DeviceRow; 16]>() / size_of::<DeviceRow>()) as u64;
    let devices = (0..rows as usize).filter_map(|row| file.device(row)).collect();
    Ok(Usage { guard, devices })
}

struct File<'a>(&'a [u8]);

impl File<'_> {
    fn word(&self, offset: usize) -> u64 {
        let bytes = self.0.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    }

    fn reason(&self) -> String {
        let offset = offset_of!(Header, reason);
        let bytes = self.0.get(offset..offset + 128).unwrap_or_default();
        String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
    }

    fn device(&self, row: usize) -> Option<DeviceUsage> {
        let at = offset_of!(Region, devices) + row * size_of::<DeviceRow>();
        if self.word(at + offset_of!(DeviceRow, key)) == 0 {
            return None;
        }
        let high = self.word(at + offset_of!(DeviceRow, uuid_high)).to_be_bytes();
        let low = self.word(at + offset_of!(DeviceRow, uuid_low)).to_be_bytes();
        let mut uuid = [0; 16];
        for (to, from) in uuid.iter_mut().zip(high.into_iter().chain(low)) {
            *to = from;
        }
        let processes = self.processes(row);
        Some(DeviceUsage {
            uuid: DeviceUuid(uuid),
            limit_bytes: self.word(at + offset_of!(DeviceRow, limit)),
            request_bytes: self.word(at + offset_of!(DeviceRow, request)),
            used_bytes: processes
                .iter()
                .fold(0, |sum, process| sum.saturating_add(process.used_bytes)),
            peak_bytes: self.word(at + offset_of!(DeviceRow, peak)),
            refused_count: self.word(at + offset_of!(DeviceRow, refused)),
            processes,
        })
    }

    fn processes(&self, row: usize) -> Vec<ProcessUsage> {
        let slots = (self.0.len() - offset_of!(Region, slots)) / size_of::<Slot>();
        let process = |slot: usize| {
            let slot_at = offset_of!(Region, slots) + slot * size_of::<Slot>();
            let charge_at = slot_at + offset_of!(Slot, charges) + row * size_of::<Charge>();
            let used = self
                .word(charge_at + offset_of!(Charge, data))
                .saturating_add(self.word(charge_at + offset_of!(Charge, overhead)));
            let pid = (self.word(slot_at + offset_of!(Slot, owner)) & 0xffff_ffff) as u32;
            (used > 0).then_some(ProcessUsage { pid, used_bytes: used })
        };
        (0..slots).filter_map(process).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DeviceLimits;
    use crate::process_table::ProcessIdentity;
    use crate::region::{GuardState, Liveness, Owner};

    struct Alive;
    impl Liveness for Alive {
        fn is_alive(&self, _: Owner, _: usize) -> bool {
            true
        }
    }

    /// Bytes of a region, word by word, as another process reads them from the file.
    fn bytes_of(region: &Region) -> Vec<u8> {
        use std::sync::atomic::Ordering::SeqCst;
        let mut bytes = vec![0; size_of::<Region>()];
        let mut put =
            |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(offset_of!(Header, magic), region.header.magic.load(SeqCst));
        put(offset_of!(Header, version), region.header.version.load(SeqCst));
        put(offset_of!(Header, state), region.header.state.load(SeqCst));
        for (index, word) in region.header.reason.iter().enumerate() {
            put(offset_of!(Header, reason) + index * 8, word.load(SeqCst));
        }
        let row = &region.devices[0];
        let at = offset_of!(Region, devices);
        put(at + offset_of!(DeviceRow, key), row.key.load(SeqCst));
        put(at + offset_of!(DeviceRow, uuid_high), row.uuid_high.load(SeqCst));
        put(at + offset_of!(DeviceRow, uuid_low), row.uuid_low.load(SeqCst));
        put(at + offset_of!(DeviceRow, limit), row.limit.load(SeqCst));
        put(at + offset_of!(DeviceRow, request), row.request.load(SeqCst));
        put(at + offset_of!(DeviceRow, peak), row.peak.load(SeqCst));
        put(at + offset_of!(DeviceRow, refused), row.refused.load(SeqCst));
        let slot = offset_of!(Region, slots);
        put(slot + offset_of!(Slot, owner), region.slots[0].owner.load(SeqCst));
        let charge = slot + offset_of!(Slot, charges);
        put(charge + offset_of!(Charge, data), region.slots[0].charges[0].data.load(SeqCst));
        put(
            charge + offset_of!(Charge, overhead),
            region.slots[0].charges[0].overhead.load(SeqCst),
        );
        bytes
    }

    #[test]
    fn numbers_of_a_region_are_read_back() {
        let region = Box::<Region>::default();
        region.open().unwrap();
        let uuid = DeviceUuid::parse("GPU-8a5f0000-0000-0000-0000-00000000002a").unwrap();
        let device = region.device(uuid).unwrap();
        let limits = DeviceLimits {
            uuid,
            limit_bytes: 100,
            request_bytes: 50,
            neighbors_bytes: None,
            uncovered_bytes: None,
        };
        region.publish_limits(device, &limits);
        region.publish_state(GuardState::Enforcing, "");
        let me = ProcessIdentity { pid: 12, ..ProcessIdentity::default() };
        let slot = region.take_slot(me, &Alive).unwrap();
        assert!(region.reserve(slot, device, 60, 100));
        region.commit(slot, device, 60, 60);
        region.set_overhead(slot, device, 5);
        region.count_refusal(device);
        let expected = DeviceUsage {
            uuid,
            limit_bytes: 100,
            request_bytes: 50,
            used_bytes: 65,
            peak_bytes: 65,
            refused_count: 1,
            processes: vec![ProcessUsage { pid: 12, used_bytes: 65 }],
        };
        let usage = read(&bytes_of(&region)).unwrap();
        assert_eq!(usage, Usage { guard: Guard::Enforcing, devices: vec![expected] });
    }

    #[test]
    fn failure_reasons_and_foreign_files_are_distinguished() {
        let region = Box::<Region>::default();
        assert_eq!(read(&bytes_of(&region)).unwrap().guard, Guard::NotAttached);
        region.open().unwrap();
        region.publish_state(GuardState::Failed, "limits file: not a device UUID");
        let usage = read(&bytes_of(&region)).unwrap();
        assert_eq!(usage.guard, Guard::Failed("limits file: not a device UUID".to_owned()));
        assert_eq!(read(b"short"), Err(UsageError::TooShort));
        let mut bytes = bytes_of(&region);
        bytes[8] = 9;
        assert_eq!(read(&bytes), Err(UsageError::UnknownVersion(9)));
        bytes[0] = 0;
        assert_eq!(read(&bytes), Err(UsageError::NotARegion));
    }
}
