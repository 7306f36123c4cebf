//! Small clusters for tests: nodes, queues, groups and pods with only what a test is about.

use std::sync::Arc;

use crate::compatibility::Compatibility;
use crate::config::Config;
use crate::fairness::{Amounts, UNLIMITED};
use crate::ids::TaskId;
use crate::input::node::{Allocatable, NodeSpec, Taint};
use crate::input::pod::{GpuRequest, HostPort, PodRequest, PodTerm, TermNamespaces, Toleration};
use crate::input::pod_group::{DEFAULT_LEAF, GroupLeaf, GroupSet, PodGroupSpec, Preemptibility};
use crate::input::selectors::{LabelSelector, Operator, Requirement};
use crate::input::{Delta, Object, ObjectName, PodSpec, QueueSpec, StorageObject, Text};
use crate::plugins::predicates::check_node;
use crate::report::refusal::NodeRefusal;
use crate::status::Status;
use crate::time::Span;
use crate::world::World;

/// A namespace for all that names none.
pub(crate) const NAMESPACE: &str = "ns";

/// A world under construction.
pub(crate) struct Cluster {
    pub(crate) world: World,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self::of(Config::default())
    }

    pub(crate) fn with(compatibility: Compatibility) -> Self {
        Self::of(Config { compatibility, ..Config::default() })
    }

    pub(crate) fn of(config: Config) -> Self {
        Self { world: World::new(config) }
    }

    pub(crate) fn set(&mut self, object: Object) {
        let effect = self.world.apply(Delta::Set(object));
        assert!(effect.problems.is_empty(), "{:?}", effect.problems);
    }

    pub(crate) fn node(&mut self, node: NodeBuilder) {
        self.set(Object::Node(node.spec));
    }

    pub(crate) fn queue(&mut self, queue: QueueBuilder) {
        self.set(Object::Queue(queue.spec));
    }

    pub(crate) fn storage(&mut self, object: StorageObject) {
        self.set(Object::Storage(object));
    }

    /// A group of one leaf that needs `min_available` pods.
    pub(crate) fn job(
        &mut self,
        name: &str,
        queue: &str,
        min_available: u32,
        preemptibility: Preemptibility,
    ) {
        let mut spec = group(name, queue, &[(DEFAULT_LEAF, min_available)]);
        spec.preemptibility = preemptibility;
        self.set(Object::PodGroup(Box::new(spec)));
    }

    pub(crate) fn pod(&mut self, pod: PodBuilder) -> TaskId {
        let name = pod.spec.name.clone();
        self.set(Object::Pod(pod.spec));
        self.world.task_named(&name).unwrap()
    }

    pub(crate) fn check(&self, task: TaskId, node: &str) -> Result<(), NodeRefusal> {
        check_node(&self.world, task, self.world.node_named(node).unwrap(), 0)
    }

    /// The text with which `node` refuses `task`.
    pub(crate) fn refusal(&self, task: TaskId, node: &str) -> Option<String> {
        self.check(task, node).err().map(|refusal| text_of(&refusal))
    }
}

/// The text of a refusal by rule.
pub(crate) fn text_of(refusal: &NodeRefusal) -> String {
    match refusal {
        NodeRefusal::Rule { text, .. } => text.to_string(),
        other => format!("{other:?}"),
    }
}

/// A group with leaves of these names and minimums.
pub(crate) fn group(name: &str, queue: &str, leaves: &[(&str, u32)]) -> PodGroupSpec {
    let leaf = |(name, min_available): &(&str, u32)| GroupLeaf {
        name: (*name).into(),
        min_available: *min_available,
        topology: None,
    };
    let tree = GroupSet { leaves: leaves.iter().map(leaf).collect(), ..GroupSet::default() };
    PodGroupSpec::preemptible(ObjectName::new(NAMESPACE, name), queue, tree)
}

pub(crate) struct NodeBuilder {
    pub(crate) spec: Box<NodeSpec>,
}

/// A healthy node with plenty of everything but GPUs.
pub(crate) fn node(name: &str) -> NodeBuilder {
    let allocatable = Allocatable {
        cpu_milli: 64_000,
        memory_bytes: 256_000_000_000,
        pods: 110,
        ..Allocatable::default()
    };
    NodeBuilder { spec: Box::new(NodeSpec::healthy(name, allocatable)) }
}

/// A node with GPUs of unknown memory.
pub(crate) fn gpu_node(name: &str, gpus: i64) -> NodeBuilder {
    let mut builder = node(name);
    builder.spec.allocatable.gpus = gpus;
    builder
}

impl NodeBuilder {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.spec.labels.insert(key.into(), value.into());
        self
    }

    pub(crate) fn taint(mut self, taint: Taint) -> Self {
        self.spec.taints.push(taint);
        self
    }

    pub(crate) fn pods(mut self, slots: i64) -> Self {
        self.spec.allocatable.pods = slots;
        self
    }
}

pub(crate) struct QueueBuilder {
    pub(crate) spec: QueueSpec,
}

/// A queue without bounds.
pub(crate) fn queue(name: &str) -> QueueBuilder {
    QueueBuilder { spec: QueueSpec::unbounded(name) }
}

