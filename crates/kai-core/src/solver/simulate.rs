//! One set of victims on the model: all are evicted, then every job concerned is placed again in the order in which
//! jobs are served. A victim that finds a place is moved, or keeps its place where that is its own. Other waiting jobs
//! get nothing, but while one is next in its queue it speaks for it.

use rustc_hash::FxHashSet;

use crate::cycle::Cycle;
use crate::cycle::attempt::Mode;
use crate::cycle::members::Scope;
use crate::cycle::order::{Competition, Top};
use crate::cycle::statement::Statement;
use crate::fairness::Amounts;
use crate::ids::{JobId, QueueId, TaskId};
use crate::placement::node_set::NodeSet;
use crate::plugins::minruntime::Cause;
use crate::solver::recorded::RecordedVictims;
use crate::solver::victim_queue::fill_of_part;
use crate::solver::{Probe, Rules, Search, reclaim_rules};
use crate::status::Status;
use crate::world::index::{JobKey, RankSet};
use crate::world::node::Accepted;

/// Potential victims, beside those of earlier successes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Scenario {
    pub(crate) potential: Vec<TaskId>,
    /// Where each batch of pods that were collected together ends in `potential`.
    pub(crate) batch_ends: Vec<usize>,
}

/// What came of a set of victims.
pub(crate) enum Verdict {
    /// The job is placed; what the next probe starts from.
    Solved(RecordedVictims),
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
    let victims = scenario.victims(&probe.recorded.tasks);
    if victims.is_empty() {
        return Verdict::DoesNotFit;
    }
    let nodes = usable_nodes(cycle, search, &victims);
    let charged: Vec<Accepted> =
        victims.iter().map(|task| cycle.world.task(*task).state.accepted).collect();
    let whole = WholeGangs::of(cycle, &victims);
    for task in &victims {
        statement.evict(cycle.world, *task);
    }
    let mut order = Order::new(cycle, search, probe, &victims);
    while let Some(job) = order.next(cycle) {
        let is_taker = job == search.job;
        let scope = if is_taker { probe.scope(job) } else { Scope::whole(job) };
        let placed = cycle.attempt(statement, scope, &nodes, Mode::Simulated);
        if is_taker && !placed {
            return Verdict::DoesNotFit;
        }
        // A job has one attempt: pods it leaves behind stay evicted, which consolidation never accepts.
        let must_all_stay = matches!(search.rules, Rules::Consolidation) && !cycle.world.naive;
        if must_all_stay && !is_taker && leaves_pods_behind(cycle, job) {
            return Verdict::Refused;
        }
    }
    if !is_acceptable(cycle, search, probe, &victims, &charged) || !whole.are_whole_or_absent(cycle)
    {
        return Verdict::Refused;
    }
    Verdict::Solved(RecordedVictims::after(cycle.world, probe.recorded, scenario))
}

/// Jobs of victims that have all the pods they need. Victims of earlier successes may be a part of a job, and leave
/// less than it needs behind; KAI accepts that.
struct WholeGangs {
    jobs: Vec<JobId>,
    /// Those that have them even without pods that this cycle nominated. Such a pod comes later, and may not
    /// come at all: no running pod is evicted because of it.
    without_newcomers: Vec<JobId>,
}

