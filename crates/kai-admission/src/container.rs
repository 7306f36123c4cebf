//! Containers of a pod: which one gets the shared device, and what it asks for.

use std::collections::BTreeMap;

use kai_api::gpu_request::{GpuAnnotations, GpuReading, GpuResources};
use kai_api::names::gpu;
use kai_api::quantity::Quantity;
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
        let Some(name) = gpu_annotations(pod).container() else {
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

/// Annotations of the pod that request GPUs.
pub(super) fn gpu_annotations(pod: &Pod) -> GpuAnnotations<'_> {
    pod.metadata.annotations.as_ref().map(GpuAnnotations::of).unwrap_or_default()
}

/// The pod requests a share of devices, whether or not it can be read.
pub(super) fn is_fractional(pod: &Pod) -> bool {
    gpu_annotations(pod).request_share()
}

/// The GPU request of the pod.
pub(super) fn gpu_request(pod: &Pod) -> GpuReading {
    let mut resources = GpuResources::default();
    for container in pod.containers(true).iter().chain(pod.containers(false)) {
        let Some(own) = &container.resources else { continue };
        let named = |list: &Option<BTreeMap<String, Value>>| {
            let list = list.iter().flatten().filter(|(_, amount)| !amount.is_null());
            list.map(|(name, amount)| (name.clone(), whole_amount(amount))).collect::<Vec<_>>()
        };
        for (name, amount) in named(&own.requests) {
            resources.add(&name, amount);
        }
        for (name, _) in named(&own.limits) {
            resources.add(&name, 0);
        }
        resources.has_claims |= own.claims.as_ref().is_some_and(|claims| !claims.is_empty());
    }
    gpu_annotations(pod).read(resources)
}

fn whole_amount(amount: &Value) -> i64 {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    Quantity::parse(&text).map_or(0, |quantity| quantity.value())
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
