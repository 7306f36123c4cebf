//! Victims collected one after the other until enough could be free. What was collected is kept by job and by node,
//! so that generators make sets of it without looking at all of it again.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::cycle::Cycle;
use crate::cycle::members::Tasks;
use crate::ids::{JobId, NodeId, TaskId};
use crate::plugins::predicates::kubernetes;
use crate::solver::gpu_filter::GpuFilter;
use crate::solver::topology_filter::TopologyFilter;
use crate::solver::trace::{At, Step};
use crate::solver::victim_queue::{VictimQueue, still_competes};
use crate::solver::{Probe, Search};
use crate::world::World;
use crate::world::index::RankSet;

/// Victims collected so far in one probe.
pub(crate) struct Accumulation {
    source: Source,
    recorded: FxHashSet<TaskId>,
    /// Potential victims, in the order they were collected.
    pub(crate) steps: Vec<Step>,
    /// Steps of jobs that came more than once can only be distinguished here; empty while every job comes once.
    steps_of_job: FxHashMap<JobId, Vec<usize>>,
    /// Nodes with a potential victim, in the order they came.
    pub(crate) nodes: Vec<NodeId>,
    /// Steps by node: the latest entry of each node, counted from one; each entry knows the one before.
    latest_on_node: FxHashMap<NodeId, u32>,
    entries: Vec<(u32, u32)>,
    /// What could be free on each node.
    pub(crate) gpus: GpuFilter,
    topology: Option<TopologyFilter>,
    affinity: Option<AffinityFilter>,
}

/// Where victims come from.
enum Source {
    /// The order all probes share, from this position on.
    Shared(usize),
    /// An order of its own.
    Own(VictimQueue),
}

/// Pods with node affinity need some node among those that could be used.
struct AffinityFilter {
    tasks: Vec<TaskId>,
    /// Nodes known to be usable; none: all.
    usable: Option<RankSet>,
    unmatched: Vec<TaskId>,
}

impl Accumulation {
    pub(crate) fn new(cycle: &mut Cycle<'_>, search: &Search, probe: &Probe<'_>) -> Self {
        let mut gpus = GpuFilter::new(cycle, probe);
        let mut topology = TopologyFilter::new(cycle, search.job, probe);
        let mut affinity = AffinityFilter::new(cycle, search, probe);
        for task in probe.recorded.distinct() {
            gpus.free(cycle.world, task);
            if let Some(filter) = &mut topology {
                filter.free(cycle.world, task);
            }
            if let Some(filter) = &mut affinity {
                filter.open(cycle, task);
            }
        }
        let source = if cycle.world.naive {
            Source::Own(VictimQueue::new(cycle, &search.candidates))
        } else {
            Source::Shared(0)
        };
        Self {
            source,
            recorded: probe.recorded.tasks.iter().copied().collect(),
            steps: Vec::new(),
            steps_of_job: FxHashMap::default(),
            nodes: Vec::new(),
            latest_on_node: FxHashMap::default(),
            entries: Vec::new(),
            gpus,
            topology,
            affinity,
        }
    }

    /// Whether what was collected could be enough.
    pub(crate) fn accepts(&mut self, cycle: &Cycle<'_>, _: &Search, _: &Probe<'_>) -> bool {
        self.affinity.as_mut().is_none_or(|filter| filter.accepts(cycle))
            && self.topology.as_ref().is_none_or(TopologyFilter::accepts)
            && self.gpus.accepts()
    }

    /// Collects the next victims; false when there are none left.
    pub(crate) fn grow(&mut self, cycle: &Cycle<'_>, search: &mut Search) -> bool {
        while let Source::Shared(position) = self.source {
            let (job, tasks) = match search.trace.at(cycle, &search.candidates, position) {
                At::End => return false,
                At::Broken => {
                    self.collect_alone(cycle, search, position);
                    break;
                }
                At::Step(step) => (step.job, step.tasks.clone()),
            };
            let taken = tasks.iter().filter(|task| self.recorded.contains(task)).count();
            if taken != 0 && self.comes_back(cycle.world, job) {
                self.collect_alone(cycle, search, position);
                break;
            }
            self.source = Source::Shared(position + 1);
            if taken == 0 {
                self.add(cycle, job, tasks);
                return true;
            }
        }
        self.grow_alone(cycle, search)
    }

    /// Whether something of a job that earlier successes took, or a part of it, competes again.
    fn comes_back(&self, world: &World, job: JobId) -> bool {
        let mut rest = world.job(job).tasks().filter(|task| !self.recorded.contains(task));
        rest.any(|task| still_competes(world, task))
    }

    /// Goes on with an order of its own, from the same position: what came before is the same there.
    fn collect_alone(&mut self, cycle: &Cycle<'_>, search: &Search, position: usize) {
        let mut queue = VictimQueue::new(cycle, &search.candidates);
        for _ in 0..position {
            queue.pop(cycle, &search.candidates);
        }
        self.source = Source::Own(queue);
        for (at, step) in self.steps.iter().enumerate() {
            self.steps_of_job.entry(step.job).or_default().push(at);
        }
    }

