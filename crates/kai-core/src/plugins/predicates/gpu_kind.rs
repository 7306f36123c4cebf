//! Whether the node offers the kind of GPUs the pod asks for, and whether enough is known about them.
//!
//! Rules in order: pods that ask for MIG by annotation fit no node. Pods without GPUs fit any. GPU fractions
//! are not cut from devices offered through claims. MIG instances come from MIG nodes without legacy MIG pods;
//! a node that offers instances as whole GPUs takes whole-GPU pods only, one that offers them by profile takes MIG
//! pods only. Requests by memory need a node that reports the memory of its devices. A time-sliced node that does
//! not report how many devices it has shares none: each advertised replica might be the same card. One of whose devices
//! more was given away than there is, by a scheduler that took replicas for devices, takes no more pods with GPUs: any
//! replica might be of that card.

use std::fmt::Write as _;

use super::texts;
use crate::ids::TaskId;
use crate::report::refusal::{NodeRefusal, Rule};
use crate::resources::GPU;
use crate::world::World;
use crate::world::gpu_facts::Sharing;
use crate::world::node::{GpuGroup, Mig, Node};
use crate::world::shape::{GpuDemand, Shape};

/// The rules for a pod that asks for GPUs in any way.
pub(super) fn check(
    world: &World,
    task: TaskId,
    shape: &Shape,
    node: &Node,
) -> Result<(), NodeRefusal> {
    if shape.legacy_mig {
        let text = format!("Legacy MIG jobs cannot be scheduled on node {}", node.name());
        return Err(NodeRefusal::rule(Rule::GpuKind, text));
    }
    if shape.is_cpu_only() {
        return Ok(());
    }
    check_kind(world, shape, node)?;
    check_facts(world, task, shape, node)
}

fn check_kind(world: &World, shape: &Shape, node: &Node) -> Result<(), NodeRefusal> {
    let is_mig = shape.is_mig();
    let is_shared = shape.is_shared();
    if is_shared && node.claimable_gpus > 0 {
        return Err(texts::SHARED_ON_CLAIMED_GPUS.refusal());
    }
    if node.mig == Mig::Off {
        return if is_mig { Err(texts::MIG_ON_PLAIN_NODE.refusal()) } else { Ok(()) };
    }
    if is_mig && !node.legacy_mig_residents.is_empty() {
        return Err(legacy_pods_refuse(world, node));
    }
    match node.mig {
        Mig::Single if is_mig || is_shared => Err(texts::ONLY_WHOLE_GPUS.refusal()),
        Mig::Mixed if !is_mig => Err(texts::ONLY_MIG.refusal()),
        Mig::Off | Mig::Plain | Mig::Single | Mig::Mixed => Ok(()),
    }
}

fn legacy_pods_refuse(world: &World, node: &Node) -> NodeRefusal {
    let mut text = String::from("MIG job cannot be scheduled on node with legacy MIG jobs: <[");
    for (at, pod) in node.legacy_mig_residents.iter().enumerate() {
        let separator = if at == 0 { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}", world.task(*pod).spec.name);
    }
    text.push_str("]>");
    NodeRefusal::rule(Rule::GpuKind, text)
}

fn check_facts(world: &World, task: TaskId, shape: &Shape, node: &Node) -> Result<(), NodeRefusal> {
    if matches!(shape.gpu, GpuDemand::Memory { .. }) && !node.gpus.memory_known {
        let advice = if world.config.compatibility.is_kai() || node.gpus.advertised == 0 {
            ""
        } else {
            ": label it nvidia.com/gpu.memory=<MiB of each GPU>"
        };
        let text = format!(
            "node is not a gpu node or the gpu memory count on the node was not synced yet, \
             task: <{}>, node: <{}>{advice}",
            world.task(task).spec.name,
            node.name(),
        );
        return Err(NodeRefusal::rule(Rule::GpuMemoryUnknown, text));
    }
    if shape.is_shared() && node.gpus.sharing == Sharing::UnknownDeviceCount {
        return Err(texts::DEVICE_COUNT_UNKNOWN.refusal());
    }
    if !world.config.compatibility.is_kai() && is_oversold(node) {
        return Err(texts::OVERSOLD.refusal());
    }
    Ok(())
}

