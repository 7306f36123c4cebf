//! Objects of generated worlds, with the defaults of the scenario format.

use std::sync::LazyLock;

use kai_core::fairness::{Amounts, UNLIMITED};
use kai_core::input::node::Allocatable;
use kai_core::input::pod::{GpuRequest, PodRequest, PodSpec};
use kai_core::input::pod_group::{DEFAULT_LEAF, GroupLeaf, GroupSet, TopologyConstraint};
use kai_core::input::selectors::Labels;
use kai_core::input::{
    Delta, NodeSpec, Object, ObjectKey, ObjectName, PodGroupSpec, QueueSpec, Text,
};
use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};

/// Devices of every node.
pub(super) const GPUS_PER_NODE: usize = 8;
/// Jobs are this far apart.
const JOB_INTERVAL_S: f64 = 60.0;
/// Running jobs started this long ago.
const RUNNING_FOR_S: f64 = 60.0;
/// Creation of the oldest job: some day, so that no time is one that means "not set".
const BEGIN_S: f64 = 1_767_225_600.0;
/// The queue above all others.
const ROOT: &str = "default";

/// Texts that many objects of a cluster have. As the controllers do, each is kept once.
struct SharedTexts {
    namespace: Text,
    leaf: Text,
}

static SHARED: LazyLock<SharedTexts> =
    LazyLock::new(|| SharedTexts { namespace: "".into(), leaf: DEFAULT_LEAF.into() });

/// The moment at which job `position` was created; job 0 is the oldest.
pub(super) fn created(position: usize) -> Timestamp {
    Timestamp::from_seconds(BEGIN_S + JOB_INTERVAL_S * position as f64)
}

/// The name of node `number`.
pub(super) fn node_name(number: usize) -> Text {
    format!("node-{number}").into()
}

/// A node of eight GPUs with `own` labels besides those every node has.
pub(super) fn node(number: usize, own: Labels) -> NodeSpec {
    let name = node_name(number);
    let mut labels = own;
    labels.insert("kai.scheduler/type".into(), name.clone());
    labels.insert("nvidia.com/gpu.count".into(), GPUS_PER_NODE.to_string().into());
    labels.insert("nvidia.com/gpu.memory".into(), "100".into());
    let allocatable = Allocatable {
        cpu_milli: 20_000_000,
        memory_bytes: 20_000_000_000,
        pods: 110,
        gpus: GPUS_PER_NODE as i64,
        ..Allocatable::default()
    };
    NodeSpec { labels, gpu_memory_known: Some(true), ..NodeSpec::healthy(name, allocatable) }
}

/// A queue to be.
#[derive(Clone, Debug)]
pub(super) struct QueueSketch {
    /// Name that jobs and child queues refer to.
    pub(super) name: Text,
    /// Queue above; none: the implicit root.
    pub(super) parent: Option<Text>,
    /// GPUs it is owed.
    pub(super) quota: f64,
    /// Weight in the division of GPUs beyond quotas.
    pub(super) weight: f64,
}

impl QueueSketch {
    /// A queue under the implicit root.
    pub(super) fn new(number: usize, quota: usize, weight: f64) -> Self {
        Self { name: queue_name(number), parent: None, quota: quota as f64, weight }
    }
}

/// The name of queue `number`.
pub(super) fn queue_name(number: usize) -> Text {
    format!("queue-{number}").into()
}

/// The queues; under the implicit root unless some of them have parents of their own.
pub(super) fn queues(sketches: &[QueueSketch]) -> Vec<QueueSpec> {
    let has_tree = sketches.iter().any(|sketch| sketch.parent.is_some());
    let root = QueueSketch { name: ROOT.into(), parent: None, quota: UNLIMITED, weight: -1.0 };
    let mut queues: Vec<QueueSpec> = Vec::new();
    if !has_tree {
        queues.push(queue(&root, None, 0));
    }
    for (position, sketch) in sketches.iter().enumerate() {
        let parent = if has_tree { sketch.parent.clone() } else { Some(ROOT.into()) };
        queues.push(queue(sketch, parent, position));
    }
    queues
}

