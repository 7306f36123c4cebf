//! Which device is ours. A reservation pod is given one; where more can be seen, the environment of its container decides.

use serde::Serialize;

use crate::gpu::library::OpenError;
use crate::gpu::nvml::{Nvml, NvmlFault};
use crate::gpu::visible::VisibleDevices;

/// A device as NVML reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Its place among those that are seen.
    pub index: u32,
    pub uuid: String,
    /// What it is called.
    pub name: Option<String>,
    /// Its memory; none: the device does not report it, as devices that share memory with the CPU do.
    pub memory_mib: Option<u64>,
    /// What of it is free, neither held by processes nor kept by the driver.
    pub free_mib: Option<u64>,
}

/// Devices that NVML reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Version of the driver.
    pub driver: Option<String>,
    /// Devices by index.
    pub devices: Vec<Device>,
}

/// Why there is no device. Each begins with the reference's words and ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// There is no library that works.
    #[error("unable to initialize NVML: {}. {}", open_fault(.0), open_advice(.0))]
    Open(OpenError),
    /// Devices cannot be counted.
    #[error("unable to get device count: {fault}. {}", fault_advice(.0), fault = .0)]
    Count(NvmlFault),
    /// A device cannot be opened.
    #[error("unable to get device handle: {fault}. {}", fault_advice(.0), fault = .0)]
    Handle(NvmlFault),
    /// A device does not report its UUID.
    #[error("unable to get device uuid: {fault}. {}", fault_advice(.0), fault = .0)]
    Uuid(NvmlFault),
    /// Not one device is ours.
    #[error("found {} devices, 1 was expected. {}", .seen.len(), count_advice(.seen, .visible))]
    NotOne {
        /// UUIDs that are seen.
        seen: Vec<String>,
        /// Devices that the container may use.
        visible: VisibleDevices,
    },
}

/// All devices that this process sees.
pub fn look(nvml: &dyn Nvml) -> Result<Found, DiscoveryError> {
    let count = nvml.device_count().map_err(DiscoveryError::Count)?;
    tracing::info!("Found {count} GPU devices");
    let mut devices = Vec::new();
    for index in 0..count {
        let device = nvml.device(index).map_err(DiscoveryError::Handle)?;
        devices.push(Device {
            index,
            uuid: device.uuid().map_err(DiscoveryError::Uuid)?,
            name: device.name().ok(),
            memory_mib: device.memory_bytes().ok().map(|bytes| bytes >> 20),
            free_mib: device.free_bytes().ok().map(|bytes| bytes >> 20),
        });
    }
    Ok(Found { driver: nvml.driver_version().ok(), devices })
}

impl Found {
    /// The device that is ours: the only one, or the only one that `visible` names.
    pub fn ours(&self, visible: &VisibleDevices) -> Result<&Device, DiscoveryError> {
        if let [only] = &self.devices[..] {
            if !visible.includes(only) {
                tracing::warn!(
                    deviceId = only.uuid,
                    ?visible,
                    "The only GPU device is not the one that NVIDIA_VISIBLE_DEVICES names"
                );
            }
            return Ok(only);
        }
        let mut named = self.devices.iter().filter(|device| visible.includes(device));
        if let (Some(only), None) = (named.next(), named.next()) {
            return Ok(only);
        }
        let seen = self.devices.iter().map(|device| device.uuid.clone()).collect();
        Err(DiscoveryError::NotOne { seen, visible: visible.clone() })
    }
}

fn open_fault(error: &OpenError) -> &NvmlFault {
    match error {
        OpenError::NotFound { .. } | OpenError::NeedsLibraryPath { .. } => {
            &NvmlFault::LibraryNotFound
        }
        OpenError::Fault { fault, .. } => fault,
    }
}

fn open_advice(error: &OpenError) -> String {
    match error {
        OpenError::NotFound { tried } => format!(
            "libnvidia-ml.so.1 is in none of: {}. Give reservation pods a runtime class that brings it \
             (--runtime-class-name=nvidia); on a Jetson label the node kai.scheduler/tegra=on, so that its folder is \
             mounted",
            tried.join(", ")
        ),
        OpenError::NeedsLibraryPath { folder, why } => format!(
            "libnvidia-ml.so.1 of {} cannot be loaded ({why}): the folder must hold all that it needs",
            folder.display()
        ),
        OpenError::Fault { fault, .. } => fault_advice(fault),
    }
}

