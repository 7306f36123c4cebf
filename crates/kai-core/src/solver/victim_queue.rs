//! Victims in order: the queue that is furthest above its share gives first, and of a queue the job that would be
//! served last. What was taken from a queue counts when it competes again.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::cycle::Cycle;
use crate::cycle::members::{Batch, Part, Scope};
use crate::cycle::order::{Competition, Top};
use crate::fairness::Amounts;
use crate::ids::{JobId, QueueId, TaskId};
use crate::world::World;
use crate::world::index::{Fill, JobKey};

/// Jobs that may be victims.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    /// Leaf queues that may give, in name order.
    pub(crate) queues: Vec<QueueId>,
    /// Only jobs of lower priority than this.
    pub(crate) below_priority: Option<i32>,
    /// Jobs that are left alone.
    pub(crate) spared: FxHashSet<JobId>,
    /// How many jobs each queue may give, in the order of `queues`; empty: any number.
    pub(crate) most_jobs: Vec<usize>,
}

impl Candidates {
    /// Keeps only the first `most` jobs, in the order in which they would be taken.
    pub(crate) fn keep_first(&mut self, cycle: &Cycle<'_>, most: usize) {
        let mut order = VictimQueue::new(cycle, self);
        let mut kept = vec![0; self.queues.len()];
        for _ in 0..most {
            let Some(victims) = order.pop(cycle, self) else { return };
            let queue = cycle.world.job(victims.job).queue;
            let at = self.queues.iter().position(|giving| Some(*giving) == queue);
            if let Some(at) = at {
                kept[at] += 1;
            }
        }
        self.most_jobs = kept;
    }

    /// Jobs of a queue that may be victims, in the order in which they would be taken.
    pub(crate) fn in_order<'a>(
        &'a self,
        world: &'a World,
        queue: QueueId,
    ) -> impl Iterator<Item = &'a JobKey> {
        let keys = world.job_index.of(queue).running.iter().rev();
        let mut keys = keys.take_while(|key| !self.ends_at(world, key));
        std::iter::from_fn(move || keys.find(|key| self.includes(world, key)))
    }

    /// How many those are.
    pub(crate) fn count_in(&self, world: &World, queue: QueueId) -> usize {
        if self.below_priority.is_some() {
            return self.in_order(world, queue).count();
        }
        let running = &world.job_index.of(queue).running;
        let spared = self.spared.iter().filter(|job| running.contains(&world.job_key(**job)));
        running.len() - spared.count()
    }

    fn includes(&self, world: &World, key: &JobKey) -> bool {
        self.is_below(world, key) && !self.spared.contains(&key.job)
    }

    /// All jobs from here on have too high a priority.
    fn ends_at(&self, world: &World, key: &JobKey) -> bool {
        world.policy.orders_by_priority && !self.is_below(world, key)
    }

    fn is_below(&self, world: &World, key: &JobKey) -> bool {
        self.below_priority.is_none_or(|priority| world.job(key.job).spec.priority < priority)
    }
}

/// A job in the queue of victims: whole, or what is left of it.
#[derive(Clone, Debug)]
struct Entry {
    key: JobKey,
    part: Option<Arc<Part>>,
    /// What the pods it stands for hold.
    allocated: Amounts,
}

struct VictimLeaf {
    queue: QueueId,
    /// The last key taken from the index; the next is below it.
    taken: Option<JobKey>,
    /// How many jobs may still be taken from the index; zero also when it has no more.
    left: usize,
    /// What is left of jobs that gave some pods.
    returned: Vec<Entry>,
    /// What its victims so far had allocated.
    given: Amounts,
    top: Option<Entry>,
}

/// The queue of victims of one probe.
pub(crate) struct VictimQueue {
    leaves: Vec<VictimLeaf>,
    /// Tops by queue slot, kept to be filled again.
    tops: Vec<Option<Top>>,
}

/// A victim job, with the pods of it that are evicted next.
pub(crate) struct Victims {
    pub(crate) job: JobId,
    pub(crate) batch: Batch,
    part: Option<Arc<Part>>,
}

impl VictimQueue {
    pub(crate) fn new(cycle: &Cycle<'_>, candidates: &Candidates) -> Self {
        let most = |at: usize| candidates.most_jobs.get(at).copied().unwrap_or(usize::MAX);
        let leaves = candidates.queues.iter().enumerate().map(|(at, queue)| VictimLeaf {
            queue: *queue,
            taken: None,
            left: most(at),
            returned: Vec::new(),
            given: Amounts::ZERO,
            top: None,
        });
        let mut queue = Self { leaves: leaves.collect(), tops: Vec::new() };
        queue.leaves.iter_mut().for_each(|leaf| leaf.refresh(cycle.world, candidates));
        queue
    }

