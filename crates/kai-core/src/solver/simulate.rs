//! One set of victims on the model: all are evicted, then every job concerned is placed again in the order in which
//! jobs are served. Who finds a place is moved, or was never evicted where the place is his own. Other waiting jobs
//! get nothing, but while one is next in its queue it speaks for it.

use rustc_hash::FxHashMap;

use crate::cycle::Cycle;
use crate::cycle::attempt::Mode;
use crate::cycle::members::Scope;
use crate::cycle::order::{Competition, Top};
use crate::cycle::statement::Statement;
use crate::fairness::Amounts;
use crate::ids::{JobId, QueueId, TaskId};
use crate::placement::node_set::NodeSet;
use crate::plugins::minruntime::Cause;
use crate::solver::{Probe, Rules, Search, reclaim};
use crate::status::Status;
use crate::world::index::{JobKey, RankSet};

/// Potential victims, beside those of earlier successes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scenario {
    pub(crate) potential: Vec<TaskId>,
}

/// What came of a set of victims.
pub(crate) enum Verdict {
    /// The job is placed; these victims go or move.
    Solved(Vec<TaskId>),
    /// The job is placed, but the action's rules refuse the price.
    Refused,
    /// The job is not placed.
    DoesNotFit,
}

/// Tries a set of victims. The statement holds what was done and must be discarded unless it is solved.
pub(crate) fn run(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    probe: &Probe<'_>,
    scenario: &Scenario,
    statement: &mut Statement,
) -> Verdict {
    let victims = scenario.victims(probe.recorded);
    if victims.is_empty() {
        return Verdict::DoesNotFit;
    }
    let nodes = usable_nodes(cycle, search, &victims);
    for task in &victims {
        statement.evict(cycle.world, *task);
    }
    let mut order = Order::new(cycle, search, probe, &victims);
    while let Some(job) = order.next(cycle) {
        if job == search.job {
            if !cycle.attempt(statement, probe.scope(job), &nodes, Mode::Simulated) {
                return Verdict::DoesNotFit;
            }
        } else {
            cycle.attempt(statement, Scope::whole(job), &nodes, Mode::Simulated);
        }
    }
    if !is_acceptable(cycle, search, probe, &victims) {
        return Verdict::Refused;
    }
    let status = |task: &TaskId| cycle.world.task(*task).state.status;
    let goes = victims.iter().filter(|task| status(task) == Status::Releasing);
    let moves = victims.iter().filter(|task| status(task) == Status::Pipelined);
    let mut recorded: Vec<TaskId> = Vec::new();
    for task in goes.chain(moves) {
        if !recorded.contains(task) || victims.len() > 64 && !recorded_has(&recorded, *task) {
            recorded.push(*task);
        }
    }
    Verdict::Solved(recorded)
}

fn recorded_has(recorded: &[TaskId], task: TaskId) -> bool {
    recorded.contains(&task)
}

/// Nodes on which the job could run before, and those of the victims.
fn usable_nodes(cycle: &Cycle<'_>, search: &Search, victims: &[TaskId]) -> NodeSet {
    let Some(feasible) = &search.feasible else { return NodeSet::all() };
    let mut ranks: RankSet = feasible.clone();
    for task in victims {
        if let Some(node) = cycle.world.task(*task).state.node {
            ranks.insert(cycle.world.node(node).rank as usize);
        }
    }
    NodeSet::of(ranks)
}

fn is_acceptable(
    cycle: &Cycle<'_>,
    search: &mut Search,
    probe: &Probe<'_>,
    victims: &[TaskId],
) -> bool {
    match &mut search.rules {
        Rules::Reclaim(validator) => {
            let required = reclaim::required(cycle, search.job, probe.tasks);
            let verdict = reclaim::validate(cycle, validator, required, victims);
            if let Err(refusal) = verdict {
                search.report.last_refusal = Some(refusal);
                return false;
            }
            cycle.leaves_the_young_alone(Cause::Reclaim, search.job, victims)
        }
        Rules::Preempt => cycle.leaves_the_young_alone(Cause::Preempt, search.job, victims),
        Rules::Consolidation => {
            victims.iter().all(|task| cycle.world.task(*task).state.status != Status::Releasing)
        }
    }
}

/// The jobs of one queue that matter, in job order.
struct LeafOrder {
    queue: QueueId,
    jobs: Vec<(JobKey, Amounts)>,
    next: usize,
    /// The last waiting job of the queue that was passed over.
    passed: Option<JobKey>,
    blocker: Option<(JobKey, Amounts)>,
}

/// The order in which victims and the job itself are placed.
struct Order {
    leaves: Vec<LeafOrder>,
    concerned: FxHashMap<JobId, ()>,
}

