//! The world: everything the planner knows of a cluster, kept up to date by deltas.
//!
//! Ids are slots of arenas and never reach a result: orders are by name, UID and time.

pub mod accounting;
pub(crate) mod alike;
mod apply;
mod attach;
pub(crate) mod constraint_signature;
mod core_members;
mod fingerprint;
pub mod gpu_facts;
pub(crate) mod gpu_types;
pub(crate) mod in_flight;
pub mod index;
pub mod job;
pub mod job_tree;
pub(crate) mod ledger;
pub mod node;
pub mod node_class;
pub(crate) mod queues;
pub mod shape;
mod slot_set;
pub mod task;
pub mod totals;
pub(crate) mod undo;
mod unnamed_devices;
mod unused_parts;
pub mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

pub use apply::Effect;
pub use undo::Checkpoint;
pub use validate::InputProblem;

use crate::config::Config;
use crate::fairness::QueueTree;
use crate::ids::{JobId, NodeId, QueueId, TaskId};
use crate::input::{
    BindRequestSpec, BudgetSpec, NamespaceSpec, NumaSpec, ObjectName, PodSpec, QueueSpec, Text,
    TopologySpec, UsageSpec,
};
use crate::keyed_hash::{KeyedMap, Signing};
use crate::placement::refusal_table::RefusalTables;
use crate::plugins::Policy;
use crate::plugins::dynamicresources::Claims;
use crate::plugins::predicates::term_index::TermIndex;
use crate::plugins::predicates::volumes::Volumes;
use crate::plugins::topology::Trees;
use crate::report::remembered::RememberedReports;
use crate::resources::ResourceNames;
use crate::world::alike::AlikeJobs;
use crate::world::gpu_types::GpuTypeAccount;
use crate::world::in_flight::Assumed;
use crate::world::index::{FreeGpuIndex, JobIndex};
use crate::world::job::Job;
use crate::world::job_tree::JobTrees;
use crate::world::node::{GroupId, Node};
use crate::world::node_class::{ClassId, NodeClass, NodeClasses};
use crate::world::queues::QueueSums;
use crate::world::shape::{Shape, Shapes};
use crate::world::task::Task;
use crate::world::totals::Totals;
use crate::world::undo::UndoLog;

