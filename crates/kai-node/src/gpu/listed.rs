//! NVML that answers from a list: for simulated nodes and tests.

use crate::gpu::discovery::Device;
use crate::gpu::nvml::{Nvml, NvmlDevice, NvmlFault};

/// NVML that sees these devices.
#[derive(Clone, Debug, Default)]
pub struct ListedNvml {
    /// Version of the driver.
    pub driver: String,
    /// The devices, by index.
    pub devices: Vec<Device>,
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
        Ok(Box::new(Listed(known)))
    }
}

struct Listed<'a>(&'a Device);

impl NvmlDevice for Listed<'_> {
    fn uuid(&self) -> Result<String, NvmlFault> {
        Ok(self.0.uuid.clone())
    }

    fn name(&self) -> Result<String, NvmlFault> {
        self.0.name.clone().ok_or(NvmlFault::NotSupported)
    }

    fn memory_bytes(&self) -> Result<u64, NvmlFault> {
        self.0.memory_mib.map(|mib| mib << 20).ok_or(NvmlFault::NotSupported)
    }

    fn free_bytes(&self) -> Result<u64, NvmlFault> {
        self.0.free_mib.map(|mib| mib << 20).ok_or(NvmlFault::NotSupported)
    }
}
