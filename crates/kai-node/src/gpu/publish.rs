//! What a reservation pod writes on itself.

use std::collections::BTreeMap;

use kai_api::names::gpu;

use crate::gpu::discovery::{Device, DiscoveryError, Found, look};
use crate::gpu::held_memory;
use crate::gpu::nvml::Nvml;
use crate::gpu::visible::VisibleDevices;

/// The device that a reservation pod keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    pub device: Device,
    /// Version of the driver.
    pub driver: Option<String>,
    /// How many devices the machine has.
    pub machine_has: Option<u64>,
}

/// What the program in a reservation pod does, but for finding the library and writing: it asks which device is ours.
/// `machine_has` is how many devices the machine has, where that is known.
pub fn reserve(
    nvml: &dyn Nvml,
    visible: &VisibleDevices,
    machine_has: Option<u64>,
) -> Result<Reserved, DiscoveryError> {
    let found = look(nvml)?;
    let device = found.ours(visible)?.clone();
    tracing::info!(deviceId = device.uuid, "Found GPU device");
    let Found { driver, .. } = found;
    Ok(Reserved { device, driver, machine_has })
}

impl Reserved {
    /// A device of which only the UUID is known.
    pub fn named(uuid: String, machine_has: Option<u64>) -> Self {
        tracing::info!(deviceId = uuid, "Found GPU device");
        Self { device: Device { uuid, ..Device::default() }, driver: None, machine_has }
    }

    /// Annotations of the pod. The first is the reference's; those that NVML does not report are left out.
    pub fn annotations(&self) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::from([(gpu::RESERVED_DEVICE, self.device.uuid.clone())]);
        if let Some(mib) = self.device.memory_mib {
            all.insert(gpu::MEMORY_MIB, mib.to_string());
        }
        if let Some(mib) = held_memory::reserve_mib(&self.device) {
            all.insert(gpu::MEMORY_RESERVE_MIB, mib.to_string());
        }
        if let Some(driver) = &self.driver {
            all.insert(gpu::DRIVER_VERSION, driver.clone());
        }
        if let Some(count) = self.machine_has {
            all.insert(gpu::COUNT, count.to_string());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::listed::ListedNvml;

    #[test]
    fn what_is_not_known_is_not_written() {
        let device = Device { uuid: "GPU-a".to_owned(), ..Device::default() };
        let nvml = ListedNvml {
            driver: "570.1".to_owned(),
            devices: vec![device],
            ..ListedNvml::default()
        };
        let reserved = reserve(&nvml, &VisibleDevices::Unrestricted, None).expect("a device");
        let expected =
            [(gpu::RESERVED_DEVICE, "GPU-a".to_owned()), (gpu::DRIVER_VERSION, "570.1".to_owned())];
        assert_eq!(reserved.annotations(), BTreeMap::from(expected));
    }
}
