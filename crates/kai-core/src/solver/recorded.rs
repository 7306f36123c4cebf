//! Victims that a successful probe hands to the next probe.
//!
//! By default these are the pods that are evicted or moved, each once, so that the next probe disturbs as few pods as
//! possible. KAI hands over whole batches: pods that were collected together, also those that kept their node. A pod
//! that is in two batches is handed over, and evicted, twice (fault 11).

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::TaskId;
use crate::solver::simulate::Scenario;
use crate::status::Status;
use crate::world::World;

/// Victims of the largest success so far.
#[derive(Clone, Default, Debug)]
pub(crate) struct RecordedVictims {
    /// Victims, batch after batch; under `kai` a pod can occur twice.
    pub(crate) tasks: Vec<TaskId>,
    /// Where each batch ends in `tasks`.
    batch_ends: Vec<usize>,
}

/// Slices of `tasks` that end where `ends` says.
pub(crate) fn batches<'a>(
    tasks: &'a [TaskId],
    ends: &'a [usize],
) -> impl Iterator<Item = &'a [TaskId]> {
    let mut start = 0;
    ends.iter().map(move |end| &tasks[std::mem::replace(&mut start, *end)..*end])
}

impl RecordedVictims {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Every victim once, in order.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = TaskId> + '_ {
        let mut visited: FxHashSet<TaskId> = FxHashSet::default();
        self.tasks.iter().copied().filter(move |task| visited.insert(*task))
    }

    /// What the next probe starts from after `scenario` succeeded with the victims `before` it.
    pub(crate) fn after(world: &World, before: &Self, scenario: &Scenario) -> Self {
        let victims = scenario.victims(&before.tasks);
        let disturbed = disturbed(world, &victims);
        if world.config.compatibility.is_kai() {
            Self::whole_batches(before, scenario, &disturbed)
        } else {
            Self { batch_ends: vec![disturbed.len()], tasks: disturbed }
        }
    }

    /// For each disturbed pod that no chosen batch contains, the first batch that contains it.
    fn whole_batches(before: &Self, scenario: &Scenario, disturbed: &[TaskId]) -> Self {
        let recorded = batches(&before.tasks, &before.batch_ends);
        let potential = batches(&scenario.potential, &scenario.batch_ends);
        let all: Vec<&[TaskId]> = recorded.chain(potential).collect();
        let mut first_batch: FxHashMap<TaskId, usize> = FxHashMap::default();
        for (at, batch) in all.iter().enumerate() {
            for task in *batch {
                first_batch.entry(*task).or_insert(at);
            }
        }
        let mut covered: FxHashSet<TaskId> = FxHashSet::default();
        let mut chosen = Self::default();
        for task in disturbed {
            let Some(at) = first_batch.get(task).filter(|_| !covered.contains(task)) else {
                continue;
            };
            let mut in_batch: FxHashSet<TaskId> = FxHashSet::default();
            chosen.tasks.extend(all[*at].iter().filter(|task| in_batch.insert(**task)));
            chosen.batch_ends.push(chosen.tasks.len());
            covered.extend(in_batch);
        }
        chosen
    }
}

/// Victims that are evicted, then victims that move, each once.
fn disturbed(world: &World, victims: &[TaskId]) -> Vec<TaskId> {
    let status = |task: &TaskId| world.task(*task).state.status;
    let mut visited: FxHashSet<TaskId> = FxHashSet::default();
    let mut found = Vec::with_capacity(victims.len());
    for wanted in [Status::Releasing, Status::Pipelined] {
        let of_status = victims.iter().filter(|task| status(task) == wanted);
        found.extend(of_status.filter(|task| visited.insert(**task)));
    }
    found
}