/// More is in use than there is, releasing pods not counted.
fn is_oversold(node: &Node) -> bool {
    if !node.gpus.is_time_sliced() || node.groups.is_empty() {
        return false;
    }
    let is_full = |group: &GpuGroup| {
        group.allocated_mib - group.releasing_mib > node.gpus.usable_mib(group.kind)
    };
    node.available(GPU) < 0 || node.groups.iter().any(is_full)
}

/// GPU pods on GPU workers, others on CPU workers, where nodes are kept apart.
pub(super) fn check_worker(
    world: &World,
    task: TaskId,
    shape: &Shape,
    node: &Node,
) -> Result<(), NodeRefusal> {
    let labels = &world.config.params.worker_labels;
    let (label, kind) =
        if shape.is_cpu_only() { (&labels.cpu, "cpu") } else { (&labels.gpu, "gpu") };
    if node.spec.labels.contains_key(label) {
        return Ok(());
    }
    let text = format!(
        "{kind} task: <{}> can't run on non {kind} nodes, node: <{}>",
        world.task(task).spec.name,
        node.name(),
    );
    Err(NodeRefusal::rule(Rule::WorkerKind, text))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::input::pod::GpuRequest;
    use crate::plugins::predicates::testing::{
        Cluster, NodeBuilder, PodBuilder, gpu_node, node, pod, text_of,
    };
    use crate::report::refusal::{NodeRefusal, Rule};

    fn mig_node(strategy: &str) -> NodeBuilder {
        let mut node = gpu_node("n", 4)
            .label("node-role.kubernetes.io/mig-enabled", "true")
            .label("nvidia.com/mig.strategy", strategy);
        node.spec.allocatable.mig.push(("nvidia.com/mig-1g.5gb".into(), 7));
        node
    }

    fn fraction() -> PodBuilder {
        pod("p").gpu(GpuRequest::Fraction { portion: 0.5, devices: 1 })
    }

    fn memory() -> PodBuilder {
        pod("p").gpu(GpuRequest::Memory { mib: 500, devices: 1 })
    }

    fn mig() -> PodBuilder {
        pod("p").gpu(GpuRequest::Mig(vec![("nvidia.com/mig-1g.5gb".into(), 1)]))
    }

    fn known(node: NodeBuilder) -> NodeBuilder {
        node.label("nvidia.com/gpu.memory", "16000")
    }

    fn answer(node: NodeBuilder, pod: PodBuilder) -> Option<String> {
        let mut cluster = Cluster::new();
        cluster.node(node);
        let task = cluster.pod(pod);
        cluster.refusal(task, "n")
    }

    #[test]
    fn the_kind_of_gpus_decides() {
        let mixed = "non MIG jobs cant run on a node with MigStrategy='mixed'";
        let single = "only whole gpu jobs can run on a node with MigStrategy='single'";
        let cases: [(&str, NodeBuilder, PodBuilder, Option<&str>); 18] = [
            ("whole, mixed", mig_node("mixed"), pod("p").gpus(1), Some(mixed)),
            ("part, mixed", mig_node("mixed"), fraction(), Some(mixed)),
            ("memory, mixed", mig_node("mixed"), memory(), Some(mixed)),
            ("instance, mixed", mig_node("mixed"), mig(), None),
            ("no GPU, mixed", mig_node("mixed"), pod("p"), None),
            ("whole, single", mig_node("single"), pod("p").gpus(1), None),
            ("part, single", mig_node("single"), fraction(), Some(single)),
            ("memory, single", mig_node("single"), memory(), Some(single)),
            ("instance, single", mig_node("single"), mig(), Some(single)),
            ("no GPU, single", mig_node("single"), pod("p"), None),
            ("whole, no strategy", mig_node("none"), pod("p").gpus(1), None),
            ("instance, no strategy", mig_node("none"), mig(), None),
            ("part, no strategy", mig_node("none"), fraction(), None),
            ("whole, plain", gpu_node("n", 4), pod("p").gpus(1), None),
            ("part, plain", gpu_node("n", 4), fraction(), None),
            ("memory, plain", known(gpu_node("n", 4)), memory(), None),
            (
                "instance, plain",
                gpu_node("n", 4),
                mig(),
                Some("MIG job cannot be scheduled on non-MIG node"),
            ),
            ("no GPU, plain", gpu_node("n", 4), pod("p"), None),
        ];
        for (name, node, pod, expected) in cases {
            assert_eq!(answer(node, pod).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn mig_by_annotation_goes_nowhere_and_keeps_other_mig_pods_away() {
        let mut cluster = Cluster::new();
        cluster.node(mig_node("mixed"));
        let legacy = cluster.pod(mig().named("legacy").legacy_mig().on("n"));
        assert_eq!(
            cluster.refusal(legacy, "n").unwrap(),
            "Legacy MIG jobs cannot be scheduled on node n"
        );
        let other = cluster.pod(mig());
        assert_eq!(
            cluster.refusal(other, "n").unwrap(),
            "MIG job cannot be scheduled on node with legacy MIG jobs: <[ns/legacy]>"
        );
    }

    #[test]
    fn memory_needs_a_node_that_reports_its_memory() {
        assert_eq!(
            answer(gpu_node("n", 4), memory()).unwrap(),
            "node is not a gpu node or the gpu memory count on the node was not synced yet, \
             task: <ns/p>, node: <n>: label it nvidia.com/gpu.memory=<MiB of each GPU>"
        );
        let mut silent = known(gpu_node("n", 4));
        silent.spec.gpu_memory_known = Some(false);
        assert!(answer(silent, memory()).is_some());
        assert_eq!(answer(gpu_node("n", 4), fraction()), None);
    }

    #[test]
    fn a_time_sliced_node_of_unknown_devices_shares_none() {
        let sliced = || gpu_node("n", 10).label("nvidia.com/gpu.product", "A100-SHARED");
        assert!(answer(sliced(), fraction()).unwrap().contains("how many physical GPUs"));
        assert_eq!(answer(sliced(), pod("p").gpus(1)), None);
        assert_eq!(answer(sliced().label("nvidia.com/gpu.count", "2"), fraction()), None);
    }

    #[test]
    fn a_time_sliced_node_that_was_oversold_takes_nothing_more() {
        let sliced = || known(gpu_node("n", 10)).label("nvidia.com/gpu.count", "1");
        let tenant = |name: &str, group: &str, mib| {
            let pod = pod(name).gpu(GpuRequest::Memory { mib, devices: 1 });
            pod.sharing(group).on("n")
        };
        let mut cluster = Cluster::new();
        cluster.node(sliced());
        cluster.pod(tenant("a", "one", 4000));
        let asks = cluster.pod(memory());
        assert_eq!(cluster.refusal(asks, "n"), None);
        // Two groups where there is one device: each fits by its own account.
        cluster.pod(tenant("b", "two", 4000));
        assert!(cluster.refusal(asks, "n").unwrap().contains("more of their GPUs was given away"));
        let mut cluster = Cluster::new();
        cluster.node(sliced());
        cluster.pod(tenant("a", "one", 12_000));
        cluster.pod(tenant("b", "one", 12_000));
        let asks = cluster.pod(pod("p").gpus(1));
        assert!(cluster.refusal(asks, "n").unwrap().contains("more of their GPUs was given away"));
    }

    #[test]
    fn workers_are_kept_apart_only_where_configured() {
        let mut config = Config::default();
        config.params.restrict_node_scheduling = true;
        let mut cluster = Cluster::of(config);
        cluster.node(gpu_node("gpu", 1).label("node-role.kubernetes.io/gpu-worker", ""));
        cluster.node(node("cpu").label("node-role.kubernetes.io/cpu-worker", ""));
        let with_gpu = cluster.pod(pod("a").gpus(1));
        let without = cluster.pod(pod("b"));
        assert_eq!(cluster.refusal(with_gpu, "gpu"), None);
        assert_eq!(
            cluster.refusal(with_gpu, "cpu").unwrap(),
            "gpu task: <ns/a> can't run on non gpu nodes, node: <cpu>"
        );
        assert_eq!(cluster.refusal(without, "cpu"), None);
        assert_eq!(
            cluster.refusal(without, "gpu").unwrap(),
            "cpu task: <ns/b> can't run on non cpu nodes, node: <gpu>"
        );
    }

    #[test]
    fn refusals_carry_their_rule() {
        let mut cluster = Cluster::new();
        cluster.node(gpu_node("n", 1));
        let task = cluster.pod(mig());
        let refusal = cluster.check(task, "n").unwrap_err();
        assert!(matches!(&refusal, NodeRefusal::Rule { rule: Rule::GpuKind, .. }));
        assert!(text_of(&refusal).starts_with("MIG job"));
    }
}
