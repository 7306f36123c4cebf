//! `MaxNodePoolResources`: a pod that asks for more than the largest node has is refused before any node is tried.
//!
//! Rule: GPUs, then CPU, then memory, then every other resource by name is compared with the most any node
//! of the pool offers; the first that exceeds it is named. Parts of a device count as parts, requests by memory as
//! nothing, MIG instances by profile.

use std::fmt::Write as _;

use crate::fairness::QueueResource;
use crate::fairness::text::shown_amount;
use crate::ids::TaskId;
use crate::resources::{CPU, FIXED_SLOTS, GPU, MEMORY, PODS};
use crate::world::World;
use crate::world::shape::{GpuDemand, Shape};

const STORAGE: [&str; 2] = ["ephemeral-storage", "storage"];
const BYTES_PER_GB: i64 = 1_000_000_000;
/// Resources beyond the fixed ones are counted in thousandths, storage in bytes.
const THOUSANDTHS: i64 = 1000;

/// Why `task` fits no node of the pool, however empty.
pub(super) fn refusal(world: &World, task: TaskId) -> Option<String> {
    let shape = world.shape_of(task);
    let lacking = first_exceeded(world, shape)?;
    let pool = world.config.params.node_pool.as_deref().filter(|pool| !pool.is_empty());
    let pool = pool.unwrap_or("default");
    let name = &world.task(task).spec.name;
    let mut text = format!("The pod {name} requires {}. ", requirement(world, shape));
    // Writing to a string cannot fail.
    let _ = match lacking.most {
        None => {
            write!(text, "No node in the {pool} node-pool has {} resources", lacking.resource)
        }
        Some(most) => write!(
            text,
            "Max {} resources available in a single node in the {pool} node-pool is topped at {most}",
            lacking.resource
        ),
    };
    Some(text)
}

struct Exceeded<'a> {
    resource: &'a str,
    /// The most any node has, with its unit; none where that is nothing, or not reported.
    most: Option<String>,
}

fn first_exceeded<'a>(world: &'a World, shape: &Shape) -> Option<Exceeded<'a>> {
    let most_of = |slot| world.totals.most_of(slot);
    let shown = |slot, resource, unit: &str| {
        let most = most_of(slot);
        (most != 0).then(|| format!("{}{unit}", shown_amount(most as f64, resource)))
    };
    if gpus(shape) > most_of(GPU) as f64 {
        return Some(Exceeded { resource: "GPU", most: shown(GPU, QueueResource::Gpu, "") });
    }
    if shape.request.get(CPU) > most_of(CPU) {
        return Some(Exceeded { resource: "CPU", most: shown(CPU, QueueResource::Cpu, " cores") });
    }
    if shape.request.get(MEMORY) > most_of(MEMORY) {
        let most = shown(MEMORY, QueueResource::Memory, " GB");
        return Some(Exceeded { resource: "memory", most });
    }
    // Names are put in order only where one of the others is exceeded.
    let mut amounts = shape.request.amounts().filter(|(slot, _)| *slot >= PODS);
    if !amounts.any(|(slot, amount)| amount > most_of(slot)) {
        return None;
    }
    let others = world.names.by_name(&shape.request);
    let mut others = others.into_iter().filter(|(slot, _)| *slot >= PODS);
    let (slot, _) = others.find(|(slot, amount)| {
        *amount > most_of(*slot) && !world.may_be_left_to_devices(shape, *slot)
    })?;
    let resource = world.names.name(slot);
    let most =
        if STORAGE.contains(&resource) { shown(slot, QueueResource::Memory, " GB") } else { None };
    Some(Exceeded { resource, most })
}

/// Devices and claimed devices; MIG instances have slots of their own.
fn gpus(shape: &Shape) -> f64 {
    shape.device_centi() as f64 / 100.0 + shape.claimed_gpus as f64
}

