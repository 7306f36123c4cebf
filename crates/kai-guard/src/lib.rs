//! Pure parts of GPU memory enforcement: the limits file, the usage region shared by the processes of a
//! container, and the reader for the host. The library that is loaded into workloads is `kai-guard-preload`.

pub mod allocations;
pub mod array_size;
pub mod limits;
pub mod process_table;
pub mod region;
pub mod usage;

/// Bytes of one MiB.
pub const MIB: u64 = 1 << 20;
