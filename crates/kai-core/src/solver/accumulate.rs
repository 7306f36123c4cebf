//! Victims collected one after the other until enough could be free. What was collected is kept by job and by node,
//! so that generators make sets of it without looking at all of it again.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cycle::Cycle;
use crate::cycle::members::Tasks;
use crate::ids::{JobId, NodeId, TaskId};
use crate::plugins::predicates::kubernetes;
use crate::solver::gpu_filter::GpuFilter;
use crate::solver::topology_filter::TopologyFilter;
use crate::solver::victim_queue::VictimQueue;
use crate::solver::{Probe, Search};
use crate::world::index::RankSet;

/// One step of collecting.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) job: JobId,
    pub(crate) tasks: Tasks,
}

/// Victims collected so far in one probe.
pub(crate) struct Accumulation {
    queue: VictimQueue,
    recorded: FxHashSet<TaskId>,
    /// Potential victims, in the order they were collected.
    pub(crate) steps: Vec<Step>,
    /// Steps of each job.
    pub(crate) steps_of_job: FxHashMap<JobId, Vec<usize>>,
    /// Jobs with a potential victim on a node, in the order they came.
    pub(crate) jobs_on_node: FxHashMap<NodeId, Vec<JobId>>,
    /// Nodes with a potential victim, in the order they came.
    pub(crate) nodes: Vec<NodeId>,
    /// Steps that touch a node.
    pub(crate) steps_on_node: FxHashMap<NodeId, Vec<usize>>,
    /// What could be free on each node.
    pub(crate) gpus: GpuFilter,
    topology: Option<TopologyFilter>,
    affinity: Option<AffinityFilter>,
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
        for task in probe.recorded {
            gpus.free(cycle.world, *task);
            if let Some(filter) = &mut topology {
                filter.free(cycle.world, *task);
            }
            if let Some(filter) = &mut affinity {
                filter.open(cycle, *task);
            }
        }
        Self {
            queue: VictimQueue::new(cycle, &search.candidates),
            recorded: probe.recorded.iter().copied().collect(),
            steps: Vec::new(),
            steps_of_job: FxHashMap::default(),
            jobs_on_node: FxHashMap::default(),
            nodes: Vec::new(),
            steps_on_node: FxHashMap::default(),
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
    pub(crate) fn grow(&mut self, cycle: &Cycle<'_>, search: &Search, _: &Probe<'_>) -> bool {
        loop {
            let Some(victims) = self.queue.pop(cycle, &search.candidates) else { return false };
            let tasks = &victims.batch.tasks;
            if tasks.iter().any(|task| self.recorded.contains(task)) {
                let recorded = &self.recorded;
                self.queue.put_back(cycle, &search.candidates, &victims, |task| {
                    recorded.contains(&task)
                });
                continue;
            }
            if victims.batch.more {
                self.queue.put_back(cycle, &search.candidates, &victims, |task| {
                    tasks.contains(&task)
                });
            }
            self.add(cycle, victims.job, tasks.clone());
            return true;
        }
    }

    fn add(&mut self, cycle: &Cycle<'_>, job: JobId, tasks: Tasks) {
        let step = self.steps.len();
        for task in &tasks {
            self.gpus.free(cycle.world, *task);
            if let Some(filter) = &mut self.topology {
                filter.free(cycle.world, *task);
            }
            if let Some(filter) = &mut self.affinity {
                filter.open(cycle, *task);
            }
            let Some(node) = cycle.world.task(*task).state.node else { continue };
            let jobs = self.jobs_on_node.entry(node).or_insert_with(|| {
                self.nodes.push(node);
                Vec::new()
            });
            if jobs.last() != Some(&job) && !jobs.contains(&job) {
                jobs.push(job);
            }
            let steps = self.steps_on_node.entry(node).or_default();
            if steps.last() != Some(&step) {
                steps.push(step);
            }
        }
        self.steps_of_job.entry(job).or_default().push(step);
        self.steps.push(Step { job, tasks });
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
                !constraints.node_selector.is_empty() || !constraints.node_terms.is_empty()
            })
            .collect();
        if tasks.is_empty() {
            return None;
        }
        let mut filter =
            Self { unmatched: tasks.clone(), tasks, usable: search.feasible.clone() };
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
