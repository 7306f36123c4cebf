//! Random writes of a cycle: a rollback to any point restores just what was there, and at every point the index
//! finds the node that a look at all of them finds.

use proptest::collection::vec;
use proptest::prelude::*;

use super::worlds::{messy_cluster, now, show, tidy_cluster};
use crate::check;
use crate::fairness::QueueShares;
use crate::ids::{JobId, NodeId, TaskId};
use crate::placement::choose::NodeSearch;
use crate::placement::node_set::NodeSet;
use crate::plugins::numa::ZonePlacement;
use crate::plugins::topology::TopologyScores;
use crate::status::Status;
use crate::world::ledger::Place;
use crate::world::node::{DeviceDemand, Groups};
use crate::world::{Checkpoint, World};

/// One write, with numbers that choose what it is about.
#[derive(Clone, Copy, Debug)]
enum Write {
    Put { task: usize, node: usize, nominate: bool },
    Evict { task: usize },
    TakeBack { task: usize },
    Settle { task: usize },
    Start { job: usize },
    Commit,
    Mark,
    RollBack { to: usize },
}

fn write() -> impl Strategy<Value = Write> {
    let number = || 0..64_usize;
    prop_oneof![
        6 => (number(), number(), any::<bool>())
            .prop_map(|(task, node, nominate)| Write::Put { task, node, nominate }),
        3 => number().prop_map(|task| Write::Evict { task }),
        2 => number().prop_map(|task| Write::TakeBack { task }),
        2 => number().prop_map(|task| Write::Settle { task }),
        1 => number().prop_map(|job| Write::Start { job }),
        1 => Just(Write::Commit),
        3 => Just(Write::Mark),
        2 => number().prop_map(|to| Write::RollBack { to }),
    ]
}

/// A point to roll back to, and what the world was like.
struct Point {
    checkpoint: Checkpoint,
    state: u64,
    described: String,
    shares: Vec<QueueShares>,
    evicted: Vec<(TaskId, Status, bool)>,
}

struct Ledger {
    world: World,
    tasks: Vec<TaskId>,
    nodes: Vec<NodeId>,
    jobs: Vec<JobId>,
    points: Vec<Point>,
    /// Evictions that can be taken back, with what the tasks were.
    evicted: Vec<(TaskId, Status, bool)>,
}

impl Ledger {
    fn new(mut world: World) -> Self {
        world.load_shares();
        let mut tasks: Vec<TaskId> = world.task_ids.values().copied().collect();
        tasks.sort_unstable();
        let nodes = world.nodes_by_rank.clone();
        let mut jobs: Vec<JobId> = world.job_ids.values().copied().collect();
        jobs.sort_unstable();
        let mut ledger =
            Self { world, tasks, nodes, jobs, points: Vec::new(), evicted: Vec::new() };
        ledger.mark();
        ledger
    }

    fn shares(&self) -> Vec<QueueShares> {
        self.world.tree.queues.iter().map(|queue| queue.shares).collect()
    }

    fn mark(&mut self) {
        self.points.push(Point {
            checkpoint: self.world.checkpoint(),
            state: self.world.state_id(),
            described: self.world.describe(),
            shares: self.shares(),
            evicted: self.evicted.clone(),
        });
    }

    fn roll_back(&mut self, to: usize) -> Result<(), TestCaseError> {
        let to = to % self.points.len();
        self.points.truncate(to + 1);
        let point = &self.points[to];
        self.world.rollback(point.checkpoint);
        show::same(&point.described, &self.world.describe())?;
        prop_assert_eq!(point.state, self.world.state_id());
        prop_assert_eq!(&point.shares, &self.shares());
        self.evicted = self.points[to].evicted.clone();
        Ok(())
    }

