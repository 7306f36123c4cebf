//! Scores of nodes under a preferred level. Rule: the domains of that level, tightest first, share the scores up
//! to ten steps of 100 000, the loosest highest. A pod takes the scores of its leaf, else those of the nearest
//! set above that has any; a node without a score there is not for the pod.

use crate::ids::TaskId;
use crate::plugins::topology::tree::Tree;
use crate::world::World;
use crate::world::job_tree::Member;
use crate::world::node::Node;

const STEPS: f64 = 10.0;
const STEP: f64 = 100_000.0;

/// Scores by sub-group, good for one attempt to place a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopologyScores {
    members: Vec<(Member, Vec<Option<f64>>)>,
}

impl TopologyScores {
    /// Another attempt starts.
    /// No sub-group has scores.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.members.clear();
    }

    /// Scores the nodes of `domains`, which come tightest first.
    pub(super) fn set(&mut self, member: Member, tree: &Tree, domains: &[usize]) {
        let mut by_rank = vec![None; tree.node_count()];
        for (at, domain) in domains.iter().enumerate() {
            let score = step((at + 1) as f64 / domains.len() as f64);
            for rank in tree.ranks_in(*domain) {
                by_rank[rank] = Some(score);
            }
        }
        match self.members.iter_mut().find(|(known, _)| *known == member) {
            Some((_, scores)) => *scores = by_rank,
            None => self.members.push((member, by_rank)),
        }
    }

    fn of(&self, member: Member) -> Option<&[Option<f64>]> {
        self.members.iter().find(|(known, _)| *known == member).map(|(_, scores)| &**scores)
    }
}

/// Whole steps, so that no score of a lesser plugin is outweighed by accident.
fn step(part: f64) -> f64 {
    (part * STEPS).floor() * STEP
}

/// The score of `node` for a pod; none: the node is not for it.
pub(crate) fn score(
    world: &World,
    scores: &TopologyScores,
    task: TaskId,
    node: &Node,
) -> Option<f64> {
    if scores.members.is_empty() {
        return Some(0.0);
    }
    let entry = world.task(task);
    let (Some(job), Some(leaf)) = (entry.job, entry.leaf) else { return Some(0.0) };
    let job = world.job(job);
    let mut found = scores.of(Member::Leaf(leaf as usize));
    let mut next = Some(job.leaves[leaf as usize].declared.parent);
    while let (None, Some(set)) = (found, next) {
        found = scores.of(Member::Set(set));
        next = job.tree.sets[set].parent;
    }
    match found {
        None => Some(0.0),
        Some(by_rank) => by_rank.get(node.rank as usize).copied().flatten(),
    }
}
