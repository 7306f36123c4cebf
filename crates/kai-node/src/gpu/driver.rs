//! NVML as NVIDIA ships it, loaded while running: there is none to link with.

use std::path::Path;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml as Wrapped};

use crate::gpu::library::{LoadError, Loader};
use crate::gpu::nvml::{GpuProcess, Nvml, NvmlDevice, NvmlFault};

/// Loads libraries of this machine.
pub struct SystemLoader;

impl Loader for SystemLoader {
    fn exists(&self, library: &Path) -> bool {
        library.exists()
    }

    fn load(&self, library: &Path) -> Result<Box<dyn Nvml>, LoadError> {
        match Wrapped::builder().lib_path(library.as_os_str()).init() {
            Ok(nvml) => Ok(Box::new(nvml)),
            Err(NvmlError::LibloadingError(error)) => Err(LoadError::CannotLoad(error.to_string())),
            Err(error) => Err(LoadError::Fault(error.into())),
        }
    }
}

impl Nvml for Wrapped {
    fn driver_version(&self) -> Result<String, NvmlFault> {
        Ok(self.sys_driver_version()?)
    }

    fn device_count(&self) -> Result<u32, NvmlFault> {
        Ok(Wrapped::device_count(self)?)
    }

    fn device(&self, index: u32) -> Result<Box<dyn NvmlDevice + '_>, NvmlFault> {
        Ok(Box::new(self.device_by_index(index)?))
    }
}

impl NvmlDevice for Device<'_> {
    fn uuid(&self) -> Result<String, NvmlFault> {
        Ok(Device::uuid(self)?)
    }

    fn name(&self) -> Result<String, NvmlFault> {
        Ok(Device::name(self)?)
    }

    fn memory_bytes(&self) -> Result<u64, NvmlFault> {
        Ok(self.memory_info()?.total)
    }

    fn free_bytes(&self) -> Result<u64, NvmlFault> {
        Ok(self.memory_info()?.free)
    }

    fn processes(&self) -> Result<Vec<GpuProcess>, NvmlFault> {
        let process = |process: ProcessInfo| {
            let used_bytes = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            GpuProcess { pid: process.pid, used_bytes }
        };
        let mut all = self.running_compute_processes()?;
        // A process that does both is in both lists, with the same memory.
        for graphics in self.running_graphics_processes().unwrap_or_default() {
            if all.iter().all(|known| known.pid != graphics.pid) {
                all.push(graphics);
            }
        }
        Ok(all.into_iter().map(process).collect())
    }
}

impl From<NvmlError> for NvmlFault {
    fn from(error: NvmlError) -> Self {
        match error {
            NvmlError::LibraryNotFound | NvmlError::LibloadingError(_) => Self::LibraryNotFound,
            NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_) => {
                Self::FunctionNotFound
            }
            NvmlError::DriverNotLoaded => Self::DriverNotLoaded,
            NvmlError::NoPermission => Self::NoPermission,
            NvmlError::NotSupported => Self::NotSupported,
            NvmlError::LibRmVersionMismatch => Self::VersionMismatch,
            NvmlError::GpuLost => Self::GpuLost,
            NvmlError::InvalidArg => Self::Other("Invalid Argument".to_owned()),
            NvmlError::NotFound => Self::Other("Not Found".to_owned()),
            NvmlError::Unknown => Self::Other("Unknown Error".to_owned()),
            error => Self::Other(error.to_string()),
        }
    }
}