fn queue(sketch: &QueueSketch, parent: Option<Text>, position: usize) -> QueueSpec {
    QueueSpec {
        parent,
        created: created(position),
        quota: Amounts::new(UNLIMITED, UNLIMITED, sketch.quota),
        over_quota_weight: Amounts::new(1.0, 1.0, sketch.weight),
        ..QueueSpec::unbounded(sketch.name.clone())
    }
}

/// A job to be: equal pods that start together.
#[derive(Clone, Debug)]
pub(super) struct JobSketch {
    /// Name of the pod group.
    pub(super) name: Text,
    /// Name of its leaf queue.
    pub(super) queue: Text,
    /// Number of its pods; all are needed to start.
    pub(super) pods: usize,
    /// Whole GPUs of each pod.
    pub(super) gpus: i64,
    /// The node its pods run on; none: they wait.
    pub(super) node: Option<Text>,
    /// Where its pods should be together.
    pub(super) topology: Option<TopologyConstraint>,
}

impl JobSketch {
    /// A one-pod job that waits.
    pub(super) fn waiting(number: usize, queue: &Text, gpus: i64) -> Self {
        let name = format!("{WAITING}{number}").into();
        Self { name, queue: queue.clone(), pods: 1, gpus, node: None, topology: None }
    }

    /// A one-pod job that runs on a node.
    pub(super) fn running(number: usize, queue: &Text, gpus: i64, node: usize) -> Self {
        let name = format!("{RUNNING}{number}").into();
        let node = Some(node_name(node));
        Self { name, queue: queue.clone(), pods: 1, gpus, node, topology: None }
    }

    /// The same with several pods.
    #[must_use]
    pub(super) fn gang_of(self, pods: usize) -> Self {
        Self { pods, ..self }
    }

    /// What makes the job known: the group, then its pods. `position` orders jobs by age, `now` is the moment of
    /// the cycle.
    pub(super) fn deltas(self, position: usize, now: Timestamp) -> impl Iterator<Item = Delta> {
        let group = Delta::Set(Object::PodGroup(Box::new(self.group(position, now))));
        let pods = (0..self.pods)
            .map(move |number| Delta::Set(Object::Pod(Box::new(self.pod(number, position)))));
        std::iter::once(group).chain(pods)
    }

    /// What makes the job unknown again.
    pub(super) fn removal(&self) -> impl Iterator<Item = Delta> {
        let pods = (0..self.pods).map(|number| ObjectKey::Pod(self.pod_name(number)));
        let group = ObjectKey::PodGroup(self.group_name());
        pods.chain([group]).map(Delta::Remove)
    }

    fn group_name(&self) -> ObjectName {
        ObjectName { namespace: SHARED.namespace.clone(), name: self.name.clone() }
    }

    fn pod_name(&self, number: usize) -> ObjectName {
        let name = format!("{}-{number}", self.name).into();
        ObjectName { namespace: SHARED.namespace.clone(), name }
    }

    fn group(&self, position: usize, now: Timestamp) -> PodGroupSpec {
        let started = now.plus(Span::from_seconds(-RUNNING_FOR_S));
        let leaf = GroupLeaf {
            name: SHARED.leaf.clone(),
            min_available: self.pods as u32,
            topology: None,
        };
        let topology = self.topology.clone();
        let tree = GroupSet { topology, leaves: vec![leaf], ..GroupSet::default() };
        PodGroupSpec {
            created: created(position),
            last_start: self.node.is_some().then_some(started),
            ..PodGroupSpec::preemptible(self.group_name(), self.queue.clone(), tree)
        }
    }

    pub(super) fn pod(&self, number: usize, position: usize) -> PodSpec {
        let request = PodRequest {
            cpu_milli: 1000,
            memory_bytes: 1_000_000_000,
            gpu: GpuRequest::Whole { count: self.gpus },
            ..PodRequest::default()
        };
        PodSpec {
            created: created(position),
            group: Some(self.name.clone()),
            status: if self.node.is_some() { Status::Running } else { Status::Pending },
            node: self.node.clone(),
            ..PodSpec::pending(self.pod_name(number), request)
        }
    }
}

/// Names of jobs that run begin with this.
pub(super) const RUNNING: &str = "running-";
/// Names of jobs that wait begin with this.
pub(super) const WAITING: &str = "waiting-";
