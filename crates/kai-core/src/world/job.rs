//! A pod group as the planner keeps it: its queue, the pods of each leaf, and the tree that says which are needed.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::ids::{QueueId, TaskId};
use crate::input::pod_group::{GroupSet, PodGroupSpec, Preemptibility};
use crate::status::Status;
use crate::time::Timestamp;
use crate::world::alike::Alike;
use crate::world::job_tree::{DeclaredLeaf, JobTree, Member};
use crate::world::node::Accepted;

/// A pod group with its tree of members and their pods.
#[derive(Clone, Debug)]
pub struct Job {
    /// False for a slot whose pod group is gone.
    pub live: bool,
    /// Latest spec that was applied.
    pub spec: Box<PodGroupSpec>,
    /// Its queue, if that exists.
    pub queue: Option<QueueId>,
    /// Sets and leaves as they were declared. Jobs with equal trees share one.
    pub tree: Arc<JobTree>,
    /// Leaves with their pods, in the order they were declared.
    pub leaves: Vec<Leaf>,
    /// Pods that name a leaf the tree does not have, by name.
    pub strays: Vec<TaskId>,
    /// Pods per status, over all leaves.
    pub counts: StatusCounts,
    /// Hundredths of GPUs that its placed pods cost. Kept with every change of a pod: a job of thousands of pods is looked up at each of
    /// their changes.
    pub(crate) placed_gpu_centi: i64,
    /// Start time, as far as this cycle knows.
    pub last_start: Option<Timestamp>,
    /// What the core of a semi-preemptible job costs its queue, as far as this cycle knows.
    pub(crate) core: Accepted,
    /// Its class among waiting jobs; holds while every pod of it waits.
    pub(crate) alike: Alike,
    /// Its class is to be found when the next cycle begins.
    pub(crate) is_listed_as_changed: bool,
}

/// A leaf: pods of one kind.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Name, minimum and topology of the leaf.
    pub declared: Arc<DeclaredLeaf>,
    /// Pods in task order. Most leaves have one pod, which needs no memory of its own.
    pub tasks: SmallVec<[TaskId; 2]>,
    /// Number of its pods in each status.
    pub counts: StatusCounts,
}

/// How many pods have each status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatusCounts([u32; Status::COUNT]);

impl StatusCounts {
    /// Number of pods with `status`.
    #[inline]
    pub fn of(&self, status: Status) -> u32 {
        self.0[status as usize]
    }

    /// One more with `status`.
    pub fn add(&mut self, status: Status) {
        self.0[status as usize] += 1;
    }

    /// One fewer with `status`.
    pub fn remove(&mut self, status: Status) {
        self.0[status as usize] -= 1;
    }

    /// Pods whose status passes `test`.
    pub fn count(&self, test: impl Fn(Status) -> bool) -> u32 {
        Status::ALL.iter().filter(|status| test(**status)).map(|status| self.of(*status)).sum()
    }

    /// Pods that hold a place and are not releasing.
    #[inline]
    pub fn active_allocated(&self) -> u32 {
        self.of(Status::Allocated)
            + self.of(Status::Pipelined)
            + self.of(Status::Binding)
            + self.of(Status::Bound)
            + self.of(Status::Running)
    }

    /// Pods that occupy a node.
    #[inline]
    pub fn active_used(&self) -> u32 {
        self.active_allocated() + self.of(Status::Releasing) + self.of(Status::StuckInReleasing)
    }

    /// Number of pods, whatever their status.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }
}

impl Job {
    /// The job without pods, whose spec declares `tree`.
    pub(crate) fn new(spec: Box<PodGroupSpec>, queue: Option<QueueId>, tree: Arc<JobTree>) -> Self {
        let leaf = |declared: &Arc<DeclaredLeaf>| Leaf {
            declared: Arc::clone(declared),
            tasks: SmallVec::new(),
            counts: StatusCounts::default(),
        };
        Self {
            live: true,
            queue,
            leaves: tree.leaves.iter().map(leaf).collect(),
            tree,
            strays: Vec::new(),
            counts: StatusCounts::default(),
            placed_gpu_centi: 0,
            last_start: spec.last_start,
            core: Accepted::default(),
            alike: Alike::Unknown,
            is_listed_as_changed: false,
            spec,
        }
    }

    /// The pod group is gone: its slot stays, with an empty tree.
    pub(crate) fn vacate(&mut self, (declared, tree): (Arc<GroupSet>, Arc<JobTree>)) {
        self.live = false;
        self.tree = tree;
        self.leaves = Vec::new();
        self.strays = Vec::new();
        self.spec.tree = declared;
    }

    /// Whether all of it may be evicted.
    pub fn is_preemptible(&self) -> bool {
        self.spec.preemptibility == Preemptibility::Preemptible
    }

    /// Whether what it has beyond its core may be evicted, and nothing else.
    pub fn is_semi_preemptible(&self) -> bool {
        self.spec.preemptibility == Preemptibility::SemiPreemptible
    }

    /// The leaf called `name`.
    pub fn leaf_named(&self, name: &str) -> Option<usize> {
        self.leaves.iter().position(|leaf| &*leaf.declared.name == name)
    }

    /// Threshold of a set: how many direct members must be satisfied.
    pub fn threshold(&self, set: usize) -> u32 {
        let set = &self.tree.sets[set];
        set.min_members.unwrap_or(set.members.len() as u32)
    }

    /// All pods of the tree, leaf by leaf in task order.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.leaves.iter().flat_map(|leaf| leaf.tasks.iter().copied())
    }

    /// Leaves below `set`, in declaration order.
    pub fn leaves_below(&self, set: usize) -> Vec<usize> {
        let mut found = Vec::new();
        self.collect_leaves(set, &mut found);
        found
    }

    fn collect_leaves(&self, set: usize, found: &mut Vec<usize>) {
        for member in &self.tree.sets[set].members {
            match *member {
                Member::Leaf(leaf) => found.push(leaf),
                Member::Set(set) => self.collect_leaves(set, found),
            }
        }
    }
}
