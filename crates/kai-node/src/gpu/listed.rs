//! NVML that answers from a list: for simulated nodes and tests.

use crate::gpu::discovery::Device;
use crate::gpu::nvml::{GpuProcess, Nvml, NvmlDevice, NvmlFault};

/// NVML that sees these devices.
#[derive(Clone, Debug, Default)]
pub struct ListedNvml {
    /// Version of the driver.
    pub driver: String,
    /// The devices, by index.
    pub devices: Vec<Device>,
    /// Processes that use each of them.
    pub processes: Vec<GpuProcess>,
}

impl Nvml for ListedNvml {
    fn driver_version(&self) -> Result<String, NvmlFault> {
        Ok(self.driver.clone())
    }

    fn device_count(&self) -> Result<u32, NvmlFault> {
        Ok(u32::try_from(self.devices.len()).unwrap_or(u32::MAX))
    }

    fn device(&self, index: u32) -> Result<Box<dyn NvmlDevice + '_>, NvmlFault> {
        let known = self.devices.iter().find(|device| device.index == index);
        let known = known.ok_or_else(|| NvmlFault::Other("Invalid Argument".to_owned()))?;
        Ok(Box::new(Listed { device: known, processes: &self.processes }))
    }
}

struct Listed<'a> {
    device: &'a Device,
    processes: &'a [GpuProcess],
}

impl NvmlDevice for Listed<'_> {
    fn uuid(&self) -> Result<String, NvmlFault> {
        Ok(self.device.uuid.clone())
    }

    fn name(&self) -> Result<String, NvmlFault> {
        self.device.name.clone().ok_or(NvmlFault::NotSupported)
    }

    fn memory_bytes(&self) -> Result<u64, NvmlFault> {
        self.device.memory_mib.map(|mib| mib << 20).ok_or(NvmlFault::NotSupported)
    }

    fn free_bytes(&self) -> Result<u64, NvmlFault> {
        self.device.free_mib.map(|mib| mib << 20).ok_or(NvmlFault::NotSupported)
    }

    fn processes(&self) -> Result<Vec<GpuProcess>, NvmlFault> {
        Ok(self.processes.to_vec())
    }
}