/// The request as people read it.
fn requirement(world: &World, shape: &Shape) -> String {
    let slices = if let GpuDemand::Mig { slices, .. } = shape.gpu { slices } else { 0 };
    let mut text = format!(
        "GPU: {}, CPU: {} (cores), memory: {} (GB)",
        shown_amount(gpus(shape) + slices as f64, QueueResource::Gpu),
        shown_amount(shape.request.get(CPU) as f64, QueueResource::Cpu),
        shown_amount(shape.request.get(MEMORY) as f64, QueueResource::Memory),
    );
    let instances: &[(usize, i64)] =
        if let GpuDemand::Mig { instances, .. } = &shape.gpu { instances } else { &[] };
    for (slot, amount) in world.names.by_name(&shape.request) {
        if slot < PODS || instances.iter().any(|(mig, _)| *mig == slot) {
            continue;
        }
        let name = world.names.name(slot);
        // Writing to a string cannot fail.
        let _ = if STORAGE.contains(&name) {
            write!(text, ", {name}: {} (GB)", amount / BYTES_PER_GB)
        } else if slot < FIXED_SLOTS || world.config.compatibility.is_kai() {
            write!(text, ", {name}: {amount}")
        } else {
            let units = amount as f64 / THOUSANDTHS as f64;
            write!(text, ", {name}: {}", shown_amount(units, QueueResource::Gpu))
        };
    }
    for (slot, count) in instances {
        let _ = write!(text, ", mig {}: {count}", world.names.name(*slot));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatibility::Compatibility;
    use crate::config::Config;
    use crate::input::pod::GpuRequest;
    use crate::plugins::predicates::testing::{Cluster, PodBuilder, gpu_node, node, pod};

    const REQUIRES: &str = "The pod ns/p requires ";

    /// The refusal of `pod` where the largest node has 64 cores, 256 GB and one GPU.
    fn answer(pod: PodBuilder) -> Option<String> {
        let mut cluster = Cluster::new();
        cluster.node(node("small"));
        let mut largest = gpu_node("large", 1);
        largest.spec.allocatable.other.push(("ephemeral-storage".into(), 20_000_000_000));
        largest.spec.allocatable.other.push(("example.com/nic".into(), 2_000));
        cluster.node(largest);
        let task = cluster.pod(pod);
        refusal(&cluster.world, task)
    }

    #[test]
    fn what_the_largest_node_has_is_enough() {
        assert_eq!(answer(pod("p").gpus(1).other("example.com/nic", 2_000)), None);
        assert_eq!(answer(pod("p").gpu(GpuRequest::Fraction { portion: 0.5, devices: 2 })), None);
    }

    #[test]
    fn gpus_cpu_and_memory_are_compared_in_this_order() {
        let mut greedy = pod("p").gpus(2);
        greedy.spec.request.cpu_milli = 64_500;
        greedy.spec.request.memory_bytes = 300_000_000_000;
        let required =
            |gpus| format!("{REQUIRES}GPU: {gpus}, CPU: 64.5 (cores), memory: 300 (GB), pods: 1. ");
        let topped = "resources available in a single node in the default node-pool is topped at";
        assert_eq!(
            answer(PodBuilder { spec: greedy.spec.clone() }).unwrap(),
            format!("{}Max GPU {topped} 1", required(2))
        );
        let mut greedy = greedy.gpus(0);
        assert_eq!(
            answer(PodBuilder { spec: greedy.spec.clone() }).unwrap(),
            format!("{}Max CPU {topped} 64 cores", required(0))
        );
        greedy.spec.request.cpu_milli = 1000;
        assert_eq!(
            answer(greedy).unwrap(),
            format!(
                "{REQUIRES}GPU: 0, CPU: 1 (cores), memory: 300 (GB), pods: 1. Max memory {topped} 256 GB"
            )
        );
    }

    #[test]
    fn a_resource_that_no_node_has_is_named() {
        let mut cluster = Cluster::new();
        cluster.node(node("n"));
        let part = cluster.pod(pod("p").gpu(GpuRequest::Fraction { portion: 0.5, devices: 1 }));
        assert_eq!(
            refusal(&cluster.world, part).unwrap(),
            "The pod ns/p requires GPU: 0.5, CPU: 1 (cores), memory: 1 (GB), pods: 1. \
             No node in the default node-pool has GPU resources"
        );
        let mig = GpuRequest::Mig(vec![("nvidia.com/mig-1g.10gb".into(), 1)]);
        let instance = cluster.pod(pod("p").gpu(mig));
        assert_eq!(
            refusal(&cluster.world, instance).unwrap(),
            "The pod ns/p requires GPU: 1, CPU: 1 (cores), memory: 1 (GB), pods: 1, \
             mig nvidia.com/mig-1g.10gb: 1. \
             No node in the default node-pool has nvidia.com/mig-1g.10gb resources"
        );
        let by_memory = cluster.pod(pod("p").gpu(GpuRequest::Memory { mib: 500, devices: 1 }));
        assert_eq!(refusal(&cluster.world, by_memory), None);
    }

    #[test]
    fn the_most_is_reported_for_storage_and_not_for_other_resources() {
        assert_eq!(
            answer(pod("p").other("ephemeral-storage", 25_000_000_000)).unwrap(),
            "The pod ns/p requires GPU: 0, CPU: 1 (cores), memory: 1 (GB), pods: 1, \
             ephemeral-storage: 25 (GB). Max ephemeral-storage resources available in a single \
             node in the default node-pool is topped at 20 GB"
        );
        assert_eq!(
            answer(pod("p").other("example.com/nic", 3_000)).unwrap(),
            "The pod ns/p requires GPU: 0, CPU: 1 (cores), memory: 1 (GB), pods: 1, \
             example.com/nic: 3. No node in the default node-pool has example.com/nic resources"
        );
    }

    #[test]
    fn kai_shows_thousandths_and_the_pool_is_named() {
        let mut config = Config { compatibility: Compatibility::Kai, ..Config::default() };
        config.params.node_pool = Some("blue".into());
        let mut cluster = Cluster::of(config);
        cluster.node(node("n"));
        let task = cluster.pod(pod("p").other("example.com/nic", 3_000));
        let text = refusal(&cluster.world, task).unwrap();
        assert!(text.contains(", example.com/nic: 3000. No node in the blue node-pool"), "{text}");
    }

    #[test]
    fn without_nodes_nothing_fits() {
        let mut cluster = Cluster::new();
        let task = cluster.pod(pod("p"));
        let text = refusal(&cluster.world, task).unwrap();
        assert!(text.ends_with("No node in the default node-pool has CPU resources"), "{text}");
    }
}