fn fault_advice(fault: &NvmlFault) -> String {
    match fault {
        NvmlFault::DriverNotLoaded | NvmlFault::NoPermission => {
            "The library is there, the devices are not, or may not be opened: check `ls -l /dev/nvidia*` on the node; on \
             a Jetson label the node kai.scheduler/tegra=on, so that the reservation pod is privileged and sees /dev"
        }
        NvmlFault::VersionMismatch => {
            "The library in the container is not of the version of the driver: restart the node after a driver update"
        }
        NvmlFault::LibraryNotFound | NvmlFault::FunctionNotFound => {
            "The library is incomplete or too old for the driver"
        }
        NvmlFault::NotSupported => "The device does not report this",
        NvmlFault::GpuLost => "The device fell off the bus: look at the kernel's log for Xid messages",
        NvmlFault::Other(_) => "Run `kai agent reserve --print` on the node to see what NVML reports there",
    }
    .to_owned()
}

fn count_advice(seen: &[String], visible: &VisibleDevices) -> String {
    if seen.is_empty() {
        return "The container sees no device: the device plugin's grant was not applied; check the runtime class and \
                NVIDIA_VISIBLE_DEVICES of the reservation pod"
            .to_owned();
    }
    let named = match visible {
        VisibleDevices::Unrestricted => "NVIDIA_VISIBLE_DEVICES names none of them".to_owned(),
        VisibleDevices::Only(refs) => {
            format!("NVIDIA_VISIBLE_DEVICES does not name one of them: {refs:?}")
        }
    };
    format!("{named}; there are {}", seen.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::listed::ListedNvml;

    fn nvml(uuids: &[&str]) -> ListedNvml {
        let device = |(index, uuid): (usize, &&str)| Device {
            index: index as u32,
            uuid: (*uuid).to_owned(),
            name: Some("NVIDIA H200".to_owned()),
            memory_mib: Some(143_771),
            free_mib: None,
        };
        let devices = uuids.iter().enumerate().map(device).collect();
        ListedNvml { driver: "570.1".to_owned(), devices, ..ListedNvml::default() }
    }

    fn ours(uuids: &[&str], visible: &str) -> Result<String, String> {
        let found = look(&nvml(uuids)).expect("devices");
        let device = found.ours(&VisibleDevices::parse(visible));
        device.map(|device| device.uuid.clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_only_device_is_ours_whatever_it_is_called() {
        assert_eq!(ours(&["GPU-a"], "").as_deref(), Ok("GPU-a"));
        assert_eq!(ours(&["GPU-a"], "3").as_deref(), Ok("GPU-a")); // its place on the host
        assert_eq!(ours(&["GPU-a"], "tegra").as_deref(), Ok("GPU-a"));
    }

    #[test]
    fn of_several_the_named_one_is_ours() {
        assert_eq!(ours(&["GPU-a", "GPU-b"], "GPU-b").as_deref(), Ok("GPU-b"));
        assert_eq!(ours(&["GPU-a", "GPU-b"], "0").as_deref(), Ok("GPU-a"));
    }

    #[test]
    fn errors_begin_with_the_words_of_the_reference() {
        let none = ours(&[], "").expect_err("no device");
        assert!(none.starts_with("found 0 devices, 1 was expected. "), "{none}");
        let all = ours(&["GPU-a", "GPU-b"], "all").expect_err("two devices");
        assert!(all.starts_with("found 2 devices, 1 was expected. "), "{all}");
        assert!(all.ends_with("there are GPU-a, GPU-b"), "{all}");
        let missing = DiscoveryError::Open(OpenError::NotFound { tried: vec!["/x".to_owned()] });
        let text = missing.to_string();
        assert!(text.starts_with("unable to initialize NVML: ERROR_LIBRARY_NOT_FOUND. "), "{text}");
        let library = "libnvidia-ml.so.1".into();
        let fault = NvmlFault::DriverNotLoaded;
        let text = DiscoveryError::Open(OpenError::Fault { library, fault }).to_string();
        assert!(text.starts_with("unable to initialize NVML: Driver Not Loaded. "), "{text}");
    }

    #[test]
    fn unreported_memory_is_no_error() {
        let mut silent = nvml(&["GPU-a"]);
        silent.devices[0].memory_mib = None;
        assert_eq!(look(&silent).expect("a device").devices[0].memory_mib, None);
    }
}