impl QueueBuilder {
    pub(crate) fn under(mut self, parent: &str) -> Self {
        self.spec.parent = Some(parent.into());
        self
    }

    pub(crate) fn limit_gpus(mut self, gpus: f64) -> Self {
        self.spec.limit = Amounts::new(UNLIMITED, UNLIMITED, gpus);
        self
    }

    pub(crate) fn quota_gpus(mut self, gpus: f64) -> Self {
        self.spec.quota = Amounts::new(UNLIMITED, UNLIMITED, gpus);
        self
    }

    pub(crate) fn preempt_after(mut self, seconds: f64) -> Self {
        self.spec.preempt_min_runtime = Some(Span::from_seconds(seconds));
        self
    }

    pub(crate) fn reclaim_after(mut self, seconds: f64) -> Self {
        self.spec.reclaim_min_runtime = Some(Span::from_seconds(seconds));
        self
    }
}

pub(crate) struct PodBuilder {
    pub(crate) spec: Box<PodSpec>,
}

/// A pending pod that asks for one core and one GB.
pub(crate) fn pod(name: &str) -> PodBuilder {
    let request =
        PodRequest { cpu_milli: 1000, memory_bytes: 1_000_000_000, ..PodRequest::default() };
    let spec = PodSpec::pending(ObjectName::new(NAMESPACE, name), request);
    PodBuilder { spec: Box::new(PodSpec { uid: format!("uid-{name}").into(), ..spec }) }
}

impl PodBuilder {
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.spec.name.name = name.into();
        self.spec.uid = format!("uid-{name}").into();
        self
    }

    pub(crate) fn in_namespace(mut self, namespace: &str) -> Self {
        self.spec.name.namespace = namespace.into();
        self
    }

    pub(crate) fn of(mut self, group: &str) -> Self {
        self.spec.group = Some(group.into());
        self
    }

    pub(crate) fn leaf(mut self, leaf: &str) -> Self {
        self.spec.sub_group = Some(leaf.into());
        self
    }

    /// Makes it a running pod of `node`.
    pub(crate) fn on(mut self, node: &str) -> Self {
        self.spec.node = Some(node.into());
        self.spec.status = Status::Running;
        self
    }

    /// Has a part of this device.
    pub(crate) fn sharing(mut self, group: &str) -> Self {
        self.spec.gpu_groups.push(group.into());
        self
    }

    pub(crate) fn status(mut self, status: Status) -> Self {
        self.spec.status = status;
        self
    }

    pub(crate) fn gpus(self, count: i64) -> Self {
        self.gpu(GpuRequest::Whole { count })
    }

    pub(crate) fn gpu(mut self, request: GpuRequest) -> Self {
        self.spec.request.gpu = request;
        self
    }

    pub(crate) fn other(mut self, resource: &str, amount: i64) -> Self {
        self.spec.request.other.push((resource.into(), amount));
        self
    }

    pub(crate) fn legacy_mig(mut self) -> Self {
        self.spec.request.legacy_mig = true;
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        Arc::make_mut(&mut self.spec.labels).insert(key.into(), value.into());
        self
    }

    pub(crate) fn port(mut self, port: HostPort) -> Self {
        Arc::make_mut(&mut self.spec.constraints).host_ports.push(port);
        self
    }

    pub(crate) fn tolerating(mut self, toleration: Toleration) -> Self {
        Arc::make_mut(&mut self.spec.constraints).tolerations.push(toleration);
        self
    }

    pub(crate) fn selecting(mut self, key: &str, value: &str) -> Self {
        Arc::make_mut(&mut self.spec.constraints).node_selector.push((key.into(), value.into()));
        self
    }

    pub(crate) fn near(mut self, term: PodTerm) -> Self {
        Arc::make_mut(&mut self.spec.constraints).pod_affinity.push(term);
        self
    }

    pub(crate) fn away_from(mut self, term: PodTerm) -> Self {
        Arc::make_mut(&mut self.spec.constraints).pod_anti_affinity.push(term);
        self
    }

    pub(crate) fn preferring(mut self, weight: i64, term: PodTerm) -> Self {
        Arc::make_mut(&mut self.spec.constraints).preferred_pod_terms.push((weight, term));
        self
    }

    pub(crate) fn mounting(mut self, claim: &str) -> Self {
        Arc::make_mut(&mut self.spec.constraints).volume_claims.push(claim.into());
        self
    }

    pub(crate) fn config_map(mut self, name: &str) -> Self {
        Arc::make_mut(&mut self.spec.constraints).config_maps.push(name.into());
        self
    }
}

/// Pods with label `key` = `value`, in domains of `topology_key`.
pub(crate) fn term(topology_key: &str, key: &str, value: &str) -> PodTerm {
    PodTerm {
        topology_key: topology_key.into(),
        selector: LabelSelector { requirements: vec![requirement(key, Operator::In, &[value])] },
        namespaces: TermNamespaces::Own,
    }
}

pub(crate) fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    let values = values.iter().map(|value| Text::from(*value)).collect();
    Requirement { key: key.into(), operator, values }
}
