//! The score of a node for a pod: what each listed plugin says, added up in the order of the list.

use crate::ids::TaskId;
use crate::placement::fit::When;
use crate::placement::node_set::NodeSet;
use crate::plugins::nodeplacement::{self, FreeRange, Strategy};
use crate::plugins::topology::TopologyScores;
use crate::plugins::{
    Score, gpusharingorder, nodeavailability, nominatednode, numa, podaffinity, resourcetype,
    topology,
};
use crate::world::World;
use crate::world::node::Node;

/// What scoring needs to know of all nodes tried before it looks at one.
pub(crate) struct ScoreContext<'a> {
    free: Option<FreeRange>,
    affinity: Option<podaffinity::DomainScores>,
    topology: &'a TopologyScores,
}

impl<'a> ScoreContext<'a> {
    pub(crate) fn new(
        world: &World,
        task: TaskId,
        nodes: &NodeSet,
        topology: &'a TopologyScores,
    ) -> Self {
        let shape = world.shape_of(task);
        let mut context = Self { free: None, affinity: None, topology };
        for rule in &world.policy.scores {
            match rule {
                Score::Placement(strategies) if strategies.of(shape) == Strategy::Pack => {
                    let tried = nodes.iter(world.nodes_by_rank.len());
                    let tried = tried.map(|rank| world.node(world.nodes_by_rank[rank]));
                    context.free = Some(FreeRange::over(tried, nodeplacement::slot(shape)));
                }
                Score::PodAffinity => {
                    context.affinity = podaffinity::scores(world, task);
                }
                _ => {}
            }
        }
        context
    }

    /// The score of `node`; none drops it.
    pub(crate) fn score(&self, world: &World, task: TaskId, node: &Node) -> Option<f64> {
        let shape = world.shape_of(task);
        let mut sum = 0.0;
        for rule in &world.policy.scores {
            sum += match rule {
                Score::Placement(strategies) => match (strategies.of(shape), self.free) {
                    (Strategy::Pack, Some(range)) => {
                        nodeplacement::pack(node, nodeplacement::slot(shape), range)
                    }
                    (Strategy::Pack, None) => 0.0,
                    (Strategy::Spread, _) => {
                        nodeplacement::spread(node, nodeplacement::slot(shape))
                    }
                },
                Score::Availability => {
                    if world.fits(task, node, When::Now) {
                        nodeavailability::SCORE
                    } else {
                        0.0
                    }
                }
                Score::GpuSharing => {
                    if gpusharingorder::applies(world, shape, node) {
                        gpusharingorder::SCORE
                    } else {
                        0.0
                    }
                }
                Score::ResourceType => {
                    if shape.is_cpu_only() && node.is_cpu_only() {
                        resourcetype::SCORE
                    } else {
                        0.0
                    }
                }
                Score::Nominated => {
                    let nominated = world.task(task).spec.nominated_node.as_ref();
                    if nominated == Some(node.name()) { nominatednode::SCORE } else { 0.0 }
                }
                Score::Topology => topology::score(world, self.topology, task, node)?,
                Score::PodAffinity => self.affinity.as_ref().map_or(0.0, |scores| scores.of(node)),
                Score::Numa => numa::score(world, task, node),
            };
        }
        Some(sum)
    }
}
