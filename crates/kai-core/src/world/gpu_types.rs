//! What queues hold of each type of GPU that some queue has a bound for.
//!
//! The type of a GPU is its node's label `nvidia.com/gpu.product`. A limit is never exceeded. A quota is kept for its queue:
//! what takes a queue above its quota of a type leaves free what other queues do not use of theirs.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{NodeId, QueueId, TaskId};
use crate::input::Text;
use crate::report::refusal::{NodeRefusal, Rule};
use crate::world::World;
use crate::world::gpu_facts::GPU_PRODUCT;
use crate::world::node::Node;
use crate::world::undo::Undo;

/// One type of GPU.
#[derive(Clone, Debug)]
pub(crate) struct GpuTypeAccount {
    product: Text,
    /// Hundredths of GPUs that queues can hold in all.
    capacity_centi: i64,
    /// Hundredths of GPUs that each queue and the queues below it hold.
    allocated_centi: Vec<i64>,
    /// Hundredths of GPUs that a queue holds at most.
    limits_centi: BTreeMap<QueueId, i64>,
    /// Hundredths of GPUs that are kept for a queue.
    quotas_centi: BTreeMap<QueueId, i64>,
}

impl World {
    /// Opens the accounts of all types that a queue has a bound for. KAI knows no such bounds.
    pub(crate) fn load_gpu_types(&mut self) {
        self.gpu_types.clear();
        if self.config.compatibility.is_kai() {
            return;
        }
        let bounds = self.queue_specs.iter().flat_map(|spec| &spec.gpu_types);
        let products: BTreeSet<Text> = bounds.map(|bound| bound.product.clone()).collect();
        for product in products {
            let account = self.open_account(product);
            self.gpu_types.push(account);
        }
    }

    fn open_account(&self, product: Text) -> GpuTypeAccount {
        let queues = self.tree.queues.len();
        let mut account = GpuTypeAccount {
            product,
            capacity_centi: 0,
            allocated_centi: vec![0; queues],
            limits_centi: BTreeMap::new(),
            quotas_centi: BTreeMap::new(),
        };
        for (at, spec) in self.queue_specs.iter().enumerate() {
            let queue = QueueId::new(at);
            let bound = spec.gpu_types.iter().find(|bound| bound.product == account.product);
            if let Some(bound) = bound.filter(|_| self.tree.node(queue).live) {
                account.limits_centi.extend(bound.limit.map(|gpus| (queue, centi(gpus))));
                account.quotas_centi.extend(bound.quota.map(|gpus| (queue, centi(gpus))));
            }
        }
        for node in self.nodes.iter().filter(|node| node.live) {
            if !account.is_of(node) {
                continue;
            }
            account.capacity_centi += Node::total_gpus(&node.allocatable, &self.names) * 100;
            for resident in &node.residents {
                let task = self.task(resident.task);
                let gpus = task.state.accepted.gpu_centi;
                match task.job.and_then(|job| self.job(job).queue) {
                    Some(queue) if self.is_charged(resident.status) => {
                        for queue in self.tree.chain(queue) {
                            account.allocated_centi[queue.index()] += gpus;
                        }
                    }
                    Some(_) => {}
                    None => account.capacity_centi -= gpus,
                }
            }
        }
        account
    }

    /// Adds what a task holds on a node, or takes it back, in its queue and those above it.
    pub(crate) fn charge_gpu_type(&mut self, task: TaskId, node: NodeId, sign: i64) {
        if self.gpu_types.is_empty() {
            return;
        }
        let entry = &self.tasks[task.index()];
        let queue = entry.job.and_then(|job| self.jobs[job.index()].queue);
        let gpus = entry.state.accepted.gpu_centi;
        let node = &self.nodes[node.index()];
        let account = self.gpu_types.iter_mut().enumerate().find(|(_, one)| one.is_of(node));
        let (Some(queue), Some((at, account))) = (queue, account) else { return };
        for queue in self.tree.chain(queue) {
            let allocated = &mut account.allocated_centi[queue.index()];
            self.log.push(Undo::GpuType(at, queue, *allocated));
            *allocated += sign * gpus;
        }
    }

