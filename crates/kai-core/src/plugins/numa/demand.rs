//! What of a pod is aligned. Rule: resources that zones report, less the ignored ones; CPU, memory and huge pages
//! of guaranteed pods only, and CPU of a container only in whole cores. Aligned as a whole a pod asks for the
//! larger of its lasting containers together and its hungriest start; aligned by container, lasting containers
//! share what is free and those that end before are looked at alone. A pod is aligned when it is guaranteed or
//! asks for a device that zones report.

use crate::input::node::NumaScope;
use crate::input::pod::{ContainerKind, GpuRequest};
use crate::input::{PodSpec, Text};
use crate::plugins::numa::Arguments;
use crate::plugins::numa::state::{NumaState, slot_of};
use crate::resources::{CPU, GPU, MEMORY, ResourceNames, ResourceVector};

const WHOLE_CORE: i64 = 1000;
const HUGE_PAGES: &str = "hugepages-";

/// The amounts that are aligned together.
pub(super) struct Demand {
    /// Requests that are drawn one after the other.
    pub(super) lasting: Vec<Amounts>,
    /// Requests that must only be possible.
    pub(super) passing: Vec<Amounts>,
}

/// Aligned amounts by slot; none is zero.
pub(super) type Amounts = Vec<(usize, i64)>;

impl Demand {
    /// What of a pod is aligned on a node; none: nothing is asked of it.
    pub(super) fn of(
        pod: &PodSpec,
        numa: &NumaState,
        arguments: &Arguments,
        names: &ResourceNames,
    ) -> Option<Self> {
        let aligned: Vec<usize> = numa
            .reported
            .iter()
            .filter(|(_, name)| !arguments.ignored.contains(name))
            .filter(|(_, name)| pod.numa.guaranteed || !needs_guarantee(name))
            .map(|(slot, _)| *slot)
            .collect();
        let containers = containers_of(pod, names);
        let amounts_of = |amounts: &ResourceVector| -> Amounts {
            let aligned = aligned.iter().map(|slot| (*slot, amounts.get(*slot)));
            aligned.filter(|(_, amount)| *amount > 0).collect()
        };
        let asks = |container: &(ContainerKind, ResourceVector)| {
            aligned.iter().any(|slot| is_device(*slot, names) && container.1.get(*slot) > 0)
        };
        if !pod.numa.guaranteed && !containers.iter().any(asks) {
            return None;
        }
        Some(match numa.scope {
            NumaScope::Pod => {
                Self { lasting: vec![amounts_of(&whole(&containers))], passing: Vec::new() }
            }
            NumaScope::Container => {
                let of_kind = |passes: bool| {
                    let some = containers
                        .iter()
                        .filter(move |(kind, _)| (*kind == ContainerKind::Init) == passes);
                    some.map(|(_, amounts)| amounts_of(amounts)).collect()
                };
                Self { lasting: of_kind(false), passing: of_kind(true) }
            }
        })
    }
}

/// Whether a node with zones might align the pod.
pub(super) fn may_be_aligned(pod: &PodSpec) -> bool {
    pod.numa.guaranteed
        || matches!(pod.request.gpu, GpuRequest::Whole { count } if count > 0)
        || matches!(pod.request.gpu, GpuRequest::Mig(_))
        || pod.request.other.iter().any(|(name, amount)| *amount > 0 && !needs_guarantee(name))
}

/// CPU, memory and huge pages belong to a zone only for guaranteed pods.
fn needs_guarantee(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn is_device(slot: usize, names: &ResourceNames) -> bool {
    slot == GPU || (slot != CPU && slot != MEMORY && !names.name(slot).starts_with(HUGE_PAGES))
}

fn containers_of(pod: &PodSpec, names: &ResourceNames) -> Vec<(ContainerKind, ResourceVector)> {
    if !pod.numa.containers.is_empty() {
        let containers = pod.numa.containers.iter();
        return containers
            .map(|container| (container.kind, vector(&container.amounts, names)))
            .collect();
    }
    let request = &pod.request;
    let mut amounts = request.other.clone();
    amounts.push(("cpu".into(), request.cpu_milli));
    amounts.push(("memory".into(), request.memory_bytes));
    if let GpuRequest::Mig(instances) = &request.gpu {
        amounts.extend(instances.iter().cloned());
    }
    let mut one = vector(&amounts, names);
    if let GpuRequest::Whole { count } = request.gpu {
        one.add_at(GPU, count);
    }
    vec![(ContainerKind::App, one)]
}

fn vector(amounts: &[(Text, i64)], names: &ResourceNames) -> ResourceVector {
    let mut vector = ResourceVector::zero();
    for (name, amount) in amounts {
        if let Some(slot) = slot_of(name, names) {
            vector.add_at(slot, *amount);
        }
    }
    // Parts of a core come from the pool that all zones share.
    if vector.get(CPU) % WHOLE_CORE != 0 {
        vector.set(CPU, 0);
    }
    vector
}

/// The larger of what lasts and of what starting needs at its peak.
fn whole(containers: &[(ContainerKind, ResourceVector)]) -> ResourceVector {
    let mut lasting = ResourceVector::zero();
    let mut sidecars = ResourceVector::zero();
    let mut peak = ResourceVector::zero();
    for (kind, amounts) in containers {
        match kind {
            ContainerKind::Init => {
                let mut start = sidecars.clone();
                start.add(amounts);
                peak.raise_to(&start);
            }
            ContainerKind::Sidecar => {
                sidecars.add(amounts);
                lasting.add(amounts);
            }
            ContainerKind::App => lasting.add(amounts),
        }
    }
    lasting.raise_to(&peak);
    lasting
}
