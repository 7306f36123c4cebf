//! Pods for which every set of victims was ruled out by counting. In consolidation the victims, their order and what
//! is counted are the same for every job, so the same pod of another job has no better chance while the world is
//! the same.

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::plugins::scenario_generators::Generator;
use crate::solver::{Probe, Rules, Search, may_skip_sets};
use crate::world::World;
use crate::world::shape::GpuDemand;

/// By generator and demand: the state of the world in which nothing could help.
#[derive(Default)]
pub(crate) struct RuledOut {
    states: FxHashMap<Demand, u64>,
}

/// What decides which sets are ruled out for a single pod.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Demand {
    generator: Generator,
    gpu: GpuDemand,
}

impl Demand {
    /// None for probes of several pods, and where more than devices is looked at before a set is tried.
    pub(super) fn of(
        world: &World,
        search: &Search,
        generator: Generator,
        probe: &Probe<'_>,
    ) -> Option<Self> {
        let [task] = probe.tasks else { return None };
        let counts = matches!(search.rules, Rules::Consolidation)
            && probe.recorded.is_empty()
            && may_skip_sets(world)
            && search.spares_only_idle_jobs(world)
            && asks_for_devices_only(world, search, *task);
        counts.then(|| Self { generator, gpu: world.shape_of(*task).gpu.clone() })
    }
}

/// Neither claims nor places of any kind matter to the pod.
pub(super) fn asks_for_devices_only(world: &World, search: &Search, task: TaskId) -> bool {
    let shape = world.shape_of(task);
    let job = world.job(search.job);
    shape.claimed_gpus == 0
        && world.task(task).claims.is_empty()
        && shape.constraints.node_selector.is_empty()
        && shape.constraints.node_terms.is_empty()
        && shape.constraints.avoided_nodes.is_empty()
        && job.tree.sets.iter().all(|set| set.topology.is_none())
        && job.leaves.iter().all(|leaf| leaf.declared.topology.is_none())
}

impl RuledOut {
    pub(super) fn contains(&self, world: &World, demand: &Demand) -> bool {
        self.states.get(demand) == Some(&world.state_id())
    }

    pub(super) fn remember(&mut self, world: &World, demand: Demand) {
        self.states.insert(demand, world.state_id());
    }
}
