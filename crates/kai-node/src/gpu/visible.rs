//! `NVIDIA_VISIBLE_DEVICES`: the devices that a container may see.

use crate::gpu::discovery::Device;
use crate::gpu::granted::without_replica;

/// Where the device plugin puts devices that it grants by mounts; the variable then holds this folder.
pub const MOUNTED_DEVICES: &str = "/var/run/nvidia-container-devices";

/// The devices that a container may see.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum VisibleDevices {
    /// Nothing restricts them. Containers that get devices by CDI get `void` and see what was injected.
    #[default]
    Unrestricted,
    /// The container may use the listed devices alone.
    Only(Vec<DeviceRef>),
}

/// How a device is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceRef {
    /// Position in the order of NVML.
    Index(u32),
    /// By its UUID, or a beginning of it that no other device shares.
    Uuid(String),
}

impl VisibleDevices {
    /// The value of the variable.
    pub fn parse(value: &str) -> Self {
        match value.trim() {
            "" | "all" | "void" | "none" => Self::Unrestricted,
            list => Self::of_names(list.split(',')),
        }
    }

    /// Devices of these names.
    pub fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let refs: Vec<DeviceRef> = names.filter_map(device_ref).collect();
        if refs.is_empty() { Self::Unrestricted } else { Self::Only(refs) }
    }

    /// May the container see this device?
    pub fn includes(&self, device: &Device) -> bool {
        match self {
            Self::Unrestricted => true,
            Self::Only(refs) => refs.iter().any(|known| match known {
                DeviceRef::Index(index) => device.index == *index,
                DeviceRef::Uuid(uuid) => device.uuid.starts_with(uuid.as_str()),
            }),
        }
    }
}

/// CDI names end in the device after `=`.
fn device_ref(name: &str) -> Option<DeviceRef> {
    let name = name.trim();
    let name = name.rsplit_once('=').map_or(name, |(_, device)| device);
    match without_replica(name) {
        "" | "all" => None,
        name => Some(match name.parse() {
            Ok(index) => DeviceRef::Index(index),
            Err(_) => DeviceRef::Uuid(name.to_owned()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_restrict_nothing() {
        for value in ["", "all", "void", "none", " all "] {
            assert_eq!(VisibleDevices::parse(value), VisibleDevices::Unrestricted, "{value:?}");
        }
    }

    #[test]
    fn every_notation_names_a_device() {
        let only = |reference| VisibleDevices::Only(vec![reference]);
        let uuid = || DeviceRef::Uuid("GPU-1".to_owned());
        assert_eq!(VisibleDevices::parse("3"), only(DeviceRef::Index(3)));
        assert_eq!(VisibleDevices::parse("GPU-1"), only(uuid()));
        assert_eq!(VisibleDevices::parse("GPU-1::7"), only(uuid()));
        assert_eq!(VisibleDevices::parse("k8s.device-plugin.nvidia.com/gpu=GPU-1"), only(uuid()));
        assert_eq!(VisibleDevices::parse("nvidia.com/gpu=0"), only(DeviceRef::Index(0)));
        let both = VisibleDevices::Only(vec![uuid(), DeviceRef::Index(2)]);
        assert_eq!(VisibleDevices::parse("GPU-1, 2"), both);
    }

    #[test]
    fn a_beginning_of_a_uuid_is_enough() {
        let device = Device { index: 1, uuid: "GPU-fef8089b-1".to_owned(), ..Device::default() };
        assert!(VisibleDevices::parse("GPU-fef8089b").includes(&device));
        assert!(!VisibleDevices::parse("GPU-0,0").includes(&device));
    }
}
