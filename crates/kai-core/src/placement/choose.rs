//! The node that a pod gets: of all nodes tried the one with the highest score that it fits and that no rule refuses;
//! of equal ones the first by name. Where packing decides alone, an index gives the same answer without a scan.

use crate::ids::{NodeId, TaskId};
use crate::placement::fit::When;
use crate::placement::node_set::NodeSet;
use crate::placement::score::ScoreContext;
use crate::plugins::nodeplacement::Strategy;
use crate::plugins::topology::TopologyScores;
use crate::plugins::{Filter, Score, dynamicresources, numa, podaffinity, predicates};
use crate::report::refusal::NodeRefusal;
use crate::resources::GPU;
use crate::world::World;
use crate::world::node::Node;
use crate::world::shape::GpuDemand;

/// The search for a node, with what it cost.
pub(crate) struct NodeSearch<'a> {
    pub(crate) task: TaskId,
    pub(crate) nodes: &'a NodeSet,
    pub(crate) topology: &'a TopologyScores,
    /// Nodes on which placing the pod failed although it fitted.
    pub(crate) failed: Vec<NodeId>,
    /// Number of nodes examined; part of the cycle's work units.
    pub(crate) tried: u64,
}

impl NodeSearch<'_> {
    /// The best node that was not tried yet.
    pub(crate) fn best(&mut self, world: &World) -> Option<NodeId> {
        if !world.naive && self.failed.is_empty() && self.index_decides(world) {
            return self.best_by_index(world);
        }
        self.best_by_scan(world)
    }

    /// Looks at every node tried.
    pub(crate) fn best_by_scan(&mut self, world: &World) -> Option<NodeId> {
        let context = ScoreContext::new(world, self.task, self.nodes, self.topology);
        let filter = TaskFilter::new(world, self.task);
        let mut best: Option<(f64, NodeId)> = None;
        for rank in self.nodes.iter(world.nodes_by_rank.len()) {
            let id = world.nodes_by_rank[rank];
            let node = world.node(id);
            self.tried += 1;
            if !world.fits(self.task, node, When::Later) || self.failed.contains(&id) {
                continue;
            }
            let Some(score) = context.score(world, self.task, node) else { continue };
            if best.is_some_and(|(highest, _)| score <= highest) {
                continue;
            }
            if filter.refuses(world, id).is_none() {
                best = Some((score, id));
            }
        }
        best.map(|(_, id)| id)
    }

    /// Scores order whole-GPU pods by "can start now", then by fewest free devices, then by name, exactly when the
    /// listed plugins are those that say nothing else about such pods.
    pub(crate) fn index_decides(&self, world: &World) -> bool {
        let spec = &world.task(self.task).spec;
        let shape = world.shape_of(self.task);
        let whole = matches!(shape.gpu, GpuDemand::Whole { count } if count > 0);
        if !whole
            || shape.claimed_gpus > 0
            || spec.nominated_node.is_some()
            || world.has_replica_nodes()
        {
            return false;
        }
        let mut packs = false;
        for rule in &world.policy.scores {
            match rule {
                Score::Placement(strategies) => packs = strategies.of(shape) == Strategy::Pack,
                Score::Availability
                | Score::GpuSharing
                | Score::ResourceType
                | Score::Nominated => {}
                Score::Topology if self.topology.is_empty() => {}
                Score::PodAffinity if podaffinity::is_silent(world, self.task) => {}
                Score::Topology | Score::PodAffinity | Score::Numa => return false,
            }
        }
        packs && world.policy.scores.contains(&Score::Availability)
    }

    /// Nodes by free devices, fewest first, then by name. The first that can start the pod now wins; else the first
    /// to which it can be nominated.
    pub(crate) fn best_by_index(&mut self, world: &World) -> Option<NodeId> {
        let wanted = usize::try_from(world.shape_of(self.task).request.get(GPU)).ok()?;
        let filter = TaskFilter::new(world, self.task);
        let some_idle = world.free_gpus.some_idle(wanted);
        let mut nomination = None;
        for free in wanted..=world.free_gpus.most_free() {
            let Some(bucket) = world.free_gpus.with_free(free) else { break };
            let mut from = 0;
            while let Some(rank) = bucket.next(from) {
                from = rank + 1;
                if !self.nodes.contains(rank) {
                    continue;
                }
                let id = world.nodes_by_rank[rank];
                let node = world.node(id);
                self.tried += 1;
                let now = some_idle && world.fits(self.task, node, When::Now);
                // After nominated pods less can be free later than now: a pod that could start must fit both.
                if (now || nomination.is_none())
                    && world.fits(self.task, node, When::Later)
                    && filter.refuses(world, id).is_none()
                {
                    if now || !some_idle {
                        return Some(id);
                    }
                    nomination = Some(id);
                }
            }
        }
        nomination
    }

    /// Why every node tried refuses the pod, in name order.
    pub(crate) fn refusals(&self, world: &World, mut each: impl FnMut(&Node, NodeRefusal)) {
        let filter = TaskFilter::new(world, self.task);
        for rank in self.nodes.iter(world.nodes_by_rank.len()) {
            let id = world.nodes_by_rank[rank];
            if let Some(refusal) = filter.refusal_of(world, id) {
                each(world.node(id), refusal);
            }
        }
    }
}

/// The rules of all listed plugins for one pod.
pub(crate) struct TaskFilter {
    task: TaskId,
    shares: bool,
    predicates: Option<predicates::TaskContext>,
}

impl TaskFilter {
    pub(crate) fn new(world: &World, task: TaskId) -> Self {
        let wanted = world.policy.filters.contains(&Filter::Predicates);
        Self {
            task,
            shares: world.shape_of(task).is_shared() || world.has_replica_nodes(),
            predicates: wanted.then(|| predicates::TaskContext::new(world, task)),
        }
    }

    /// Why a node refuses the pod: what it lacks, else the first rule.
    pub(crate) fn refusal_of(&self, world: &World, id: NodeId) -> Option<NodeRefusal> {
        let node = world.node(id);
        if world.fits(self.task, node, When::Later) {
            return self.refuses(world, id);
        }
        let lacking = world.shortages(self.task, node);
        let lacking = lacking.or_else(|| self.lacks_storage(world, id));
        let names_more_reasons = !world.config.compatibility.is_kai();
        lacking.or_else(|| names_more_reasons.then(|| self.refuses(world, id)).flatten())
    }

    /// Why the pod's storage cannot be had on the node, where that is looked at.
    fn lacks_storage(&self, world: &World, node: NodeId) -> Option<NodeRefusal> {
        self.predicates.as_ref()?.storage_refusal(world, node)
    }

    /// The first refusal, in the order of the list.
    fn refuses(&self, world: &World, node: NodeId) -> Option<NodeRefusal> {
        for rule in &world.policy.filters {
            let verdict = match rule {
                Filter::Predicates => match &self.predicates {
                    Some(context) => {
                        let opened =
                            if self.shares { world.devices_to_open(self.task, node) } else { 0 };
                        context.check_node(world, node, opened)
                    }
                    None => Ok(()),
                },
                Filter::Claims => dynamicresources::check_node(world, self.task, node),
                Filter::Numa => numa::check_node(world, self.task, node),
            };
            if let Err(refusal) = verdict {
                return Some(refusal);
            }
        }
        None
    }
}
