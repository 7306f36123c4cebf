//! What NUMA alignment looks at.

use kai_api::names::{gpu, resources, scheduling};
use kai_core::input::Text;
use kai_core::input::pod::{ContainerDemand, ContainerKind, NumaDemand};

use super::request::is_sidecar;
use crate::amounts::Amounts;
use crate::problem::Complaints;
use crate::selectors::non_empty;
use crate::view;

pub(super) fn demand(pod: &view::Pod, complaints: &mut Complaints) -> NumaDemand {
    let annotations = &pod.metadata.annotations;
    let observed = non_empty(annotations.get(scheduling::NUMA_OBSERVED));
    let predicted = || non_empty(annotations.get(scheduling::NUMA_PREDICTED));
    let guaranteed = pod.status.qos_class.as_deref() == Some("Guaranteed");
    // Zones align guaranteed pods, and devices belong to containers: those of other pods are not looked at.
    let looked_at = guaranteed || asks_for_devices(pod);
    let containers = if looked_at { containers(pod, complaints) } else { Vec::new() };
    NumaDemand { guaranteed, containers, recorded_zones: observed.or_else(predicted) }
}

/// A container asks for something that nodes do not have by nature.
fn asks_for_devices(pod: &view::Pod) -> bool {
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    containers
        .flat_map(|container| container.resources.requests.keys())
        .any(|name| name.contains('/'))
}

fn containers(pod: &view::Pod, complaints: &mut Complaints) -> Vec<ContainerDemand> {
    let first = pod.spec.init_containers.iter().enumerate().map(|(at, container)| {
        let kind = if is_sidecar(container) { ContainerKind::Sidecar } else { ContainerKind::Init };
        (kind, "initContainers", at, container)
    });
    let then = pod.spec.containers.iter().enumerate();
    let then = then.map(|(at, container)| (ContainerKind::App, "containers", at, container));
    first
        .chain(then)
        .map(|(kind, list, at, container)| {
            let path = format_args!("spec.{list}[{at}].resources.requests");
            let amounts = Amounts::read(&container.resources.requests, path, complaints);
            ContainerDemand { kind, amounts: by_name(amounts) }
        })
        .collect()
}

/// Amounts by resource name, in the units of a zone.
pub(crate) fn by_name(amounts: Amounts) -> Vec<(Text, i64)> {
    let fixed = [
        (resources::CPU, amounts.cpu_milli),
        (resources::MEMORY, amounts.memory_bytes),
        (gpu::NVIDIA, amounts.gpus),
    ];
    let fixed = fixed.into_iter().map(|(name, amount)| (Text::from(name), amount));
    fixed.chain(amounts.mig).chain(amounts.other).filter(|(_, amount)| *amount != 0).collect()
}
