//! Containers of a pod: which one gets the shared device, and what it asks for.

use kai_api::names::gpu;
use serde_json::Value;

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
    pub(super) fn of(pod: &Value) -> Result<Self, String> {
        let Some(name) = annotation(pod, gpu::FRACTION_CONTAINER) else {
            return Ok(Self { init: false, index: 0 });
        };
        for init in [true, false] {
            let mut containers = containers(pod, init).iter();
            if let Some(index) = containers.position(|container| container["name"] == name) {
                return Ok(Self { init, index });
            }
        }
        Err(format!("container with name {name} not found for fraction request"))
    }
}

/// Containers of a pod; those that run first, or the others.
pub(super) fn containers(pod: &Value, init: bool) -> &[Value] {
    let list = if init { "initContainers" } else { "containers" };
    pod["spec"][list].as_array().map_or(&[], Vec::as_slice)
}

/// An annotation of a pod.
pub(super) fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][key].as_str()
}

/// It asks for a share of a device, whatever the value.
pub(super) fn is_fractional(pod: &Value) -> bool {
    annotation(pod, gpu::FRACTION).is_some() || annotation(pod, gpu::MEMORY).is_some()
}

/// Some container is limited to whole devices.
pub(super) fn limits_devices(pod: &Value) -> bool {
    let mut all = containers(pod, true).iter().chain(containers(pod, false));
    all.any(|container| !container["resources"]["limits"][gpu::NVIDIA].is_null())
}

/// It asks for devices: whole ones, MIG instances, or through claims.
pub(super) fn uses_devices(container: &Value) -> bool {
    let requests = container["resources"]["requests"].as_object();
    let of_devices = |name: &str| name == gpu::NVIDIA || name.starts_with(gpu::MIG_PREFIX);
    let amount = |value: &Value| value.as_str() != Some("0") && value.as_i64() != Some(0);
    let asks = requests.is_some_and(|requests| {
        requests.iter().any(|(name, value)| of_devices(name) && amount(value))
    });
    let claims = container["resources"]["claims"].as_array();
    asks || claims.is_some_and(|claims| !claims.is_empty())
}