impl Order {
    fn new(cycle: &Cycle<'_>, search: &Search, probe: &Probe<'_>, victims: &[TaskId]) -> Self {
        let world = &cycle.world;
        let mut concerned: FxHashMap<JobId, ()> = FxHashMap::default();
        let mut jobs: Vec<JobId> = Vec::new();
        for task in victims {
            if let Some(job) = world.task(*task).job
                && concerned.insert(job, ()).is_none()
            {
                jobs.push(job);
            }
        }
        if concerned.insert(search.job, ()).is_none() {
            jobs.push(search.job);
        }
        let mut order = Self { leaves: Vec::new(), concerned };
        for job in jobs {
            let Some(queue) = world.job(job).queue else { continue };
            let scope = if job == search.job { probe.scope(job) } else { Scope::whole(job) };
            let mut key = world.job_key(job);
            if job == search.job && world.policy.orders_by_fill {
                key.fill = crate::solver::victim_queue::fill_of_part(world, job, probe.part);
            }
            let tasks = world.tasks_to_allocate(scope, true);
            let asked = cycle.requested(&tasks, world.smallest_gpu_mib());
            order.leaf(queue).jobs.push((key, asked));
        }
        for leaf in &mut order.leaves {
            leaf.jobs.sort_by(|left, right| left.0.cmp(&right.0));
        }
        if order.leaves.len() > 1 {
            order.add_bystanders(cycle);
        }
        order
    }

    fn leaf(&mut self, queue: QueueId) -> &mut LeafOrder {
        let at = self.leaves.iter().position(|leaf| leaf.queue == queue).unwrap_or_else(|| {
            self.leaves.push(LeafOrder {
                queue,
                jobs: Vec::new(),
                next: 0,
                passed: None,
                blocker: None,
            });
            self.leaves.len() - 1
        });
        &mut self.leaves[at]
    }

    /// Queues in which others wait compete too.
    fn add_bystanders(&mut self, cycle: &Cycle<'_>) {
        let world = &cycle.world;
        for queue in world.queue_ids.values() {
            if world.is_live_leaf(*queue) && !world.job_index.of(*queue).pending.is_empty() {
                self.leaf(*queue);
            }
        }
        for leaf in &mut self.leaves {
            leaf.find_blocker(cycle, &self.concerned);
        }
    }

    /// The next job to be placed.
    fn next(&mut self, cycle: &Cycle<'_>) -> Option<JobId> {
        loop {
            let mut open = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.has_jobs());
            let at = match (open.next(), open.next()) {
                (None, _) => return None,
                // Only one queue has jobs that matter: their own order is all there is.
                (Some((only, _)), None) => {
                    return self.leaves[only].take().map(|(key, _)| key.job);
                }
                (Some(_), Some(_)) => self.winner(cycle)?,
            };
            let leaf = &mut self.leaves[at];
            if leaf.is_blocked() {
                leaf.pass_blockers(cycle, &self.concerned);
            } else {
                return leaf.take().map(|(key, _)| key.job);
            }
        }
    }

    fn winner(&self, cycle: &Cycle<'_>) -> Option<usize> {
        let world = &cycle.world;
        let competition = Competition {
            tree: &world.tree,
            total: &cycle.total,
            by_shares: world.policy.proportion.is_some(),
            reversed: false,
        };
        let winner = competition.winner(&|queue| {
            let leaf = self.leaves.iter().find(|leaf| leaf.queue == queue)?;
            leaf.asked().map(|asked| Top { job: Some(asked), victims: None })
        })?;
        self.leaves.iter().position(|leaf| leaf.queue == winner)
    }
}

impl LeafOrder {
    fn has_jobs(&self) -> bool {
        self.next < self.jobs.len()
    }

    fn take(&mut self) -> Option<(JobKey, Amounts)> {
        let taken = self.jobs.get(self.next).cloned();
        self.next += 1;
        taken
    }

    /// A waiting job that does not matter is before those that do.
    fn is_blocked(&self) -> bool {
        match (&self.blocker, self.jobs.get(self.next)) {
            (Some((blocker, _)), Some((job, _))) => blocker < job,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    fn asked(&self) -> Option<Amounts> {
        if self.is_blocked() {
            return self.blocker.as_ref().map(|(_, asked)| *asked);
        }
        self.jobs.get(self.next).map(|(_, asked)| *asked)
    }

    /// The next waiting job that does not matter.
    fn find_blocker(&mut self, cycle: &Cycle<'_>, concerned: &FxHashMap<JobId, ()>) {
        let world = &cycle.world;
        let pending = &world.job_index.of(self.queue).pending;
        let bystander = |key: &&JobKey| !concerned.contains_key(&key.job);
        let found = match &self.passed {
            None => pending.iter().find(bystander),
            Some(key) => {
                let above = (std::ops::Bound::Excluded(key.clone()), std::ops::Bound::Unbounded);
                pending.range(above).find(bystander)
            }
        };
        self.blocker = found.map(|key| {
            let tasks = world.tasks_to_allocate(Scope::whole(key.job), true);
            (key.clone(), cycle.requested(&tasks, world.smallest_gpu_mib()))
        });
    }

    /// Passes over waiting jobs that ask for the same: nothing changes in the competition between them, so the same
    /// queue would win again for each.
    fn pass_blockers(&mut self, cycle: &Cycle<'_>, concerned: &FxHashMap<JobId, ()>) {
        let Some((first, asked)) = self.blocker.clone() else { return };
        self.passed = Some(first);
        loop {
            self.find_blocker(cycle, concerned);
            match &self.blocker {
                Some((key, next)) if *next == asked && self.is_blocked() => {
                    self.passed = Some(key.clone());
                }
                _ => return,
            }
        }
    }
}