/// Everything the planner knows of a cluster.
#[derive(Clone, Debug)]
pub struct World {
    pub(crate) config: Config,
    pub(crate) policy: Policy,
    pub(crate) names: ResourceNames,
    pub(crate) nodes: Vec<Node>,
    pub(crate) node_ids: BTreeMap<Text, NodeId>,
    pub(crate) nodes_by_rank: Vec<NodeId>,
    /// Nodes came or went since they were ranked; the next cycle ranks them.
    pub(crate) ranks_are_stale: bool,
    pub(crate) node_classes: NodeClasses,
    pub(crate) numa_specs: BTreeMap<Text, NumaSpec>,
    /// The most NUMA zones that any node has.
    pub(crate) most_zones: usize,
    pub(crate) tree: QueueTree,
    pub(crate) gpu_types: Vec<GpuTypeAccount>,
    pub(crate) queue_specs: Vec<QueueSpec>,
    pub(crate) queue_ids: BTreeMap<Text, QueueId>,
    pub(crate) queue_sums: Vec<QueueSums>,
    pub(crate) usage: BTreeMap<Text, UsageSpec>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) job_trees: JobTrees,
    pub(crate) job_ids: KeyedMap<ObjectName, JobId>,
    pub(crate) jobs_of_queue: KeyedMap<Text, BTreeSet<JobId>>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) task_ids: KeyedMap<ObjectName, TaskId>,
    /// The job of the latest attempt: the handler of a panic reports it.
    pub(crate) attempted: Option<JobId>,
    /// Pods whose pod group is not known, by the group they name. Jobs list the others.
    pub(crate) pods_without_job: KeyedMap<ObjectName, BTreeSet<TaskId>>,
    pub(crate) pods_of_node: KeyedMap<Text, BTreeSet<TaskId>>,
    pub(crate) shapes: Shapes,
    pub(crate) groups: GroupNames,
    pub(crate) bind_requests: BTreeMap<ObjectName, BindRequestSpec>,
    pub(crate) assumed: BTreeMap<ObjectName, Assumed>,
    pub(crate) topologies: BTreeMap<Text, TopologySpec>,
    pub(crate) trees: Trees,
    pub(crate) claims: Claims,
    pub(crate) volumes: Volumes,
    pub(crate) terms: TermIndex,
    pub(crate) config_maps: BTreeSet<ObjectName>,
    pub(crate) namespaces: BTreeMap<Text, NamespaceSpec>,
    pub(crate) budgets: BTreeMap<ObjectName, BudgetSpec>,
    /// Pods that may not be evicted now.
    pub(crate) protected_pods: BTreeSet<TaskId>,
    pub(crate) totals: Totals,
    pub(crate) job_index: JobIndex,
    /// Jobs of which only the core may not be preempted.
    pub(crate) semi_preemptible: BTreeSet<JobId>,
    pub(crate) free_gpus: FreeGpuIndex,
    pub(crate) free_task_slots: Vec<TaskId>,
    /// Spec of all slots whose pods are gone: that of the first one.
    pub(crate) vacant_pod: Option<Arc<PodSpec>>,
    pub(crate) free_job_slots: Vec<JobId>,
    pub(crate) free_node_slots: Vec<NodeId>,
    pub(crate) free_queue_slots: Vec<QueueId>,
    /// Releasing pods, by when they start to count as stuck.
    pub(crate) releasing: BTreeSet<(crate::time::Timestamp, TaskId)>,
    /// Pods whose pod affinity KAI no longer looks at in this cycle.
    pub(crate) affinity_skips: FxHashSet<TaskId>,
    /// Every shortcut is off: for tests and benchmarks that compare with it.
    pub(crate) naive: bool,
    pub(crate) log: UndoLog,
    pub(crate) signing: Signing,
    pub(crate) alike_jobs: AlikeJobs,
    /// What was reported of waiting jobs in the last cycle, to be reported again while nothing changed.
    pub(crate) reports: RememberedReports,
    /// What nodes said to shapes of pods that found none, kept while nodes do not change.
    pub(crate) refusal_tables: RefusalTables,
}

/// Names of shared devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupNames {
    names: Vec<Text>,
    ids: KeyedMap<Text, GroupId>,
}

