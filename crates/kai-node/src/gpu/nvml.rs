//! What we ask of NVML.

use std::fmt::{self, Display, Formatter};

/// A library that was initialised.
pub trait Nvml {
    /// Version of the driver.
    fn driver_version(&self) -> Result<String, NvmlFault>;
    /// How many devices this process sees.
    fn device_count(&self) -> Result<u32, NvmlFault>;
    /// The device at this index.
    fn device(&self, index: u32) -> Result<Box<dyn NvmlDevice + '_>, NvmlFault>;
}

pub trait NvmlDevice {
    /// UUID of the device, `GPU-…`.
    fn uuid(&self) -> Result<String, NvmlFault>;
    /// What it is called.
    fn name(&self) -> Result<String, NvmlFault>;
    /// Memory in bytes. Devices that share memory with the CPU may not report it.
    fn memory_bytes(&self) -> Result<u64, NvmlFault>;
    /// Bytes of it that are free: neither held by processes nor kept by the driver.
    fn free_bytes(&self) -> Result<u64, NvmlFault>;
    /// Processes that compute or draw on it. Only those of this process's PID namespace are listed.
    fn processes(&self) -> Result<Vec<GpuProcess>, NvmlFault>;
}

/// A process that uses a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    pub pid: u32,
    /// Bytes of the device that it holds; none: the driver does not report it.
    pub used_bytes: Option<u64>,
}

/// Why NVML did not answer. The texts are those of the reference, which has them from NVIDIA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvmlFault {
    /// There is no library.
    LibraryNotFound,
    /// The library lacks something that is asked for.
    FunctionNotFound,
    /// There is a library but no driver behind it, or its device files cannot be opened.
    DriverNotLoaded,
    /// The driver refuses us.
    NoPermission,
    /// The device does not support the question.
    NotSupported,
    /// Library and driver are of different versions.
    VersionMismatch,
    /// The device is gone.
    GpuLost,
    /// Something else, in these words.
    Other(String),
}

impl Display for NvmlFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LibraryNotFound => "ERROR_LIBRARY_NOT_FOUND",
            Self::FunctionNotFound => "ERROR_FUNCTION_NOT_FOUND",
            Self::DriverNotLoaded => "Driver Not Loaded",
            Self::NoPermission => "Insufficient Permissions",
            Self::NotSupported => "Not Supported",
            Self::VersionMismatch => "Driver/library version mismatch",
            Self::GpuLost => "GPU is lost",
            Self::Other(text) => text,
        })
    }
}
