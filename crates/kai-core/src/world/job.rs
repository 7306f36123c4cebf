//! A pod group as the planner keeps it: a tree of sets and leaves with their pods.

use crate::ids::{QueueId, TaskId};
use crate::input::Text;
use crate::input::pod_group::{
    DEFAULT_LEAF, GroupSet, PodGroupSpec, Preemptibility, TopologyConstraint,
};
use crate::status::Status;
use crate::time::Timestamp;
use crate::world::alike::Alike;
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
    /// Sets; the first is the root.
    pub sets: Vec<Set>,
    /// Leaves in the order they were declared.
    pub leaves: Vec<Leaf>,
    /// Why the declared tree was not used.
    pub tree_problem: Option<Text>,
    /// Pods that name a leaf the tree does not have, by name.
    pub strays: Vec<TaskId>,
    /// Pods per status, over all leaves.
    pub counts: StatusCounts,
    /// Start time, as far as this cycle knows.
    pub last_start: Option<Timestamp>,
    /// What the core of a semi-preemptible job costs its queue, as far as this cycle knows.
    pub(crate) core: Accepted,
    /// Its class among waiting jobs; holds while every pod of it waits.
    pub(crate) alike: Alike,
    /// Its class is to be found when the next cycle begins.
    pub(crate) is_listed_as_changed: bool,
}

/// An inner part of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set {
    /// Name, empty for the root.
    pub name: Text,
    /// Set above; none for the root.
    pub parent: Option<usize>,
    /// How many direct members must be satisfied; none: all.
    pub min_members: Option<u32>,
    /// Where its pods must or should be together.
    pub topology: Option<TopologyConstraint>,
    /// What is directly below.
    pub members: Vec<Member>,
}

/// A direct member of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// A set, by position in the job.
    Set(usize),
    /// A leaf, by position in the job.
    Leaf(usize),
}

/// A leaf: pods of one kind.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Name that pods refer to.
    pub name: Text,
    /// Position of the set that the leaf is a direct member of.
    pub parent: usize,
    /// How many pods are needed.
    pub min_available: u32,
    /// Where its pods must or should be together.
    pub topology: Option<TopologyConstraint>,
    /// Pods in task order.
    pub tasks: Vec<TaskId>,
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
    /// The job without pods.
    pub fn new(spec: Box<PodGroupSpec>, queue: Option<QueueId>) -> Self {
        let mut job = Self {
            live: true,
            queue,
            sets: Vec::new(),
            leaves: Vec::new(),
            tree_problem: None,
            strays: Vec::new(),
            counts: StatusCounts::default(),
            last_start: spec.last_start,
            core: Accepted::default(),
            alike: Alike::Unknown,
            is_listed_as_changed: false,
            spec,
        };
        let tree = job.spec.tree.clone();
        job.plant(&tree, None);
        if let Some(name) = job.duplicate_name() {
            let problem = format!("sub-group {name:?} is declared twice");
            job.plant_fallback(problem.into());
        }
        job
    }

    /// The pod group is gone: its slot stays, without what it needed.
    pub(crate) fn vacate(&mut self) {
        self.live = false;
        self.sets = Vec::new();
        self.leaves = Vec::new();
        self.strays = Vec::new();
        self.spec.tree = GroupSet::default();
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
        self.leaves.iter().position(|leaf| &*leaf.name == name)
    }

    /// Threshold of a set: how many direct members must be satisfied.
    pub fn threshold(&self, set: usize) -> u32 {
        self.sets[set].min_members.unwrap_or(self.sets[set].members.len() as u32)
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
        for member in &self.sets[set].members {
            match *member {
                Member::Leaf(leaf) => found.push(leaf),
                Member::Set(set) => self.collect_leaves(set, found),
            }
        }
    }

    fn plant(&mut self, declared: &GroupSet, parent: Option<usize>) -> usize {
        let at = self.sets.len();
        // Most jobs are one pod: vectors that grow by themselves would take four times what they need.
        self.sets.reserve_exact(1);
        self.leaves.reserve_exact(declared.leaves.len());
        self.sets.push(Set {
            name: declared.name.clone(),
            parent,
            min_members: declared.min_members,
            topology: declared.topology.clone(),
            members: Vec::with_capacity(declared.leaves.len() + declared.sets.len()),
        });
        for leaf in &declared.leaves {
            self.leaves.push(Leaf {
                name: leaf.name.clone(),
                parent: at,
                min_available: leaf.min_available,
                topology: leaf.topology.clone(),
                tasks: Vec::new(),
                counts: StatusCounts::default(),
            });
            let position = self.leaves.len() - 1;
            self.sets[at].members.push(Member::Leaf(position));
        }
        for set in &declared.sets {
            let position = self.plant(set, Some(at));
            self.sets[at].members.push(Member::Set(position));
        }
        at
    }

    fn duplicate_name(&self) -> Option<Text> {
        let mut names: Vec<&Text> = self.leaves.iter().map(|leaf| &leaf.name).collect();
        names.extend(self.sets.iter().skip(1).map(|set| &set.name));
        names.sort();
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
    }

    /// A tree that cannot be understood becomes one leaf that needs one pod.
    fn plant_fallback(&mut self, problem: Text) {
        self.sets.clear();
        self.leaves.clear();
        let leaf = crate::input::pod_group::GroupLeaf {
            name: DEFAULT_LEAF.into(),
            min_available: 1,
            topology: None,
        };
        self.plant(&GroupSet { leaves: vec![leaf], ..GroupSet::default() }, None);
        self.tree_problem = Some(problem);
    }
}
