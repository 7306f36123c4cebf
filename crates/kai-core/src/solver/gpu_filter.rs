//! Whether enough GPUs could be free: each pod's GPUs, largest first, on the node with the most that still has
//! enough. Fewer can never do, so that nothing is tried before.

use rustc_hash::FxHashMap;

use crate::cycle::Cycle;
use crate::ids::{NodeId, TaskId};
use crate::solver::Probe;
use crate::world::World;

/// GPUs that could be free, in hundredths, against what the pods of a probe want.
pub(crate) struct GpuFilter {
    /// What each pod wants, largest first.
    wanted: Vec<i64>,
    /// All pods want this much.
    uniform: Option<i64>,
    /// For uniform pods: how many of them fit all nodes together.
    slots: i64,
    /// What could be free on nodes with anything free, becoming free or freed. Sparse: a probe of one pod touches few
    /// nodes, however many there are.
    capacity: FxHashMap<NodeId, i64>,
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
        let mut capacity = FxHashMap::default();
        let mut slots = 0;
        for rank in world.free_gpus.partly_free().iter() {
            let id = world.nodes_by_rank[rank];
            let free = available_centi(world, id);
            slots += uniform.map_or(0, |wanted| (free / wanted).max(0));
            capacity.insert(id, free);
        }
        Self { wanted, uniform, slots, capacity, dirty: true, verdict: false }
    }

    /// A victim would free its GPUs.
    pub(crate) fn free(&mut self, world: &World, task: TaskId) {
        let state = &world.task(task).state;
        let Some(node) = state.node else { return };
        let known = self.capacity.entry(node).or_insert_with(|| available_centi(world, node));
        let before = *known;
        let after = before.saturating_add(state.accepted.gpu_centi);
        *known = after;
        if let Some(wanted) = self.uniform {
            self.slots += (after / wanted).max(0) - (before / wanted).max(0);
        }
        self.dirty = true;
    }

    /// What could be free on a node, in hundredths of a GPU.
    pub(crate) fn capacity_of(&self, world: &World, node: NodeId) -> i64 {
        self.capacity.get(&node).copied().unwrap_or_else(|| available_centi(world, node))
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
        let mut holders: Vec<i64> = self.capacity.values().copied().collect();
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
