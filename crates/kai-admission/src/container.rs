//! Containers of a pod: which one gets the shared device, and what it asks for.

use kai_api::names::gpu;
use serde_json::Value;

use super::pod::{Container, Pod};

/// Which container gets the share of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// It is an init container.
    pub(super) init: bool,
    /// Its place in its list.
    pub(super) index: usize,
}

impl Target {
    /// The container with the name that the pod gives, else the first.
    pub(super) fn of(pod: &Pod) -> Result<Self, String> {
        let Some(name) = pod.annotation(gpu::FRACTION_CONTAINER) else {
            return Ok(Self { init: false, index: 0 });
        };
        for init in [true, false] {
            let mut containers = pod.containers(init).iter();
            if let Some(index) =
                containers.position(|container| container.name.as_deref() == Some(name))
            {
                return Ok(Self { init, index });
            }
        }
        Err(format!("container with name {name} not found for fraction request"))
    }
}

/// It asks for a share of a device, whatever the value.
pub(super) fn is_fractional(pod: &Pod) -> bool {
    pod.annotation(gpu::FRACTION).is_some() || pod.annotation(gpu::MEMORY).is_some()
}

/// Some container is limited to whole devices.
pub(super) fn limits_devices(pod: &Pod) -> bool {
    let limits_device = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        limits.and_then(|limits| limits.get(gpu::NVIDIA)).is_some_and(|limit| !limit.is_null())
    };
    pod.containers(true).iter().chain(pod.containers(false)).any(limits_device)
}

/// It asks for devices: whole ones, MIG instances, or through claims.
pub(super) fn uses_devices(container: &Container) -> bool {
    let Some(resources) = &container.resources else { return false };
    let is_device = |name: &str| name == gpu::NVIDIA || name.starts_with(gpu::MIG_PREFIX);
    let is_amount = |value: &Value| value.as_str() != Some("0") && value.as_i64() != Some(0);
    let mut requests = resources.requests.iter().flatten();
    requests.any(|(name, value)| is_device(name) && is_amount(value))
        || resources.claims.as_ref().is_some_and(|claims| !claims.is_empty())
}