impl WholeGangs {
    fn of(cycle: &Cycle<'_>, victims: &[TaskId]) -> Self {
        let world = &cycle.world;
        if world.config.compatibility.is_kai() {
            return Self { jobs: Vec::new(), without_newcomers: Vec::new() };
        }
        let mut jobs: Vec<JobId> =
            victims.iter().filter_map(|task| world.task(*task).job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let is_whole_without = |job: &JobId| {
            world.has_newcomers(*job) && world.is_whole_or_absent_without_newcomers(*job)
        };
        let without_newcomers = jobs.iter().copied().filter(is_whole_without).collect();
        jobs.retain(|job| world.is_whole_or_absent(*job));
        Self { jobs, without_newcomers }
    }

    fn are_whole_or_absent(&self, cycle: &Cycle<'_>) -> bool {
        let world = &cycle.world;
        self.jobs.iter().all(|job| world.is_whole_or_absent(*job))
            && self
                .without_newcomers
                .iter()
                .all(|job| world.is_whole_or_absent_without_newcomers(*job))
    }
}

fn leaves_pods_behind(cycle: &Cycle<'_>, job: JobId) -> bool {
    cycle.world.job(job).tasks().any(|task| {
        let state = &cycle.world.task(task).state;
        state.status == Status::Releasing && state.tentative
    })
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
    charged: &[Accepted],
) -> bool {
    let jobs = victims.iter().filter_map(|task| cycle.world.task(*task).job);
    if !cycle.world.semi_preemptible.is_empty()
        && !jobs.into_iter().all(|job| cycle.world.keeps_core(job))
    {
        return false;
    }
    match &mut search.rules {
        Rules::Reclaim(validator) => {
            let required = reclaim_rules::required(cycle, probe.tasks);
            let verdict = reclaim_rules::validate(cycle, validator, required, victims, charged);
            if let Err(refusal) = verdict {
                search.report.refusal = Some(refusal);
                return false;
            }
            if let Some(budget) = cycle.overdrawn_budget(victims) {
                if !cycle.budget_overrides.contains(&search.job) {
                    search.report.budgets.insert(budget);
                    return false;
                }
                if let Err(refusal) = validator.keeps_quotas(&cycle.world.tree) {
                    search.report.refusal = Some(refusal);
                    return false;
                }
            }
            cycle.spares_the_young(Cause::Reclaim, search.job, victims)
        }
        Rules::Preempt => {
            if let Some(budget) = cycle.overdrawn_budget(victims) {
                search.report.budgets.insert(budget);
                return false;
            }
            cycle.spares_the_young(Cause::Preempt, search.job, victims)
        }
        Rules::Consolidation => {
            let stays = |task: &TaskId| cycle.world.task(*task).state.status != Status::Releasing;
            victims.iter().all(stays) && cycle.overdrawn_budget(victims).is_none()
        }
    }
}

/// The jobs of one queue that matter, in job order.
struct LeafOrder {
    queue: QueueId,
    jobs: Vec<(JobKey, Amounts)>,
    next: usize,
    /// Position of the next waiting job that does not matter, among all that wait in the queue.
    bystander: usize,
    blocker: Option<(JobKey, Amounts)>,
}

/// The order in which victims and the job itself are placed.
struct Order {
    leaves: Vec<LeafOrder>,
    concerned: FxHashSet<JobId>,
    tops: Vec<Option<Top>>,
}

impl Order {
    fn new(cycle: &mut Cycle<'_>, search: &Search, probe: &Probe<'_>, victims: &[TaskId]) -> Self {
        let mut concerned: FxHashSet<JobId> = FxHashSet::default();
        let mut jobs: Vec<JobId> = Vec::new();
        let of_victims = victims.iter().filter_map(|task| cycle.world.task(*task).job);
        for job in of_victims.chain([search.job]) {
            if concerned.insert(job) {
                jobs.push(job);
            }
        }
        let mut order = Self { leaves: Vec::new(), concerned, tops: Vec::new() };
        for job in jobs {
            let world = &cycle.world;
            let Some(queue) = world.job(job).queue else { continue };
            let scope = if job == search.job { probe.scope(job) } else { Scope::whole(job) };
            let mut key = world.job_key(job);
            if job == search.job && world.policy.orders_by_fill {
                key.fill = fill_of_part(world, job, probe.part);
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
                bystander: 0,
                blocker: None,
            });
            self.leaves.len() - 1
        });
        &mut self.leaves[at]
    }

    /// Queues in which others wait compete too.
    fn add_bystanders(&mut self, cycle: &mut Cycle<'_>) {
        let waiting: Vec<QueueId> = cycle
            .world
            .queue_ids
            .values()
            .copied()
            .filter(|queue| {
                cycle.world.is_live_leaf(*queue)
                    && !cycle.world.job_index.of(*queue).pending.is_empty()
            })
            .collect();
        for queue in waiting {
            self.leaf(queue);
        }
        for leaf in &mut self.leaves {
            leaf.find_blocker(cycle, &self.concerned);
        }
    }

    /// The next job to be placed.
    fn next(&mut self, cycle: &mut Cycle<'_>) -> Option<JobId> {
        loop {
            let mut open = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.has_jobs());
            let at = match (open.next(), open.next()) {
                (None, _) => return None,
                // Only one queue has jobs that matter: their own order is all there is.
                (Some((only, _)), None) => {
                    return self.leaves[only].take();
                }
                (Some(_), Some(_)) => self.winner(cycle)?,
            };
            let leaf = &mut self.leaves[at];
            if leaf.is_blocked() {
                leaf.pass_blockers(cycle, &self.concerned);
            } else {
                return leaf.take();
            }
        }
    }

    fn winner(&mut self, cycle: &Cycle<'_>) -> Option<usize> {
        let world = &cycle.world;
        let competition = Competition {
            tree: &world.tree,
            total: &cycle.total,
            by_shares: world.policy.proportion.is_some(),
            reversed: false,
        };
        self.tops.clear();
        self.tops.resize(world.tree.queues.len(), None);
        for leaf in &self.leaves {
            let top = leaf.asked().map(|asked| Top { job: Some(asked), victims: None });
            self.tops[leaf.queue.index()] = top;
        }
        let winner = competition.winner(&self.tops)?;
        self.leaves.iter().position(|leaf| leaf.queue == winner)
    }
}

impl LeafOrder {
    fn has_jobs(&self) -> bool {
        self.next < self.jobs.len()
    }

    fn take(&mut self) -> Option<JobId> {
        let taken = self.jobs.get(self.next).map(|(key, _)| key.job);
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

    /// The next waiting job that does not matter, from where the search stands.
    fn find_blocker(&mut self, cycle: &mut Cycle<'_>, concerned: &FxHashSet<JobId>) {
        let found = cycle.bystander(self.queue, self.bystander, concerned);
        self.blocker = found.map(|(position, key, asked)| {
            self.bystander = position;
            (key, asked)
        });
    }

    /// Passes over waiting jobs that ask for the same: nothing changes in the competition between them, so the same
    /// queue would win again for each.
    fn pass_blockers(&mut self, cycle: &mut Cycle<'_>, concerned: &FxHashSet<JobId>) {
        let Some((_, asked)) = self.blocker.take() else { return };
        loop {
            self.bystander += 1;
            self.find_blocker(cycle, concerned);
            match &self.blocker {
                Some((_, next)) if *next == asked && self.is_blocked() => {}
                _ => return,
            }
        }
    }
}
