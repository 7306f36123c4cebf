//! The worlds, as deltas that are made one by one so that only the world itself takes memory.

use kai_core::config::{ActionKind, Config};
use kai_core::input::pod_group::TopologyConstraint;
use kai_core::input::selectors::Labels;
use kai_core::input::{Delta, Object, Text, TopologyLevel, TopologySpec};
use kai_core::time::Timestamp;

use super::objects::{GPUS_PER_NODE, JobSketch, QueueSketch, created, node, queue_name, queues};
use super::{BenchError, Case, Family};
use crate::format::{ConfigLayer, Scenario};
use crate::run::{core_config, core_objects};
use crate::state::{ClusterState, resolved_config};

/// Jobs that wait in a world where one job ends and one arrives.
pub(super) const STEADY_WAITING: usize = 400;
/// Pods and GPUs of each pod of the one large gang.
const LARGE_GANG: (usize, i64) = (512, 2);
/// Levels of the topology of the large gang, with how many there are in one of the level above.
const LEVELS: [(&str, usize); 3] = [("zone", 4), ("block", 8), ("rack", 8)];
const NODES_PER_RACK: usize = 2;
const TOPOLOGY: &str = "network";

const MIXED_60: &str = include_str!("../../../../benches/worlds/mixed-60.json");
const MIXED_51: &str = include_str!("../../../../benches/worlds/mixed-51.json");

/// A world to be.
pub(super) struct Blueprint {
    /// How the planner is set up.
    pub(super) config: Config,
    /// What makes the world, in order.
    pub(super) deltas: Box<dyn Iterator<Item = Delta>>,
    /// The moment of the cycle.
    pub(super) now: Timestamp,
}

/// The parts of a generated world.
struct Parts {
    actions: Vec<ActionKind>,
    topology: Option<TopologySpec>,
    nodes: usize,
    /// Labels of a node by number.
    labels: fn(usize) -> Labels,
    queues: Vec<QueueSketch>,
    job_count: usize,
    jobs: Box<dyn Iterator<Item = JobSketch>>,
}

/// The world of `case`.
pub(super) fn blueprint(case: Case) -> Result<Blueprint, BenchError> {
    let n = case.size;
    match case.family {
        Family::Allocate => generated(allocate(n)),
        Family::Gang => generated(large_gang()),
        Family::ReclaimLarge => {
            let reclaimer = JobSketch::waiting(0, &queue_name(1), GPUS_PER_NODE as i64);
            let jobs = std::iter::once(reclaimer.gang_of(n / 2));
            let quotas = [0, GPUS_PER_NODE * n];
            generated(occupied(n, quotas, &[ActionKind::Reclaim], jobs, 1))
        }
        Family::ReclaimMany => {
            let count = GPUS_PER_NODE * n;
            let queue = queue_name(1);
            let jobs = (0..count).map(move |number| JobSketch::waiting(number, &queue, 1));
            generated(occupied(n, [0, count], &ActionKind::ALL, jobs, count))
        }
        Family::ReclaimNo => {
            let reclaimer = JobSketch::waiting(0, &queue_name(1), GPUS_PER_NODE as i64);
            let jobs = std::iter::once(reclaimer.gang_of(10));
            let quotas = [GPUS_PER_NODE * n - 79, 80];
            generated(occupied(n, quotas, &[ActionKind::Reclaim], jobs, 1))
        }
        Family::Consolidate => generated(consolidate(n)),
        Family::Steady => generated(steady(n)),
        Family::Mixed => written(if n == 51 { MIXED_51 } else { MIXED_60 }),
    }
}

/// The set-up of KAI's own tests with these actions and without budgets.
fn config(actions: &[ActionKind]) -> Result<Config, BenchError> {
    let layer = ConfigLayer { actions: Some(Vec::new()), ..ConfigLayer::default() };
    let config = resolved_config(&layer).map_err(|error| BenchError(error.to_string()))?;
    Ok(Config { actions: actions.to_vec(), budgets: None, ..core_config(&config) })
}

fn generated(parts: Parts) -> Result<Blueprint, BenchError> {
    let now = created(parts.job_count);
    let labels = parts.labels;
    let topology = parts.topology.map(Object::Topology);
    let nodes = (0..parts.nodes).map(move |at| Object::Node(Box::new(node(at, labels(at)))));
    let queues = queues(&parts.queues).into_iter().map(Object::Queue);
    let jobs = parts.jobs.enumerate().flat_map(move |(at, job)| job.deltas(at, now));
    Ok(Blueprint {
        config: config(&parts.actions)?,
        deltas: Box::new(
            topology.into_iter().chain(nodes).chain(queues).map(Delta::Set).chain(jobs),
        ),
        now,
    })
}

/// A scenario as it is written.
fn written(text: &str) -> Result<Blueprint, BenchError> {
    let error = |error: crate::format::FormatError| BenchError(error.to_string());
    let scenario = Scenario::from_json(text).map_err(error)?;
    let state = ClusterState::from_scenario(&scenario).map_err(error)?;
    let (objects, now) = core_objects(&state);
    Ok(Blueprint {
        config: Config { budgets: None, ..core_config(&state.config) },
        deltas: Box::new(objects.into_iter().map(Delta::Set)),
        now,
    })
}

