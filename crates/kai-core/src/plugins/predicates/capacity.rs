//! Whether the pod's queue may hold what the pod would cost on a node.
//!
//! Rule: CPU and memory as requested; GPUs are the MIG slices of a MIG request, else for each device the part of
//! the node's device memory that the pod takes, rounded up to hundredths. KAI derives that part from truncated
//! float memory (0.28 of a device becomes 0.29) and forgets GPUs asked for through claims (fault 17); the exact
//! cost is what the placement will be charged with.

use crate::compatibility::Compatibility;
use crate::fairness::{Amounts, CapacityViolation, QueueResource, check_capacity};
use crate::ids::{QueueId, TaskId};
use crate::input::node::WholeGpuPolicy;
use crate::report::refusal::NodeRefusal;
use crate::resources::{CPU, MEMORY};
use crate::world::World;
use crate::world::node::Node;
use crate::world::shape::{GpuDemand, Shape};

/// The queue's answer for one pod, as far as it is the same on all nodes.
#[derive(Clone, Debug)]
pub(super) struct QueueCapacity {
    queue: QueueId,
    preemptible: bool,
    /// The answer on nodes where the pod costs the usual.
    usual: Result<(), CapacityViolation>,
    /// The same for each type of GPU that a queue has a bound for.
    usual_by_type: Vec<Result<(), NodeRefusal>>,
}

impl QueueCapacity {
    /// The question for `task`; none where queues have no bounds or the pod has no queue.
    pub(super) fn new(world: &World, task: TaskId) -> Option<Self> {
        world.policy.proportion?;
        let job = world.task(task).job?;
        let queue = world.job(job).queue?;
        let preemptible = world.asks_beyond_quota(job, &[task]);
        let cost = usual_cost(world.shape_of(task), world.config.compatibility);
        let usual = check_capacity(&world.tree, queue, &cost, preemptible);
        let gpus = cost[QueueResource::Gpu];
        let types = 0..world.gpu_types.len();
        let usual_by_type = types.map(|at| world.check_gpu_type(at, queue, gpus)).collect();
        Some(Self { queue, preemptible, usual, usual_by_type })
    }

    /// Whether the queue may hold more GPUs of the node's type.
    #[inline]
    pub(super) fn check_type(
        &self,
        world: &World,
        shape: &Shape,
        node: &Node,
    ) -> Result<(), NodeRefusal> {
        if self.usual_by_type.is_empty() {
            return Ok(());
        }
        let Some(at) = world.gpu_type_of(node) else { return Ok(()) };
        let compatibility = world.config.compatibility;
        if !depends_on_node(shape, node, compatibility) {
            return self.usual_by_type.get(at).cloned().unwrap_or(Ok(()));
        }
        let cost = cost_on(shape, node, compatibility);
        world.check_gpu_type(at, self.queue, cost[QueueResource::Gpu])
    }

    /// Whether the pod, at its cost on `node`, fits the bounds of the queue.
    #[inline]
    pub(super) fn check(
        &self,
        world: &World,
        shape: &Shape,
        node: &Node,
    ) -> Result<(), CapacityViolation> {
        let compatibility = world.config.compatibility;
        if !depends_on_node(shape, node, compatibility) {
            return self.usual;
        }
        let cost = cost_on(shape, node, compatibility);
        check_capacity(&world.tree, self.queue, &cost, self.preemptible)
    }
}

#[inline]
fn depends_on_node(shape: &Shape, node: &Node, compatibility: Compatibility) -> bool {
    match shape.gpu {
        GpuDemand::None | GpuDemand::Mig { .. } => false,
        GpuDemand::Memory { .. } => true,
        GpuDemand::Portion { .. } => compatibility.is_kai(),
        GpuDemand::Whole { .. } => node.gpus.whole_gpu_policy == WholeGpuPolicy::Replica,
    }
}

/// The cost where the node's devices make no difference.
fn usual_cost(shape: &Shape, compatibility: Compatibility) -> Amounts {
    let devices = shape.device_centi() as f64 / 100.0;
    amounts(shape, devices + gpus_beside_devices(shape, compatibility))
}

/// The cost on `node`, whose device memory decides.
fn cost_on(shape: &Shape, node: &Node, compatibility: Compatibility) -> Amounts {
    let mib = node.device_mib(shape, compatibility);
    let devices = match shape.gpu {
        GpuDemand::Whole { count } => {
            let replica_mib = node.gpus.memory_mib / node.gpus.replicas();
            (centi(node, replica_mib) * count) as f64 / 100.0
        }
        GpuDemand::Memory { devices, .. } | GpuDemand::Portion { devices, .. }
            if compatibility.is_kai() =>
        {
            // The count multiplies the rounded part, as KAI does it, so the last bit is KAI's too.
            devices as f64 * (centi(node, mib) as f64 / 100.0)
        }
        GpuDemand::Memory { devices, .. } => (centi(node, mib) * devices) as f64 / 100.0,
        GpuDemand::None | GpuDemand::Portion { .. } | GpuDemand::Mig { .. } => {
            shape.device_centi() as f64 / 100.0
        }
    };
    amounts(shape, devices + gpus_beside_devices(shape, compatibility))
}

fn centi(node: &Node, mib: i64) -> i64 {
    if node.gpus.memory_mib > 0 { node.gpus.centi_of_memory(mib) } else { 0 }
}

/// MIG slices and claimed devices. KAI counts claims only beside MIG.
fn gpus_beside_devices(shape: &Shape, compatibility: Compatibility) -> f64 {
    let claimed = shape.claimed_gpus as f64;
    match shape.gpu {
        GpuDemand::Mig { slices, .. } => slices as f64 + claimed,
        _ if compatibility.is_kai() => 0.0,
        _ => claimed,
    }
}

