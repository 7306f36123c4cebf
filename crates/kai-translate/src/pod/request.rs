//! What a pod asks for: the sum of its containers and sidecars, or the peak of its init containers.

use kai_core::input::Text;
use kai_core::input::pod::PodRequest;

use super::gpu;
use crate::amounts::Amounts;
use crate::problem::Complaints;
use crate::view;

pub(super) fn request(pod: &view::Pod, complaints: &mut Complaints) -> PodRequest {
    let mut amounts = Amounts::default();
    for (at, container) in pod.spec.containers.iter().enumerate() {
        amounts.add(&container_request(container, "containers", at, complaints));
    }
    let mut sidecars = Amounts::default();
    let mut peak = Amounts::default();
    for (at, container) in pod.spec.init_containers.iter().enumerate() {
        let mut own = container_request(container, "initContainers", at, complaints);
        if is_sidecar(container) {
            sidecars.add(&own);
        } else {
            own.add(&sidecars);
            peak.raise_to(&own);
        }
    }
    amounts.add(&sidecars);
    amounts.raise_to(&peak);
    let mut overhead = Amounts::read(&pod.spec.overhead, "spec.overhead", complaints);
    (overhead.gpus, overhead.pods) = (0, 0);
    overhead.mig.clear();
    amounts.add(&overhead);
    let wanted = gpu::request(pod, amounts.gpus, amounts.mig, complaints);
    PodRequest {
        cpu_milli: amounts.cpu_milli,
        memory_bytes: amounts.memory_bytes,
        other: amounts.other.into_iter().collect(),
        gpu: wanted.gpu,
        overhead: named(overhead),
        legacy_mig: wanted.legacy_mig,
    }
}

/// An init container that keeps running.
pub(super) fn is_sidecar(container: &view::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn container_request(
    container: &view::Container,
    list: &str,
    at: usize,
    complaints: &mut Complaints,
) -> Amounts {
    let path = format!("spec.{list}[{at}].resources.requests");
    Amounts::read(&container.resources.requests, &path, complaints)
}

fn named(amounts: Amounts) -> Vec<(Text, i64)> {
    let fixed = [("cpu", amounts.cpu_milli), ("memory", amounts.memory_bytes)];
    let fixed = fixed.into_iter().filter(|(_, amount)| *amount != 0);
    fixed.map(|(name, amount)| (name.into(), amount)).chain(amounts.other).collect()
}