    fn write(&mut self, write: Write) -> Result<(), TestCaseError> {
        let task_at =
            |at: usize| (!self.tasks.is_empty()).then(|| self.tasks[at % self.tasks.len()]);
        match write {
            Write::Put { task, node, nominate } => {
                if let Some(task) = task_at(task) {
                    self.put(task, self.nodes[node % self.nodes.len()], nominate);
                }
            }
            Write::Evict { task } => {
                if let Some(task) = task_at(task) {
                    let state = &self.world.task(task).state;
                    if state.status.is_active_allocated() {
                        self.evicted.push((task, state.status, state.tentative));
                        self.world.evict(task);
                    }
                }
            }
            Write::TakeBack { task } => {
                if !self.evicted.is_empty() {
                    let at = task % self.evicted.len();
                    let (task, status, tentative) = self.evicted.remove(at);
                    self.world.unevict(task, status, tentative);
                }
            }
            Write::Settle { task } => {
                if let Some(task) = task_at(task)
                    && self.world.task(task).state.status == Status::Allocated
                {
                    self.world.mark_binding(task);
                }
            }
            Write::Start { job } => {
                if !self.jobs.is_empty() {
                    let job = self.jobs[job % self.jobs.len()];
                    self.world.set_last_start(job, now());
                }
            }
            Write::Commit => {
                self.world.log.commit();
                self.points.truncate(1);
            }
            Write::Mark => self.mark(),
            Write::RollBack { to } => self.roll_back(to)?,
        }
        Ok(())
    }

    /// Puts a waiting task on a node, whether it fits or not.
    fn put(&mut self, task: TaskId, node: NodeId, nominate: bool) {
        let world = &mut self.world;
        if world.task(task).state.status != Status::Pending {
            return;
        }
        let demand = world.node(node).demand(world.shape_of(task), world.config.compatibility);
        let groups = match demand {
            DeviceDemand::Vector => Groups::new(),
            DeviceDemand::Shared { .. } => match world.choose_devices(task, node, nominate) {
                Some(chosen) => chosen.groups,
                None => return,
            },
        };
        let place = Place { node, groups, zones: ZonePlacement::default() };
        let status = if nominate { Status::Pipelined } else { Status::Allocated };
        world.put(task, &place, status);
    }

    /// Wherever packing decides alone, the index says what a look at all nodes says.
    fn compare_searches(&self) -> Result<(), TestCaseError> {
        let topology = TopologyScores::default();
        let nodes = NodeSet::all();
        let waiting = |task: &&TaskId| self.world.task(**task).state.status == Status::Pending;
        for task in self.tasks.iter().filter(waiting).take(4) {
            let search = || NodeSearch {
                task: *task,
                nodes: &nodes,
                topology: &topology,
                failed: Vec::new(),
                tried: 0,
            };
            if search().index_decides(&self.world) {
                let name = |node: NodeId| self.world.node(node).name().clone();
                let by_index = search().best_by_index(&self.world).map(name);
                let by_scan = search().best_by_scan(&self.world).map(name);
                prop_assert_eq!(by_index, by_scan, "for {}", self.world.task(*task).spec.name);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(super::cases(600))]

    #[test]
    fn rolling_back_restores_what_was_there(
        cluster in prop_oneof![messy_cluster(), tidy_cluster()],
        writes in vec(write(), 1..60),
    ) {
        let mut ledger = Ledger::new(cluster.world());
        for write in writes {
            ledger.write(write)?;
            prop_assert!(check::free_gpus_are_known(&ledger.world), "after {write:?}");
        }
        ledger.roll_back(0)?;
        show::none(&check::miscounts(&ledger.world), "")?;
    }

    #[test]
    fn the_index_finds_what_a_scan_finds(
        cluster in prop_oneof![messy_cluster(), tidy_cluster()],
        writes in vec(write(), 1..30),
    ) {
        let mut ledger = Ledger::new(cluster.world());
        ledger.compare_searches()?;
        for write in writes {
            ledger.write(write)?;
            ledger.compare_searches()?;
        }
    }
}