impl GroupNames {
    pub(crate) fn intern(&mut self, name: &str) -> GroupId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = GroupId::new(self.names.len());
        let name: Text = name.into();
        self.ids.insert(Arc::clone(&name), id);
        self.names.push(name);
        id
    }

    pub(crate) fn name(&self, id: GroupId) -> &Text {
        &self.names[id.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl World {
    /// The pod group that the latest attempt of a cycle was for.
    pub fn attempted_group(&self) -> Option<&ObjectName> {
        self.attempted.map(|job| &self.job(job).spec.name)
    }

    /// An empty world under `config`.
    pub fn new(config: Config) -> Self {
        let policy = Policy::new(&config);
        let claims = Claims::new(config.compatibility);
        Self {
            config,
            policy,
            names: ResourceNames::default(),
            nodes: Vec::new(),
            node_ids: BTreeMap::new(),
            nodes_by_rank: Vec::new(),
            ranks_are_stale: false,
            node_classes: NodeClasses::default(),
            numa_specs: BTreeMap::new(),
            most_zones: 0,
            tree: QueueTree::default(),
            gpu_types: Vec::new(),
            queue_specs: Vec::new(),
            queue_ids: BTreeMap::new(),
            queue_sums: Vec::new(),
            usage: BTreeMap::new(),
            jobs: Vec::new(),
            job_trees: JobTrees::default(),
            job_ids: KeyedMap::default(),
            jobs_of_queue: KeyedMap::default(),
            tasks: Vec::new(),
            task_ids: KeyedMap::default(),
            attempted: None,
            pods_without_job: KeyedMap::default(),
            pods_of_node: KeyedMap::default(),
            shapes: Shapes::default(),
            groups: GroupNames::default(),
            bind_requests: BTreeMap::new(),
            assumed: BTreeMap::new(),
            topologies: BTreeMap::new(),
            trees: Trees::default(),
            claims,
            volumes: Volumes::default(),
            terms: TermIndex::default(),
            config_maps: BTreeSet::new(),
            namespaces: BTreeMap::new(),
            budgets: BTreeMap::new(),
            protected_pods: BTreeSet::new(),
            totals: Totals::default(),
            job_index: JobIndex::default(),
            semi_preemptible: BTreeSet::new(),
            free_gpus: FreeGpuIndex::default(),
            free_task_slots: Vec::new(),
            vacant_pod: None,
            free_job_slots: Vec::new(),
            free_node_slots: Vec::new(),
            free_queue_slots: Vec::new(),
            releasing: BTreeSet::new(),
            affinity_skips: FxHashSet::default(),
            naive: false,
            log: UndoLog::default(),
            signing: Signing::default(),
            alike_jobs: AlikeJobs::default(),
            reports: RememberedReports::default(),
            refusal_tables: RefusalTables::default(),
        }
    }

    /// Whether devices can be claimed in this cluster at all. Pods with claims wait where they cannot.
    pub fn set_dynamic_resources(&mut self, are_there: bool) {
        self.config.params.dynamic_resources = are_there;
        self.refusal_tables.clear();
    }

    /// Switches every shortcut of the search off or on. Plans are the same, only slower without them.
    pub fn set_naive_search(&mut self, naive: bool) {
        self.naive = naive;
    }

    /// Configuration that plans of this world follow.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The node in slot `id`; the slot may be dead.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The job in slot `id`; the slot may be dead.
    #[inline]
    pub fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.index()]
    }

    /// The task in slot `id`; the slot may be dead.
    #[inline]
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// The shape of `task`.
    #[inline]
    pub fn shape_of(&self, task: TaskId) -> &Shape {
        &self.shapes[self.tasks[task.index()].shape]
    }

    /// Live nodes in name order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> + '_ {
        self.node_ids.values().map(|id| (*id, self.node(*id)))
    }

    /// The node called `name`.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.node_ids.get(name).copied()
    }

    /// The pod called `name`.
    pub fn task_named(&self, name: &ObjectName) -> Option<TaskId> {
        self.task_ids.get(name).copied()
    }

    /// The pod group called `name`.
    pub fn job_named(&self, name: &ObjectName) -> Option<JobId> {
        self.job_ids.get(name).copied()
    }

    /// Live tasks, in no order that may reach a result.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &Task)> + '_ {
        let numbered = self.tasks.iter().enumerate();
        numbered.filter(|(_, task)| task.live).map(|(at, task)| (TaskId::new(at), task))
    }

    /// Live jobs, in no order that may reach a result.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> + '_ {
        let numbered = self.jobs.iter().enumerate();
        numbered.filter(|(_, job)| job.live).map(|(at, job)| (JobId::new(at), job))
    }

    /// Names of resources by slot.
    pub fn resource_names(&self) -> &ResourceNames {
        &self.names
    }

    /// The queues with their shares as of the latest cycle.
    pub fn queue_tree(&self) -> &QueueTree {
        &self.tree
    }

    /// The class of nodes `id`.
    pub fn node_class(&self, id: ClassId) -> &NodeClass {
        self.node_classes.get(id)
    }

    /// The name of a shared device.
    pub fn group_name(&self, id: GroupId) -> &Text {
        self.groups.name(id)
    }
}