    /// No victims are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.top.is_none())
    }

    /// Takes the next victim job with those of its pods that are evicted first.
    pub(crate) fn pop(&mut self, cycle: &Cycle<'_>, candidates: &Candidates) -> Option<Victims> {
        let world = &cycle.world;
        let mut waiting = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.top.is_some());
        let at = match (waiting.next(), waiting.next()) {
            (None, _) => return None,
            (Some((only, _)), None) => only,
            (Some(_), Some(_)) => {
                let competition = Competition {
                    tree: &world.tree,
                    total: &cycle.total,
                    by_shares: world.policy.proportion.is_some(),
                    reversed: true,
                };
                self.tops.clear();
                self.tops.resize(world.tree.queues.len(), None);
                for leaf in &self.leaves {
                    self.tops[leaf.queue.index()] = leaf
                        .top
                        .as_ref()
                        .map(|top| Top { job: None, victims: Some(leaf.given + top.allocated) });
                }
                let winner = competition.winner(&self.tops)?;
                self.leaves.iter().position(|leaf| leaf.queue == winner)?
            }
        };
        let leaf = &mut self.leaves[at];
        let entry = leaf.top.take()?;
        leaf.given += entry.allocated;
        let job = entry.key.job;
        let scope = scope_of(job, entry.part.as_deref());
        let batch = world.tasks_to_evict(scope);
        leaf.refresh(world, candidates);
        Some(Victims { job, batch, part: entry.part })
    }

    /// Puts back what is left of a job after `gone` went, if that still competes.
    pub(crate) fn put_back(
        &mut self,
        cycle: &Cycle<'_>,
        candidates: &Candidates,
        victims: &Victims,
        gone: impl Fn(TaskId) -> bool,
    ) {
        let world = &cycle.world;
        let job = world.job(victims.job);
        let belongs = |task: &TaskId| {
            victims.part.as_ref().is_none_or(|part| part.tasks.contains(task)) && !gone(*task)
        };
        let tasks: FxHashSet<TaskId> = job.tasks().filter(belongs).collect();
        if !tasks.iter().any(|task| still_competes(world, *task)) {
            return;
        }
        let part = Arc::new(world.part_of(victims.job, tasks, false));
        let has_surplus =
            || !world.tasks_to_evict(scope_of(victims.job, Some(&part))).tasks.is_empty();
        if job.is_semi_preemptible() && !has_surplus() {
            return;
        }
        let entry = entry_of(world, victims.job, Some(part));
        let Some(queue) = job.queue else { return };
        let Some(leaf) = self.leaves.iter_mut().find(|leaf| leaf.queue == queue) else { return };
        if let Some(top) = leaf.top.take() {
            leaf.returned.push(top);
        }
        leaf.returned.push(entry);
        leaf.refresh(world, candidates);
    }
}

/// Whether a job of which just this pod is left is a victim that competes with others. A pod without a place
/// gives nothing; KAI lets such a job compete, too.
pub(crate) fn still_competes(world: &World, task: TaskId) -> bool {
    world.config.compatibility.is_kai() || world.task(task).state.status.is_active_allocated()
}

impl VictimLeaf {
    /// The last in job order of what the index has left and what came back.
    fn refresh(&mut self, world: &World, candidates: &Candidates) {
        if self.top.is_some() {
            return;
        }
        let last_returned = (0..self.returned.len())
            .max_by(|left, right| self.returned[*left].key.cmp(&self.returned[*right].key));
        let fresh = self.next_key(world, candidates);
        let use_returned = match (&fresh, last_returned) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(key), Some(at)) => self.returned[at].key > *key,
        };
        if use_returned {
            if let Some(at) = last_returned {
                self.top = Some(self.returned.swap_remove(at));
            }
            return;
        }
        self.top = fresh.map(|key| {
            let job = key.job;
            self.taken = Some(key);
            self.left -= 1;
            entry_of(world, job, None)
        });
    }

    fn next_key(&mut self, world: &World, candidates: &Candidates) -> Option<JobKey> {
        if self.left == 0 {
            return None;
        }
        let running = &world.job_index.of(self.queue).running;
        let found = match &self.taken {
            None => find_last(running.iter(), world, candidates),
            Some(key) => find_last(running.range(..key.clone()), world, candidates),
        };
        if found.is_none() {
            self.left = 0;
        }
        found
    }
}

fn find_last<'a>(
    keys: impl DoubleEndedIterator<Item = &'a JobKey>,
    world: &World,
    candidates: &Candidates,
) -> Option<JobKey> {
    let mut keys = keys.rev().take_while(|key| !candidates.ends_at(world, key));
    keys.find(|key| candidates.includes(world, key)).cloned()
}

fn scope_of(job: JobId, part: Option<&Part>) -> Scope<'_> {
    Scope { job, part }
}

fn entry_of(world: &World, job: JobId, part: Option<Arc<Part>>) -> Entry {
    let mut key = world.job_key(job);
    if let (Some(part), true) = (&part, world.policy.orders_by_fill) {
        key.fill = fill_of_part(world, job, part);
    }
    let belongs = |task: &TaskId| part.as_ref().is_none_or(|part| part.tasks.contains(task));
    let mut allocated = Amounts::ZERO;
    for task in world.job(job).tasks().filter(belongs) {
        if world.task(task).state.status.is_allocated() {
            allocated += world.shape_of(task).queue_cost().amounts(None);
        }
    }
    Entry { key, part, allocated }
}

pub(crate) fn fill_of_part(world: &World, job: JobId, part: &Part) -> Fill {
    let entry = world.job(job);
    crate::world::ledger::fill_of(entry.leaves.iter().enumerate().map(|(at, leaf)| {
        let placed = leaf.tasks.iter().filter(|task| {
            part.tasks.contains(*task) && world.task(**task).state.status.is_active_allocated()
        });
        (placed.count() as u32, part.leaf_min[at])
    }))
}

/// Leaf queues that have running jobs, in name order.
pub(crate) fn giving_queues(world: &World) -> BTreeSet<(crate::input::Text, QueueId)> {
    let queues = world.queue_ids.iter();
    queues
        .filter(|(_, id)| world.is_live_leaf(**id) && !world.job_index.of(**id).running.is_empty())
        .map(|(name, id)| (name.clone(), *id))
        .collect()
}
