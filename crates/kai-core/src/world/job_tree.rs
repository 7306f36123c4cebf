//! Trees of pod groups: which sets and leaves a group declares. Most groups of a cluster declare one of few trees, so equal
//! trees are kept once.

use std::sync::Arc;

use crate::input::Text;
use crate::input::pod_group::{DEFAULT_LEAF, GroupLeaf, GroupSet, TopologyConstraint};
use crate::keyed_hash::KeyedMap;

/// Sets and leaves of a job, in the order in which they were declared, sets before the sets below them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobTree {
    /// Sets; the first is the root.
    pub sets: Vec<Set>,
    /// Leaves by position in the job.
    pub leaves: Vec<Arc<DeclaredLeaf>>,
    /// Why the declared tree was not used.
    pub problem: Option<Text>,
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

/// What a leaf demands of its pods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeclaredLeaf {
    /// Name that pods refer to.
    pub name: Text,
    /// Position of the set that the leaf is a direct member of.
    pub parent: usize,
    /// How many pods are needed.
    pub min_available: u32,
    /// Where its pods must or should be together.
    pub topology: Option<TopologyConstraint>,
}

impl JobTree {
    /// The tree of a group that declares `root`. A tree that cannot be understood becomes one leaf that needs one pod.
    pub fn new(root: &GroupSet) -> Self {
        let mut tree = Self::default();
        tree.plant(root, None);
        let Some(name) = tree.duplicate_name() else { return tree };
        let leaf = GroupLeaf { name: DEFAULT_LEAF.into(), min_available: 1, topology: None };
        let problem = format!("sub-group {name:?} is declared twice");
        let mut fallback = Self { problem: Some(problem.into()), ..Self::default() };
        fallback.plant(&GroupSet { leaves: vec![leaf], ..GroupSet::default() }, None);
        fallback
    }

    fn plant(&mut self, declared: &GroupSet, parent: Option<usize>) -> usize {
        let at = self.sets.len();
        self.sets.push(Set {
            name: declared.name.clone(),
            parent,
            min_members: declared.min_members,
            topology: declared.topology.clone(),
            members: Vec::with_capacity(declared.leaves.len() + declared.sets.len()),
        });
        for leaf in &declared.leaves {
            self.leaves.push(Arc::new(DeclaredLeaf {
                name: leaf.name.clone(),
                parent: at,
                min_available: leaf.min_available,
                topology: leaf.topology.clone(),
            }));
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
}

/// Up to this number of trees none is dropped.
const FEW_TREES: usize = 64;

/// Trees of the jobs of a world, each kept once.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobTrees {
    known: KeyedMap<Arc<GroupSet>, Arc<JobTree>>,
    /// The tree of slots whose pod group is gone.
    empty: (Arc<GroupSet>, Arc<JobTree>),
    /// Trees that were in use when unused ones were last dropped.
    used: usize,
}

impl JobTrees {
    /// The tree that `declared` describes. `declared` is replaced by the equal value that other groups have.
    pub(crate) fn share(&mut self, declared: &mut Arc<GroupSet>) -> Arc<JobTree> {
        if let Some((known, tree)) = self.known.get_key_value(declared) {
            *declared = Arc::clone(known);
            return Arc::clone(tree);
        }
        self.drop_unused();
        let tree = Arc::new(JobTree::new(declared));
        self.known.insert(Arc::clone(declared), Arc::clone(&tree));
        tree
    }

    /// The tree of a slot whose pod group is gone, as declared and as planted.
    pub(crate) fn empty(&self) -> (Arc<GroupSet>, Arc<JobTree>) {
        self.empty.clone()
    }

    /// Drops trees without jobs once there may be as many of them as of others.
    fn drop_unused(&mut self) {
        if self.known.len() >= FEW_TREES.max(2 * self.used) {
            self.known.retain(|_, tree| Arc::strong_count(tree) > 1);
            self.used = self.known.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{FEW_TREES, JobTrees};
    use crate::input::pod_group::{DEFAULT_LEAF, GroupLeaf, GroupSet};

    fn declared(min_available: u32) -> Arc<GroupSet> {
        let leaf = GroupLeaf { name: DEFAULT_LEAF.into(), min_available, topology: None };
        Arc::new(GroupSet { leaves: vec![leaf], ..GroupSet::default() })
    }

    #[test]
    fn groups_that_declare_equal_trees_share_one() {
        let mut trees = JobTrees::default();
        let (mut one, mut other) = (declared(2), declared(2));
        let (tree, same) = (trees.share(&mut one), trees.share(&mut other));
        assert!(Arc::ptr_eq(&tree, &same));
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn trees_without_jobs_are_dropped() {
        let mut trees = JobTrees::default();
        let kept = trees.share(&mut declared(1));
        for min_available in 2..10 * FEW_TREES as u32 {
            trees.share(&mut declared(min_available));
        }
        assert!(trees.known.len() <= FEW_TREES);
        assert!(Arc::ptr_eq(&kept, &trees.share(&mut declared(1))));
    }
}