    fn grow_alone(&mut self, cycle: &Cycle<'_>, search: &Search) -> bool {
        let Source::Own(queue) = &mut self.source else { return false };
        loop {
            let Some(victims) = queue.pop(cycle, &search.candidates) else { return false };
            let tasks = &victims.batch.tasks;
            if tasks.iter().any(|task| self.recorded.contains(task)) {
                let recorded = &self.recorded;
                queue
                    .put_back(cycle, &search.candidates, &victims, |task| recorded.contains(&task));
                continue;
            }
            // A job without a pod in place speaks for its queue, no more.
            if tasks.is_empty() {
                continue;
            }
            if victims.batch.more {
                queue.put_back(cycle, &search.candidates, &victims, |task| tasks.contains(&task));
            }
            let (job, tasks) = (victims.job, tasks.clone());
            self.steps_of_job.entry(job).or_default().push(self.steps.len());
            self.add(cycle, job, tasks);
            return true;
        }
    }

    fn add(&mut self, cycle: &Cycle<'_>, job: JobId, tasks: Tasks) {
        let step = self.steps.len() as u32;
        for task in &tasks {
            self.gpus.free(cycle.world, *task);
            if let Some(filter) = &mut self.topology {
                filter.free(cycle.world, *task);
            }
            if let Some(filter) = &mut self.affinity {
                filter.open(cycle, *task);
            }
            let Some(node) = cycle.world.task(*task).state.node else { continue };
            let latest = self.latest_on_node.entry(node).or_default();
            if *latest == 0 {
                self.nodes.push(node);
            } else if self.entries[*latest as usize - 1].0 == step {
                continue;
            }
            self.entries.push((step, *latest));
            *latest = self.entries.len() as u32;
        }
        self.steps.push(Step { job, tasks });
    }

    /// Whether a potential victim is on the node.
    pub(crate) fn touches(&self, node: NodeId) -> bool {
        self.latest_on_node.contains_key(&node)
    }

    /// Steps that touch the node, in the order they came.
    pub(crate) fn steps_on(&self, node: NodeId) -> SmallVec<[usize; 16]> {
        let mut found: SmallVec<[usize; 16]> = self.steps_back_on(node).collect();
        found.reverse();
        found
    }

    /// Steps that touch the node, the latest first.
    pub(crate) fn steps_back_on(&self, node: NodeId) -> impl Iterator<Item = usize> + '_ {
        let mut entry = self.latest_on_node.get(&node).copied().unwrap_or(0);
        std::iter::from_fn(move || {
            let (step, before) = *self.entries.get((entry as usize).checked_sub(1)?)?;
            entry = before;
            Some(step as usize)
        })
    }

    /// All steps of the job that came at `step`.
    pub(crate) fn steps_of(&self, step: usize) -> SmallVec<[usize; 4]> {
        match self.steps_of_job.get(&self.steps[step].job) {
            Some(steps) => steps.iter().copied().collect(),
            None => SmallVec::from_slice(&[step]),
        }
    }
}

impl AffinityFilter {
    fn new(cycle: &Cycle<'_>, search: &Search, probe: &Probe<'_>) -> Option<Self> {
        let tasks: Vec<TaskId> = probe
            .tasks
            .iter()
            .copied()
            .filter(|task| {
                let constraints = &cycle.world.shape_of(*task).constraints;
                !constraints.node_selector.is_empty()
                    || !constraints.node_terms.is_empty()
                    || !constraints.avoided_nodes.is_empty()
            })
            .collect();
        if tasks.is_empty() {
            return None;
        }
        let mut filter = Self { unmatched: tasks.clone(), tasks, usable: search.feasible.clone() };
        let ranks: Vec<usize> = match &filter.usable {
            None => (0..cycle.world.nodes_by_rank.len()).collect(),
            Some(usable) => usable.iter().collect(),
        };
        for rank in ranks {
            filter.look_at(cycle, cycle.world.nodes_by_rank[rank]);
        }
        Some(filter)
    }

    fn open(&mut self, cycle: &Cycle<'_>, task: TaskId) {
        let Some(node) = cycle.world.task(task).state.node else { return };
        let rank = cycle.world.node(node).rank as usize;
        if let Some(usable) = &mut self.usable
            && !usable.contains(rank)
        {
            usable.insert(rank);
            self.look_at(cycle, node);
        }
    }

    fn look_at(&mut self, cycle: &Cycle<'_>, node: NodeId) {
        let node = cycle.world.node(node);
        self.unmatched.retain(|task| {
            let constraints = &cycle.world.shape_of(*task).constraints;
            !kubernetes::matches_node(constraints, node)
        });
    }

    fn accepts(&mut self, _: &Cycle<'_>) -> bool {
        debug_assert!(self.unmatched.len() <= self.tasks.len());
        self.unmatched.is_empty()
    }
}
