//! Sets of victims to try, made of what was collected.
//!
//! `NodeLocalGreedy`: for each node on which the job of the last victim has pods, everything collected of every job
//! with a victim there. `MultiNodeGang`: nodes that could hold a pod, smallest first; as many of them as the demand
//! needs, then more and more, each with every step of collecting that touches it.

use smallvec::SmallVec;

use crate::cycle::Cycle;
use crate::ids::{JobId, NodeId, TaskId};
use crate::plugins::scenario_generators::Generator;
use crate::solver::Probe;
use crate::solver::accumulate::Accumulation;
use crate::solver::simulate::Scenario;
use crate::world::index::RankSet;

/// The sets of one state of collecting, one after the other.
pub(crate) enum Emission {
    /// Just what earlier successes took, or nothing.
    Recorded(Option<Scenario>),
    /// One set per node.
    Nodes { nodes: Vec<NodeId>, next: usize, emitted: Vec<Vec<TaskId>> },
    /// Growing prefixes of nodes.
    Prefixes { nodes: Vec<NodeId>, size: usize, step: usize, done: bool },
}

impl Emission {
    pub(crate) fn new(
        cycle: &Cycle<'_>,
        generator: Generator,
        probe: &Probe<'_>,
        accumulation: &Accumulation,
    ) -> Self {
        let Some(last) = accumulation.steps.last() else {
            let emits = generator == Generator::MultiNodeGang || !probe.recorded.is_empty();
            return Self::Recorded(emits.then(Scenario::default));
        };
        match generator {
            Generator::NodeLocalGreedy => {
                let nodes = nodes_of_job(cycle, last.job);
                Self::Nodes { nodes, next: 0, emitted: Vec::new() }
            }
            Generator::MultiNodeGang => prefixes(cycle, probe, accumulation),
        }
    }

    /// The next set to try.
    pub(crate) fn next(
        &mut self,
        cycle: &Cycle<'_>,
        probe: &Probe<'_>,
        accumulation: &Accumulation,
    ) -> Option<Scenario> {
        match self {
            Self::Recorded(scenario) => scenario.take(),
            Self::Nodes { nodes, next, emitted } => {
                while let Some(node) = nodes.get(*next).copied() {
                    *next += 1;
                    let scenario = victims_on(cycle, probe, accumulation, node);
                    let mut sorted = scenario.potential.clone();
                    sorted.sort_unstable();
                    sorted.dedup();
                    if nodes.len() > 1 {
                        if emitted.contains(&sorted) {
                            continue;
                        }
                        emitted.push(sorted);
                    }
                    return Some(scenario);
                }
                None
            }
            Self::Prefixes { nodes, size, step, done } => {
                if *done {
                    return None;
                }
                let scenario = victims_of_prefix(accumulation, &nodes[..*size]);
                *done = *size == nodes.len();
                *size = (*size + *step).min(nodes.len());
                *step *= 2;
                Some(scenario)
            }
        }
    }
}

/// Nodes on which the job has pods, by name.
fn nodes_of_job(cycle: &Cycle<'_>, job: JobId) -> Vec<NodeId> {
    let world = &cycle.world;
    let tasks = world.job(job).tasks();
    let mut nodes: Vec<NodeId> = tasks.filter_map(|task| world.task(task).state.node).collect();
    nodes.sort_unstable_by_key(|node| world.node(*node).rank);
    nodes.dedup();
    nodes
}

/// Everything collected of every job with a victim on `node`. KAI adds what earlier successes took of those jobs a
/// second time (fault 11).
fn victims_on(
    cycle: &Cycle<'_>,
    probe: &Probe<'_>,
    accumulation: &Accumulation,
    node: NodeId,
) -> Scenario {
    let mut found = Scenario::default();
    let twice = cycle.world.config.compatibility.is_kai();
    let mut jobs: SmallVec<[JobId; 16]> = SmallVec::new();
    for step in accumulation.steps_on(node) {
        let job = accumulation.steps[step].job;
        if jobs.contains(&job) {
            continue;
        }
        jobs.push(job);
        if twice {
            let of_job = |task: &&TaskId| cycle.world.task(**task).job == Some(job);
            found.potential.extend(probe.recorded.tasks.iter().filter(of_job));
        }
        for step in accumulation.steps_of(step) {
            found.potential.extend(&accumulation.steps[step].tasks);
        }
        found.batch_ends.push(found.potential.len());
    }
    found
}

fn prefixes(cycle: &Cycle<'_>, probe: &Probe<'_>, accumulation: &Accumulation) -> Emission {
    let world = &cycle.world;
    let smallest = accumulation.gpus.wanted().last().copied().unwrap_or(0);
    let capacity = |node: NodeId| accumulation.gpus.capacity_of(world, node);
    let mut nodes: Vec<NodeId> = accumulation
        .nodes
        .iter()
        .copied()
        .filter(|node| smallest <= 0 || capacity(*node) >= smallest)
        .collect();
    nodes.sort_by_key(|node| capacity(*node));
    let demand: i64 = accumulation.gpus.wanted().iter().sum();
    let remaining = (demand - free_elsewhere(cycle, probe, accumulation)).max(0);
    let mut sum = 0;
    let mut size = 0;
    while sum < remaining && size < nodes.len() {
        sum += capacity(nodes[size]);
        size += 1;
    }
    let impossible = sum < remaining;
    Emission::Prefixes { done: impossible, nodes, size, step: 1 }
}

/// GPUs free, becoming free or freed by earlier successes on usable nodes without collected victims.
fn free_elsewhere(cycle: &Cycle<'_>, probe: &Probe<'_>, accumulation: &Accumulation) -> i64 {
    let world = &cycle.world;
    let partly_free = world.free_gpus.partly_free().iter().map(|rank| world.nodes_by_rank[rank]);
    let of_recorded = probe.recorded.tasks.iter().filter_map(|task| world.task(*task).state.node);
    let mut counted = RankSet::with_len(world.nodes_by_rank.len());
    let mut sum = 0;
    for node in partly_free.chain(of_recorded) {
        let rank = world.node(node).rank as usize;
        if !counted.contains(rank) && !accumulation.touches(node) {
            counted.insert(rank);
            sum += accumulation.gpus.capacity_of(world, node);
        }
    }
    sum
}

/// Every step of collecting that touches one of the nodes, whole.
fn victims_of_prefix(accumulation: &Accumulation, nodes: &[NodeId]) -> Scenario {
    let mut steps = RankSet::with_len(accumulation.steps.len());
    for node in nodes {
        accumulation.steps_back_on(*node).for_each(|step| steps.insert(step));
    }
    let mut found = Scenario::default();
    for step in steps.iter() {
        found.potential.extend(&accumulation.steps[step].tasks);
        found.batch_ends.push(found.potential.len());
    }
    found
}