    /// Takes a change of an account back.
    pub(crate) fn restore_gpu_type(&mut self, at: usize, queue: QueueId, allocated_centi: i64) {
        if let Some(account) = self.gpu_types.get_mut(at) {
            account.allocated_centi[queue.index()] = allocated_centi;
        }
    }

    /// The account of the type of a node's GPUs.
    pub(crate) fn gpu_type_of(&self, node: &Node) -> Option<usize> {
        self.gpu_types.iter().position(|account| account.is_of(node))
    }

    /// Whether a queue may hold this many more GPUs of a type.
    pub(crate) fn check_gpu_type(
        &self,
        at: usize,
        queue: QueueId,
        gpus: f64,
    ) -> Result<(), NodeRefusal> {
        let account = &self.gpu_types[at];
        let asked = centi(gpus);
        if asked == 0 {
            return Ok(());
        }
        let product = &account.product;
        for above in self.tree.chain(queue) {
            let allocated = account.allocated_centi[above.index()];
            let Some(limit) = account.limits_centi.get(&above) else { continue };
            if allocated + asked > *limit {
                let name = &self.tree.node(above).display_name;
                let (limit, allocated, asked) = (count(*limit), count(allocated), count(asked));
                let text = format!(
                    "queue {name} may hold {limit} GPUs of type {product}, holds {allocated} and the pod asks for {asked}"
                );
                return Err(NodeRefusal::rule(Rule::GpuTypeBound, text));
            }
        }
        let taken = |asked: i64| self.taken_or_kept(account, queue, asked);
        let is_kept = || taken(asked) > account.capacity_centi && taken(asked) > taken(0);
        if !account.quotas_centi.is_empty() && is_kept() {
            let text =
                format!("free GPUs of type {product} are kept for the quotas of other queues");
            return Err(NodeRefusal::rule(Rule::GpuTypeBound, text));
        }
        Ok(())
    }

    /// What is allocated of a type, and what quotas keep of it, if `queue` had `asked` more.
    fn taken_or_kept(&self, account: &GpuTypeAccount, queue: QueueId, asked: i64) -> i64 {
        let chain: Vec<QueueId> = self.tree.chain(queue).collect();
        let tops: Vec<QueueId> = self.tree.top_queues().collect();
        let allocated: i64 = tops.iter().map(|top| account.allocated_centi[top.index()]).sum();
        let kept: i64 = tops.iter().map(|top| self.kept_for(account, *top, &chain, asked)).sum();
        allocated + asked + kept
    }

    /// What quotas keep for a queue and the queues below it.
    fn kept_for(
        &self,
        account: &GpuTypeAccount,
        queue: QueueId,
        chain: &[QueueId],
        asked: i64,
    ) -> i64 {
        let more = if chain.contains(&queue) { asked } else { 0 };
        let quota = account.quotas_centi.get(&queue).copied().unwrap_or_default();
        let own = (quota - account.allocated_centi[queue.index()] - more).max(0);
        let below: i64 = self
            .tree
            .live_children(queue)
            .map(|child| self.kept_for(account, child, chain, asked))
            .sum();
        own.max(below)
    }
}

impl GpuTypeAccount {
    fn is_of(&self, node: &Node) -> bool {
        node.spec.labels.get(GPU_PRODUCT) == Some(&self.product)
    }
}

fn centi(gpus: f64) -> i64 {
    (gpus * 100.0).round() as i64
}

