//! Random small clusters. Names are few, so that clusters made apart talk of the same objects.

pub(crate) mod nodes;
pub(crate) mod pods;
pub(crate) mod queues;
pub(crate) mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

use kai_core::check;
use kai_core::compatibility::Compatibility;
use kai_core::config::Config;
use kai_core::fairness::{Amounts, QueueResource, UNLIMITED};
use kai_core::input::node::WholeGpuPolicy;
use kai_core::input::pod::{GpuRequest, PodRole};
use kai_core::input::{
    BindRequestSpec, BudgetSpec, Delta, NodeSpec, Object, ObjectKey, ObjectName, PodGroupSpec,
    PodSpec, QueueSpec, Text, TopologySpec, UsageSpec,
};
use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};
use kai_core::world::World;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Namespace of all objects of the random worlds.
pub(crate) const NAMESPACE: &str = "team";

/// The moment of planning.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_seconds(1_000.0)
}

/// The name of an object of the namespace.
pub(crate) fn named(name: &str) -> ObjectName {
    ObjectName::new(NAMESPACE, name)
}

/// A cluster: what is configured and what there is.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) config: Config,
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) queues: Vec<QueueSpec>,
    pub(crate) usage: Vec<UsageSpec>,
    pub(crate) topologies: Vec<TopologySpec>,
    pub(crate) budgets: Vec<BudgetSpec>,
    pub(crate) groups: Vec<PodGroupSpec>,
    pub(crate) pods: Vec<PodSpec>,
    pub(crate) binds: Vec<BindRequestSpec>,
}

impl Cluster {
    /// Everything there is, in the order in which a person would list it.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let mut objects: Vec<Object> = Vec::new();
        objects.extend(self.topologies.iter().cloned().map(Object::Topology));
        objects.extend(self.nodes.iter().cloned().map(|spec| Object::Node(Box::new(spec))));
        objects.extend(self.queues.iter().cloned().map(Object::Queue));
        objects.extend(self.usage.iter().cloned().map(Object::Usage));
        objects.extend(self.budgets.iter().cloned().map(Object::Budget));
        objects.extend(self.groups.iter().cloned().map(|spec| Object::PodGroup(Box::new(spec))));
        objects.extend(self.pods.iter().cloned().map(|spec| Object::Pod(Box::new(spec))));
        objects.extend(self.binds.iter().cloned().map(Object::BindRequest));
        objects
    }

    /// The world of it.
    pub(crate) fn world(&self) -> World {
        world_of(&self.config, self.objects())
    }
}

/// A world with these objects, applied in this order.
pub(crate) fn world_of(config: &Config, objects: Vec<Object>) -> World {
    let mut world = World::new(config.clone());
    for object in objects {
        let effect = world.apply(Delta::Set(object));
        assert_eq!(effect.problems, []);
    }
    world
}

/// The identity of an object.
pub(crate) fn key_of(object: &Object) -> ObjectKey {
    match object {
        Object::Node(spec) => ObjectKey::Node(spec.name.clone()),
        Object::Numa(spec) => ObjectKey::Numa(spec.node.clone()),
        Object::Queue(spec) => ObjectKey::Queue(spec.name.clone()),
        Object::Usage(spec) => ObjectKey::Usage(spec.queue.clone()),
        Object::PodGroup(spec) => ObjectKey::PodGroup(spec.name.clone()),
        Object::Pod(spec) => ObjectKey::Pod(spec.name.clone()),
        Object::BindRequest(spec) => ObjectKey::BindRequest(spec.pod.clone()),
        Object::Topology(spec) => ObjectKey::Topology(spec.name.clone()),
        Object::DeviceClass(spec) => ObjectKey::DeviceClass(spec.name.clone()),
        Object::Slice(spec) => ObjectKey::Slice(spec.name.clone()),
        Object::Claim(spec) => ObjectKey::Claim(spec.name.clone()),
        Object::ConfigMap(name) => ObjectKey::ConfigMap(name.clone()),
        Object::Namespace(spec) => ObjectKey::Namespace(spec.name.clone()),
        Object::Budget(spec) => ObjectKey::Budget(spec.name.clone()),
        Object::Storage(_) => unreachable!("clusters here have no storage"),
    }
}

