//! What a device plugin granted: its names of devices decide which device is ours where NVML does not.

/// How device plugins name what is known by a UUID: whole GPUs and parts of them.
const UUIDS: [&str; 2] = ["GPU-", "MIG-"];
/// The GPU of a Jetson, of which there is one.
const TEGRA: &str = "tegra";

/// Why the names mean no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Not one device was granted.
    #[error("it gave this pod {} devices, 1 was expected: {}", .0.len(), .0.join(", "))]
    NotOne(Vec<String>),
    /// The device plugin does not name devices as containers see them.
    #[error("it calls the device {0}, which is no UUID")]
    NoUuid(String),
}

/// The one device that these names mean, as containers see it.
pub fn granted(names: &[&str]) -> Result<String, GrantError> {
    let mut devices: Vec<&str> = names.iter().map(|name| without_replica(name)).collect();
    devices.sort_unstable();
    devices.dedup();
    let [device] = devices[..] else {
        return Err(GrantError::NotOne(devices.into_iter().map(str::to_owned).collect()));
    };
    let is_known = device == TEGRA || UUIDS.iter().any(|prefix| device.starts_with(prefix));
    if is_known { Ok(device.to_owned()) } else { Err(GrantError::NoUuid(device.to_owned())) }
}

/// Replicas of time-sliced devices carry their number after `::`.
pub(crate) fn without_replica(name: &str) -> &str {
    name.split_once("::").map_or(name, |(device, _)| device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_the_device_it_is_one_of() {
        assert_eq!(granted(&["GPU-1"]).as_deref(), Ok("GPU-1"));
        assert_eq!(granted(&["GPU-1::17"]).as_deref(), Ok("GPU-1"));
        assert_eq!(granted(&["MIG-1::0", "MIG-1::3"]).as_deref(), Ok("MIG-1"));
        assert_eq!(granted(&["tegra::4"]).as_deref(), Ok("tegra"));
    }

    #[test]
    fn names_that_mean_no_device_are_named() {
        let said = |names: &[&str]| granted(names).map_err(|error| error.to_string());
        let none = "it gave this pod 0 devices, 1 was expected: ";
        assert_eq!(said(&[]), Err(none.to_owned()));
        let two = "it gave this pod 2 devices, 1 was expected: GPU-1, GPU-2";
        assert_eq!(said(&["GPU-2::1", "GPU-1::0"]), Err(two.to_owned()));
        let file = "it calls the device nvidia0, which is no UUID";
        assert_eq!(said(&["nvidia0"]), Err(file.to_owned()));
    }
}
