//! What a pod asks for: the sum of its containers and sidecars, or the peak of its init containers.
//!
//! A container that is resized in place counts with the largest of what it asks for, what its node has set aside for it and
//! what it runs with, until the kubelet confirms the new size. A size that the node can never give does not count.

use std::fmt;

use kai_core::input::Text;
use kai_core::input::pod::PodRequest;

use super::gpu;
use crate::amounts::Amounts;
use crate::problem::Complaints;
use crate::view;

pub(super) fn request(pod: &view::Pod, complaints: &mut Complaints) -> PodRequest {
    let mut amounts = Amounts::default();
    for (at, container) in pod.spec.containers.iter().enumerate() {
        let path = format_args!("spec.containers[{at}]");
        amounts.add(&container_request(pod, container, path, complaints));
    }
    let mut sidecars = Amounts::default();
    let mut peak = Amounts::default();
    for (at, container) in pod.spec.init_containers.iter().enumerate() {
        let path = format_args!("spec.initContainers[{at}]");
        let mut own = container_request(pod, container, path, complaints);
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
    let wanted = gpu::request(pod, &amounts, complaints);
    PodRequest {
        cpu_milli: amounts.cpu_milli,
        memory_bytes: amounts.memory_bytes,
        other: amounts.other.into_iter().collect(),
        gpu: wanted.gpu,
        overhead: named(overhead),
        legacy_mig: wanted.legacy_mig,
        compute_mode: wanted.compute_mode,
    }
}

/// An init container that keeps running.
pub(super) fn is_sidecar(container: &view::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What a container counts with.
fn container_request(
    pod: &view::Pod,
    container: &view::Container,
    path: fmt::Arguments<'_>,
    complaints: &mut Complaints,
) -> Amounts {
    let path = format_args!("{path}.resources.requests");
    let mut asked = Amounts::read(&container.resources.requests, path, complaints);
    let Some(status) = status_of(pod, container) else { return asked };
    let mut current = Amounts::default();
    for list in [&status.allocated_resources, &status.resources.requests] {
        current.raise_to(&Amounts::read(list, "status.containerStatuses", complaints));
    }
    if is_resize_infeasible(pod) {
        // The other resources cannot be resized.
        if !status.allocated_resources.is_empty() {
            (asked.cpu_milli, asked.memory_bytes) = (current.cpu_milli, current.memory_bytes);
        }
    } else {
        asked.cpu_milli = asked.cpu_milli.max(current.cpu_milli);
        asked.memory_bytes = asked.memory_bytes.max(current.memory_bytes);
    }
    asked
}

/// Status of a container, where it says with which resources the container runs.
fn status_of<'a>(
    pod: &'a view::Pod,
    container: &view::Container,
) -> Option<&'a view::ContainerStatus> {
    let statuses = &pod.status;
    let mut all = statuses.container_statuses.iter().chain(&statuses.init_container_statuses);
    all.find(|status| status.name == container.name)
}

/// The node can never give the size that is asked for.
fn is_resize_infeasible(pod: &view::Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.any(|condition| {
        condition.type_ == "PodResizePending"
            && condition.status == "True"
            && condition.reason == "Infeasible"
    })
}

fn named(amounts: Amounts) -> Vec<(Text, i64)> {
    let fixed = [("cpu", amounts.cpu_milli), ("memory", amounts.memory_bytes)];
    let fixed = fixed.into_iter().filter(|(_, amount)| *amount != 0);
    fixed.map(|(name, amount)| (name.into(), amount)).chain(amounts.other).collect()
}