/// One of the values.
pub(crate) fn one_of<T: Clone + std::fmt::Debug + 'static>(
    values: impl Into<std::borrow::Cow<'static, [T]>>,
) -> impl Strategy<Value = T> {
    select(values)
}

/// A moment around the time of planning, in whole seconds.
pub(crate) fn moment() -> impl Strategy<Value = Timestamp> {
    one_of(vec![0.0, 900.0, 940.0, 960.0, 990.0, 999.0, 1_010.0]).prop_map(Timestamp::from_seconds)
}

/// Both ways to be.
pub(crate) fn compatibility() -> impl Strategy<Value = Compatibility> {
    prop_oneof![Just(Compatibility::Right), Just(Compatibility::Kai)]
}

/// Configurations that change what is placed where.
pub(crate) fn config() -> BoxedStrategy<Config> {
    (
        compatibility(),
        prop_oneof![Just(WholeGpuPolicy::Physical), Just(WholeGpuPolicy::Replica)],
        prop_oneof![8 => Just(0_i64), 1 => Just(500), 1 => Just(50_000)],
        any::<[bool; 4]>(),
        prop_oneof![4 => Just(Some(16)), 1 => Just(None), 1 => Just(Some(1))],
        one_of(vec!["default", "spread", "gpuspread", "few"]),
        prop_oneof![5 => Just(false), 1 => Just(true)],
    )
        .prop_map(|(compatibility, policy, reserve, flags, preemptees, plugins, restrict)| {
            let mut config = Config { compatibility, ..Config::default() };
            config.params.whole_gpu_policy = policy;
            config.params.gpu_memory_reserve_mib = reserve;
            config.params.allow_consolidating_reclaim = flags[0];
            config.params.use_scheduling_signatures = flags[1];
            config.params.full_hierarchy_fairness = flags[2] || flags[1];
            config.params.detailed_fit_errors = flags[3];
            config.params.max_consolidation_preemptees = preemptees;
            config.params.restrict_node_scheduling = restrict;
            choose_plugins(&mut config, plugins);
            config
        })
        .boxed()
}

fn choose_plugins(config: &mut Config, choice: &str) {
    let argument = |key: &str, value: &str| (Text::from(key), Text::from(value));
    match choice {
        "spread" => {
            for plugin in
                config.plugins.iter_mut().filter(|plugin| &*plugin.name == "nodeplacement")
            {
                plugin.arguments =
                    BTreeMap::from([argument("gpu", "spread"), argument("cpu", "spread")]);
            }
        }
        "gpuspread" => {
            for plugin in config.plugins.iter_mut().filter(|plugin| &*plugin.name == "gpupack") {
                plugin.name = "gpuspread".into();
            }
        }
        "few" => config.plugins.retain(|plugin| {
            !matches!(&*plugin.name, "gpusharingorder" | "elastic" | "subgrouporder" | "priority")
        }),
        _ => {}
    }
}

/// Any cluster: pods are where they say, whether that fits or not.
pub(crate) fn messy_cluster() -> BoxedStrategy<Cluster> {
    wild_cluster()
        .prop_map(|mut cluster| {
            for pod in &mut cluster.pods {
                if matches!(pod.status, Status::Allocated | Status::Pipelined) {
                    pod.status = Status::Running;
                }
            }
            cluster
        })
        .boxed()
}

/// The same with statuses that only a cycle gives.
pub(crate) fn wild_cluster() -> BoxedStrategy<Cluster> {
    let plain = prop_oneof![3 => Just(true), 2 => Just(false)];
    (config(), nodes::nodes(), queues::queues(), pods::workloads(), extras(), plain)
        .prop_map(|(config, nodes, queues, workloads, extras, plain)| {
            let (usage, budgets) = extras;
            let (mut groups, mut pods, binds) = workloads;
            let leaves = queues::leaves(&queues);
            for (at, group) in groups.iter_mut().enumerate().filter(|(at, _)| at % 8 != 7) {
                let known = queues.iter().any(|queue| queue.name == group.queue);
                if !known || !leaves.contains(&group.queue) {
                    group.queue = leaves[at % leaves.len()].clone();
                }
            }
            let known = |name: &Text| nodes.iter().any(|node| node.name == *name);
            for (at, pod) in pods.iter_mut().enumerate().filter(|(at, _)| at % 16 != 15) {
                if pod.node.as_ref().is_some_and(|node| !known(node)) {
                    *pod = pods::moved(pod, at % nodes.len());
                }
            }
            let topologies = vec![nodes::topology()];
            let mut cluster =
                Cluster { config, nodes, queues, usage, topologies, budgets, groups, pods, binds };
            if plain {
                simplify(&mut cluster);
            }
            cluster
        })
        .boxed()
}