fn count(centi: i64) -> f64 {
    centi as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use crate::input::pod::GpuRequest;
    use crate::input::pod_group::Preemptibility;
    use crate::input::queue::GpuTypeBound;
    use crate::plan::{StepKind, plan};
    use crate::plugins::predicates::testing::{Cluster, QueueBuilder, gpu_node, pod, queue};
    use crate::time::Timestamp;

    const PRODUCT: &str = "nvidia.com/gpu.product";

    fn bounded(name: &str, product: &str, quota: Option<f64>, limit: Option<f64>) -> QueueBuilder {
        let mut queue = queue(name);
        queue.spec.gpu_types = vec![GpuTypeBound { product: product.into(), quota, limit }];
        queue
    }

    /// Two nodes of four GPUs, one of each type.
    fn cluster() -> Cluster {
        let mut cluster = Cluster::new();
        for (name, product) in [("fast", "H100"), ("slow", "T4")] {
            cluster.node(gpu_node(name, 4).label(PRODUCT, product));
        }
        cluster
    }

    /// Jobs of single pods that ask for one GPU each, or one gang of them.
    fn pods(cluster: &mut Cluster, queue: &str, number: usize, gang: bool) {
        for at in 0..number {
            let name = format!("{queue}-{at}");
            let job = if gang { format!("{queue}-gang") } else { name.clone() };
            let members = if gang { u32::try_from(number).expect("few") } else { 1 };
            cluster.job(&job, queue, members, Preemptibility::Preemptible);
            cluster.pod(pod(&name).of(&job).gpu(GpuRequest::Whole { count: 1 }));
        }
    }

    /// How many pods of a queue are bound to each node.
    fn bound(cluster: &mut Cluster, queue: &str) -> (usize, usize) {
        let made = plan(&mut cluster.world, Timestamp::default());
        let on = |wanted: &str| {
            let steps = made.steps.iter().filter(|step| step.pod.name.starts_with(queue));
            steps
                .filter(
                    |step| matches!(&step.kind, StepKind::Bind { node, .. } if **node == *wanted),
                )
                .count()
        };
        (on("fast"), on("slow"))
    }

    #[test]
    fn a_limit_of_a_type_bounds_that_type_alone() {
        let mut cluster = cluster();
        cluster.queue(bounded("q", "H100", None, Some(2.0)));
        pods(&mut cluster, "q", 8, false);
        assert_eq!(bound(&mut cluster, "q"), (2, 4));
    }

    #[test]
    fn a_limit_of_a_type_holds_for_the_queues_below_together() {
        let mut cluster = cluster();
        cluster.queue(bounded("top", "H100", None, Some(3.0)));
        for name in ["a", "b"] {
            cluster.queue(queue(name).under("top"));
            pods(&mut cluster, name, 4, false);
        }
        let made = plan(&mut cluster.world, Timestamp::default());
        let fast = made
            .steps
            .iter()
            .filter(|step| matches!(&step.kind, StepKind::Bind { node, .. } if **node == *"fast"));
        assert_eq!(fast.count(), 3);
    }

    #[test]
    fn a_gang_that_would_exceed_the_limit_of_a_type_is_not_bound_in_part() {
        let mut cluster = cluster();
        cluster.queue(bounded("q", "H100", None, Some(2.0)));
        pods(&mut cluster, "q", 7, true);
        assert_eq!(bound(&mut cluster, "q"), (0, 0), "six GPUs are allowed, seven are needed");
    }

    #[test]
    fn the_reason_names_the_type() {
        let mut cluster = cluster();
        cluster.queue(bounded("q", "H100", None, Some(0.0)));
        pods(&mut cluster, "q", 5, false);
        let made = plan(&mut cluster.world, Timestamp::default());
        let text = format!("{:?}", made.waiting);
        let reason = "queue q may hold 0 GPUs of type H100, holds 0 and the pod asks for 1";
        assert!(text.contains(reason), "{text}");
    }

    #[test]
    fn a_limit_of_one_queue_refuses_no_pod_of_another() {
        let mut cluster = Cluster::new();
        cluster.node(gpu_node("fast", 4).label(PRODUCT, "H100"));
        cluster.queue(bounded("a", "H100", None, Some(0.0)));
        cluster.queue(queue("b"));
        for name in ["a", "b"] {
            pods(&mut cluster, name, 1, false);
        }
        assert_eq!(bound(&mut cluster, "a"), (0, 0));
        assert_eq!(bound(&mut cluster, "b"), (1, 0));
    }

    #[test]
    fn a_quota_of_a_type_is_kept_free_for_its_queue() {
        let mut cluster = cluster();
        cluster.queue(bounded("owner", "H100", Some(3.0), None));
        cluster.queue(queue("other"));
        pods(&mut cluster, "other", 8, false);
        assert_eq!(bound(&mut cluster, "other"), (1, 4), "three of four are kept");
        pods(&mut cluster, "owner", 3, false);
        let made = plan(&mut cluster.world, Timestamp::default());
        let owners = made.steps.iter().filter(|step| step.pod.name.starts_with("owner"));
        assert_eq!(owners.count(), 3);
    }
}