fn amounts(shape: &Shape, gpus: f64) -> Amounts {
    Amounts::new(shape.request.get(CPU) as f64, shape.request.get(MEMORY) as f64, gpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fairness::ViolationKind;
    use crate::input::node::WholeGpuPolicy;
    use crate::input::pod::GpuRequest;
    use crate::input::pod_group::Preemptibility;
    use crate::plugins::predicates::testing::{Cluster, gpu_node, pod, queue};
    use crate::plugins::predicates::{TaskContext, check_node};

    fn gpu_cost(request: GpuRequest, memory: &str, compatibility: Compatibility) -> f64 {
        let mut cluster = Cluster::with(compatibility);
        cluster.node(gpu_node("n", 4).label("nvidia.com/gpu.memory", memory));
        let task = cluster.pod(pod("p").gpu(request));
        let world = &cluster.world;
        let node = world.node(world.node_named("n").unwrap());
        let shape = world.shape_of(task);
        let cost = if depends_on_node(shape, node, compatibility) {
            cost_on(shape, node, compatibility)
        } else {
            usual_cost(shape, compatibility)
        };
        cost[QueueResource::Gpu]
    }

    #[test]
    fn kai_rounds_parts_of_devices_through_memory() {
        let cost = |portion, devices, mode| {
            gpu_cost(GpuRequest::Fraction { portion, devices }, "16000", mode)
        };
        for (portion, noisy) in [(0.07, 0.08), (0.28, 0.29), (0.55, 0.56), (0.5, 0.5)] {
            assert_eq!(cost(portion, 1, Compatibility::Kai), noisy, "{portion}");
            assert_eq!(cost(portion, 1, Compatibility::Right), portion, "{portion}");
        }
        assert_eq!(cost(0.5, 3, Compatibility::Kai), 1.5);
        assert_eq!(cost(0.5, 3, Compatibility::Right), 1.5);
    }

    #[test]
    fn memory_counts_as_the_part_of_the_nodes_devices() {
        let request = GpuRequest::Memory { mib: 4001, devices: 2 };
        assert_eq!(gpu_cost(request.clone(), "16000", Compatibility::Right), 0.52);
        assert_eq!(gpu_cost(request.clone(), "8000", Compatibility::Right), 1.02);
        assert_eq!(gpu_cost(request, "16000", Compatibility::Kai), 0.52);
    }

    #[test]
    fn whole_devices_and_mig_slices_cost_the_same_everywhere() {
        for mode in [Compatibility::Right, Compatibility::Kai] {
            assert_eq!(gpu_cost(GpuRequest::Whole { count: 3 }, "16000", mode), 3.0);
            let mig = GpuRequest::Mig(vec![("nvidia.com/mig-3g.20gb".into(), 2)]);
            assert_eq!(gpu_cost(mig, "16000", mode), 6.0);
        }
    }

    #[test]
    fn replicas_cost_their_part_of_a_device() {
        let mut cluster = Cluster::new();
        let mut node = gpu_node("n", 8).label("nvidia.com/gpu.memory", "16000");
        node = node.label("nvidia.com/gpu.count", "2");
        node.spec.whole_gpu_policy = Some(WholeGpuPolicy::Replica);
        cluster.node(node);
        let task = cluster.pod(pod("p").gpus(2));
        let node = cluster.world.node(cluster.world.node_named("n").unwrap());
        let cost = cost_on(cluster.world.shape_of(task), node, Compatibility::Right);
        assert_eq!(cost[QueueResource::Gpu], 0.5);
    }

    #[test]
    fn a_queue_at_its_limit_refuses_every_node() {
        let mut cluster = Cluster::new();
        cluster.queue(queue("q").limit_gpus(2.0));
        cluster.job("job", "q", 1, Preemptibility::Preemptible);
        cluster.node(gpu_node("n", 8));
        let task = cluster.pod(pod("p").of("job").gpus(3));
        let node = cluster.world.node_named("n").unwrap();
        let refusal = check_node(&cluster.world, task, node, 0).unwrap_err();
        let NodeRefusal::QueueCapacity(violation) = refusal else { panic!("{refusal:?}") };
        assert_eq!(violation.kind, ViolationKind::OverLimit);
        assert_eq!((violation.bound, violation.requested), (2.0, 3.0));
    }

    #[test]
    fn without_the_proportion_plugin_queues_have_no_bounds() {
        let mut config = crate::config::Config::default();
        config.plugins.retain(|plugin| &*plugin.name != "proportion");
        let mut cluster = Cluster::of(config);
        cluster.queue(queue("q").limit_gpus(0.0));
        cluster.job("job", "q", 1, Preemptibility::NonPreemptible);
        cluster.node(gpu_node("n", 8));
        let task = cluster.pod(pod("p").of("job").gpus(3));
        let context = TaskContext::new(&cluster.world, task);
        let node = cluster.world.node_named("n").unwrap();
        assert!(context.check_node(&cluster.world, node, 0).is_ok());
    }

    #[test]
    fn what_may_not_be_preempted_must_fit_the_quota() {
        let mut cluster = Cluster::new();
        cluster.queue(queue("q").quota_gpus(1.0));
        cluster.job("job", "q", 1, Preemptibility::NonPreemptible);
        cluster.node(gpu_node("n", 8));
        let task = cluster.pod(pod("p").of("job").gpus(2));
        let node = cluster.world.node_named("n").unwrap();
        let refusal = check_node(&cluster.world, task, node, 0).unwrap_err();
        let NodeRefusal::QueueCapacity(violation) = refusal else { panic!("{refusal:?}") };
        assert_eq!(violation.kind, ViolationKind::NonPreemptibleOverQuota);
    }
}