/// Takes away what keeps pods from nodes, so that they compete.
fn simplify(cluster: &mut Cluster) {
    for node in &mut cluster.nodes {
        node.taints.clear();
        node.bad_conditions.clear();
        node.unschedulable = false;
        node.allocatable.pods = 110;
        node.allocatable.cpu_milli = 64_000;
        node.allocatable.memory_bytes = 256_000_000_000;
        node.labels.insert("nvidia.com/gpu.memory".into(), "32768".into());
        if node.allocatable.gpus == 0 && node.allocatable.mig.is_empty() {
            node.allocatable.gpus = 2;
        }
    }
    for queue in &mut cluster.queues {
        queue.limit = Amounts::UNBOUNDED;
        queue.quota =
            Amounts::new(UNLIMITED, UNLIMITED, queue.quota[QueueResource::Gpu].clamp(0.0, 2.0));
        queue.reclaim_min_runtime = None;
        queue.preempt_min_runtime = None;
    }
    for group in &mut cluster.groups {
        std::sync::Arc::make_mut(&mut group.tree).topology = None;
        group.schedulable = true;
        group.preemption_delay = None;
        group.staleness_grace = Some(Span::from_seconds(-1.0));
    }
    for pod in &mut cluster.pods {
        pod.constraints = Arc::default();
        pod.request.other.clear();
        match &mut pod.request.gpu {
            GpuRequest::None | GpuRequest::Mig(_) => {
                pod.request.gpu = GpuRequest::Whole { count: 1 };
            }
            GpuRequest::Whole { count } => *count = (*count).clamp(1, 2),
            GpuRequest::Fraction { .. } | GpuRequest::Memory { .. } => {}
        }
    }
    cluster.config.params.restrict_node_scheduling = false;
    cluster.config.params.gpu_memory_reserve_mib = 0;
}

fn extras() -> BoxedStrategy<(Vec<UsageSpec>, Vec<BudgetSpec>)> {
    let usage = option::weighted(0.2, queues::usage()).prop_map(Vec::from_iter);
    let budgets = option::weighted(0.1, pods::budget()).prop_map(Vec::from_iter);
    (usage, budgets).boxed()
}

/// A cluster in which no more is allocated than there is: pods that would exceed it are pending.
pub(crate) fn tidy_cluster() -> BoxedStrategy<Cluster> {
    messy_cluster()
        .prop_map(|mut cluster| {
            let waiting = Cluster { pods: Vec::new(), binds: Vec::new(), ..cluster.clone() };
            let mut world = waiting.world();
            for pod in &mut cluster.pods {
                world.apply(Delta::Set(Object::Pod(Box::new(pod.clone()))));
                let mut node = 0;
                while pod.status.is_active_used() && is_overcommitted(&world) {
                    if node < cluster.nodes.len() {
                        *pod = pods::moved(pod, node);
                    } else {
                        wait(pod);
                    }
                    node += 1;
                    world.apply(Delta::Set(Object::Pod(Box::new(pod.clone()))));
                }
            }
            cluster.binds.retain(|bind| {
                world.apply(Delta::Set(Object::BindRequest(bind.clone())));
                let fits = !is_overcommitted(&world);
                if !fits {
                    world.apply(Delta::Remove(ObjectKey::BindRequest(bind.pod.clone())));
                }
                fits
            });
            cluster
        })
        .boxed()
}

fn is_overcommitted(world: &World) -> bool {
    let gangs = |violation: &check::Violation| violation.rule != check::Rule::Gang;
    check::cluster_violations(world).iter().any(gangs)
}

fn wait(pod: &mut PodSpec) {
    pod.node = None;
    pod.gpu_groups.clear();
    pod.stuck_at = None;
    pod.status = if pod.role == PodRole::Workload { Status::Pending } else { Status::Succeeded };
}
