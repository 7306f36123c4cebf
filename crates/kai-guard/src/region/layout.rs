//! The bytes of the region. All zeros is the valid empty state. Changing anything here needs a new [`VERSION`].

use std::sync::atomic::AtomicU64;

/// First word of a region.
pub const MAGIC: u64 = u64::from_le_bytes(*b"kaiguard");
/// Version of the layout.
pub const VERSION: u64 = 1;
/// Number of device rows: devices that one container can use.
pub(crate) const DEVICES: usize = 16;
/// Processes of a container that can use a GPU at the same time.
pub const SLOTS: usize = 256;
/// Words of the reason in the header.
pub(crate) const REASON_WORDS: usize = 16;

/// What the library does in the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum GuardState {
    /// No process has used CUDA yet.
    NotAttached = 0,
    /// The library is in mode off.
    Off = 1,
    /// The library is in mode report.
    Reporting = 2,
    /// The library is in mode enforce.
    Enforcing = 3,
    /// The accounting could not start; the header has the reason.
    Failed = 4,
}

/// Start of the region.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`] once the region is initialised.
    pub magic: AtomicU64,
    /// [`VERSION`] of the library that initialised the region.
    pub version: AtomicU64,
    /// A [`GuardState`] as a number.
    pub state: AtomicU64,
    /// Slots in use or used before: the others are empty.
    pub slots_used: AtomicU64,
    /// Why the state is `Failed`, UTF-8, zero-padded.
    pub reason: [AtomicU64; REASON_WORDS],
}

/// Limits and sums of one device.
#[derive(Debug)]
#[repr(C)]
pub struct DeviceRow {
    /// Hash of the UUID; 0 when the row is free.
    pub key: AtomicU64,
    /// First half of the UUID.
    pub uuid_high: AtomicU64,
    /// Second half of the UUID.
    pub uuid_low: AtomicU64,
    /// Limit in bytes, for readers.
    pub limit: AtomicU64,
    /// Request in bytes, for readers.
    pub request: AtomicU64,
    /// Highest sum of charges.
    pub peak: AtomicU64,
    /// Number of refused allocations.
    pub refused: AtomicU64,
    /// Measured size of a context.
    pub context: AtomicU64,
}

/// Charges of one process on one device, in bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Charge {
    /// Allocations, undecided reservations included.
    pub data: AtomicU64,
    /// Reservations whose allocation has not returned yet.
    pub pending: AtomicU64,
    /// Contexts and code, with some slack.
    pub overhead: AtomicU64,
}

/// One process. Aligned so that two processes never share a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    /// PID in the low half, state of the slot in the high half.
    pub owner: AtomicU64,
    /// Start time of the process.
    pub start_ticks: AtomicU64,
    /// Inode of its PID namespace.
    pub pid_namespace: AtomicU64,
    /// Hash of the boot id.
    pub boot: AtomicU64,
    /// One entry per device row.
    pub charges: [Charge; DEVICES],
}

/// The usage region: a file that all processes of a container map.
#[derive(Debug)]
#[repr(C)]
pub struct Region {
    /// Magic number, version and state.
    pub header: Header,
    /// One row per device in use.
    pub devices: [DeviceRow; DEVICES],
    /// One slot per process.
    pub slots: [Slot; SLOTS],
}

impl Default for Region {
    fn default() -> Self {
        Self {
            header: Header {
                magic: AtomicU64::new(0),
                version: AtomicU64::new(0),
                state: AtomicU64::new(0),
                slots_used: AtomicU64::new(0),
                reason: std::array::from_fn(|_| AtomicU64::new(0)),
            },
            devices: std::array::from_fn(|_| DeviceRow {
                key: AtomicU64::new(0),
                uuid_high: AtomicU64::new(0),
                uuid_low: AtomicU64::new(0),
                limit: AtomicU64::new(0),
                request: AtomicU64::new(0),
                peak: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                context: AtomicU64::new(0),
            }),
            slots: std::array::from_fn(|_| Slot {
                owner: AtomicU64::new(0),
                start_ticks: AtomicU64::new(0),
                pid_namespace: AtomicU64::new(0),
                boot: AtomicU64::new(0),
                charges: std::array::from_fn(|_| Charge {
                    data: AtomicU64::new(0),
                    pending: AtomicU64::new(0),
                    overhead: AtomicU64::new(0),
                }),
            }),
        }
    }
}