/// Everything waits: 8N one-GPU jobs in four queues of two departments.
fn allocate(n: usize) -> Parts {
    let count = GPUS_PER_NODE * n;
    let department = |number: usize| -> Text { format!("department-{number}").into() };
    let departments = (0..2).map(|number| QueueSketch {
        name: department(number),
        ..QueueSketch::new(number, 4 * n, 0.0)
    });
    let leaves = (0..4).map(|number| QueueSketch {
        parent: Some(department(number / 2)),
        ..QueueSketch::new(number, 2 * n, 1.0)
    });
    let names: Vec<Text> = (0..4).map(queue_name).collect();
    Parts {
        actions: vec![ActionKind::Allocate],
        topology: None,
        nodes: n,
        labels: |_| Labels::new(),
        queues: departments.chain(leaves).collect(),
        job_count: count,
        jobs: Box::new(
            (0..count).map(move |number| JobSketch::waiting(number, &names[number % 4], 1)),
        ),
    }
}

/// One gang that fills one zone of four exactly.
fn large_gang() -> Parts {
    let level = |(label, _): &(&str, usize)| TopologyLevel { label: (*label).into(), alias: None };
    let nodes = LEVELS.iter().map(|(_, count)| count).product::<usize>() * NODES_PER_RACK;
    let (pods, gpus) = LARGE_GANG;
    let gang = JobSketch {
        topology: Some(TopologyConstraint {
            topology: TOPOLOGY.into(),
            required: None,
            preferred: Some("rack".into()),
        }),
        ..JobSketch::waiting(0, &queue_name(0), gpus).gang_of(pods)
    };
    Parts {
        actions: vec![ActionKind::Allocate],
        topology: Some(TopologySpec {
            name: TOPOLOGY.into(),
            levels: LEVELS.iter().map(level).collect(),
        }),
        nodes,
        labels: place_in_topology,
        queues: vec![QueueSketch::new(0, GPUS_PER_NODE * nodes, 0.0)],
        job_count: 1,
        jobs: Box::new(std::iter::once(gang)),
    }
}

/// The domain of node `number` on each level: consecutive nodes share a rack, consecutive racks a block. Names
/// repeat from block to block; the path from the top distinguishes domains.
fn place_in_topology(number: usize) -> Labels {
    let mut labels = Labels::new();
    let mut below = NODES_PER_RACK;
    for (label, count) in LEVELS.iter().rev() {
        let domain = number / below % count;
        labels.insert((*label).into(), format!("{label}-{domain}").into());
        below *= count;
    }
    labels
}

/// The zone of a node of the large gang's world.
pub(super) fn zone_of(node: &str) -> Option<usize> {
    let number: usize = node.strip_prefix("node-")?.parse().ok()?;
    let nodes_per_zone = LEVELS[1].1 * LEVELS[2].1 * NODES_PER_RACK;
    Some(number / nodes_per_zone)
}

/// Queue 0 holds every GPU with one-GPU jobs, and `waiting` jobs come after them.
fn occupied(
    n: usize,
    [quota_0, quota_1]: [usize; 2],
    actions: &[ActionKind],
    waiting: impl Iterator<Item = JobSketch> + 'static,
    waiting_count: usize,
) -> Parts {
    let running = GPUS_PER_NODE * n;
    let queue = queue_name(0);
    let jobs = (0..running).map(move |number| JobSketch::running(number, &queue, 1, number % n));
    Parts {
        actions: actions.to_vec(),
        topology: None,
        nodes: n,
        labels: |_| Labels::new(),
        queues: vec![QueueSketch::new(0, quota_0, 0.0), QueueSketch::new(1, quota_1, 0.0)],
        job_count: running + waiting_count,
        jobs: Box::new(jobs.chain(waiting)),
    }
}

/// Every node has two free GPUs: even nodes run six one-GPU jobs, odd ones three two-GPU jobs. Jobs are laid out in
/// rounds over the nodes, each going to the next node that still lacks one. Gangs of four whole nodes wait.
fn consolidate(n: usize) -> Parts {
    let (small, large) = (6, 3);
    let places = (0..small * n).filter(move |at| (at % n).is_multiple_of(2) || at / n < large);
    let [holder, mover] = [queue_name(0), queue_name(1)];
    let running = places.enumerate().map(move |(number, at)| {
        let node = at % n;
        JobSketch::running(number, &holder, if node.is_multiple_of(2) { 1 } else { 2 }, node)
    });
    let gangs = n / 50;
    let waiting = (0..gangs)
        .map(move |number| JobSketch::waiting(number, &mover, GPUS_PER_NODE as i64).gang_of(4));
    Parts {
        actions: vec![ActionKind::Consolidation],
        topology: None,
        nodes: n,
        labels: |_| Labels::new(),
        queues: vec![QueueSketch::new(0, 6 * n, 0.0), QueueSketch::new(1, 2 * n, 0.0)],
        job_count: n.div_ceil(2) * small + n / 2 * large + gangs,
        jobs: Box::new(running.chain(waiting)),
    }
}

/// A full cluster shared by two queues, each at its fair share. Jobs of two GPUs wait in queue 1.
fn steady(n: usize) -> Parts {
    let running = GPUS_PER_NODE * n;
    let names = [queue_name(0), queue_name(1)];
    let waiting_in = queue_name(1);
    let jobs = (0..running)
        .map(move |number| JobSketch::running(number, &names[number % 2], 1, number % n));
    let waiting = (0..STEADY_WAITING).map(move |number| JobSketch::waiting(number, &waiting_in, 2));
    let quota = running / 2;
    Parts {
        actions: ActionKind::ALL.to_vec(),
        topology: None,
        nodes: n,
        labels: |_| Labels::new(),
        queues: vec![QueueSketch::new(0, quota, 0.0), QueueSketch::new(1, quota, 0.0)],
        job_count: running + STEADY_WAITING,
        jobs: Box::new(jobs.chain(waiting)),
    }
}
