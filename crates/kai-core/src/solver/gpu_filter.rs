//! Whether enough GPUs could be free: each pod's GPUs, largest first, on the node with the most that still has
//! enough. Fewer can never do, so that nothing is tried before.

use crate::cycle::Cycle;
use crate::ids::{NodeId, TaskId};
use crate::solver::Probe;
use crate::world::World;

/// The node was not examined yet.
const UNKNOWN: i64 = i64::MIN;

/// GPUs that could be free, in hundredths, against what the pods of a probe want.
pub(crate) struct GpuFilter {
    /// What each pod wants, largest first.
    wanted: Vec<i64>,
    /// All pods want this much.
    uniform: Option<i64>,
    /// For uniform pods: how many of them fit all nodes together.
    slots: i64,
    /// What could be free by node slot, as far as it was computed.
    capacity: Vec<i64>,
    /// Nodes with anything free, becoming free or freed.
    nodes: Vec<NodeId>,
    /// Sorted capacities are out of date.
    dirty: bool,
    verdict: bool,
}

impl GpuFilter {
    pub(crate) fn new(cycle: &Cycle<'_>, probe: &Probe<'_>) -> Self {
        let world = &cycle.world;
        let mut wanted: Vec<i64> =
            probe.tasks.iter().map(|task| world.shape_of(*task).quota_centi()).collect();
        wanted.sort_unstable_by(|left, right| right.cmp(left));
        let uniform = match (wanted.first(), wanted.last()) {
            (Some(first), Some(last)) if first == last && *first > 0 => Some(*first),
            _ => None,
        };
        let mut capacity = vec![UNKNOWN; world.nodes.len()];
        let mut nodes = Vec::new();
        let mut slots = 0;
        for rank in world.free_gpus.partly_free().iter() {
            let id = world.nodes_by_rank[rank];
            let free = available_centi(world, id);
            slots += uniform.map_or(0, |wanted| (free / wanted).max(0));
            capacity[id.index()] = free;
            nodes.push(id);
        }
        Self { wanted, uniform, slots, capacity, nodes, dirty: true, verdict: false }
    }

    /// A victim would free its GPUs.
    pub(crate) fn free(&mut self, world: &World, task: TaskId) {
        let state = &world.task(task).state;
        let Some(node) = state.node else { return };
        if self.capacity[node.index()] == UNKNOWN {
            self.nodes.push(node);
        }
        let before = self.capacity_of(world, node);
        let after = before.saturating_add(state.accepted.gpu_centi);
        self.capacity[node.index()] = after;
        if let Some(wanted) = self.uniform {
            self.slots += (after / wanted).max(0) - (before / wanted).max(0);
        }
        self.dirty = true;
    }

    /// What could be free on a node, in hundredths of a GPU.
    pub(crate) fn capacity_of(&self, world: &World, node: NodeId) -> i64 {
        match self.capacity[node.index()] {
            UNKNOWN => available_centi(world, node),
            known => known,
        }
    }

    /// What each pod wants, largest first.
    pub(crate) fn wanted(&self) -> &[i64] {
        &self.wanted
    }

    pub(crate) fn accepts(&mut self) -> bool {
        if self.uniform.is_some() {
            return self.slots >= self.wanted.len() as i64;
        }
        if self.dirty {
            self.dirty = false;
            self.verdict = self.match_greedily();
        }
        self.verdict
    }

    fn match_greedily(&self) -> bool {
        let mut holders: Vec<i64> =
            self.nodes.iter().map(|node| self.capacity[node.index()]).collect();
        holders.sort_unstable_by(|left, right| right.cmp(left));
        holders.truncate(self.wanted.len());
        match_wanted(&self.wanted, &holders)
    }
}

/// Each demand takes the first holder with enough left; a demand of nothing ends the matching.
pub(crate) fn match_wanted(wanted: &[i64], holders: &[i64]) -> bool {
    let mut left = holders.to_vec();
    for demand in wanted {
        if *demand == 0 {
            return true;
        }
        match left.iter_mut().find(|left| **left >= *demand) {
            Some(holder) => *holder -= demand,
            None => return false,
        }
    }
    true
}

/// Hundredths of GPUs that are free or becoming free.
pub(crate) fn available_centi(world: &World, node: NodeId) -> i64 {
    let node = world.node(node);
    node.idle_gpu_centi(&world.names) + node.releasing_gpu_centi(&world.names)
}
