//! The search for victims: which pods must be evicted, or move, so that a job can run. Shared by reclaim, preempt and
//! consolidation, which differ in which jobs may be victims and in what they accept.
//!
//! A job is solved for its first 1, 2, 4, … pods, then by bisection, each time starting from the victims of the
//! largest success; the last probe is for all its pods. Each probe collects victims in victim order until enough
//! could be free, and tries sets of them on the model.

pub(crate) mod accumulate;
pub(crate) mod bounds;
pub(crate) mod budget;
pub(crate) mod generators;
pub(crate) mod gpu_filter;
pub(crate) mod reclaim_rules;
pub(crate) mod recorded;
pub(crate) mod ruled_out;
pub(crate) mod signatures;
pub(crate) mod simulate;
pub(crate) mod single_nodes;
pub(crate) mod topology_filter;
pub(crate) mod trace;
pub(crate) mod victim_queue;

use std::cell::OnceCell;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use crate::cycle::Cycle;
use crate::cycle::members::{Part, Scope, Tasks};
use crate::cycle::statement::Statement;
use crate::fairness::ReclaimValidator;
use crate::ids::{JobId, TaskId};
use crate::plugins::Filter;
use crate::plugins::predicates;
use crate::plugins::scenario_generators::Generator;
use crate::report::job_fit::{JobError, Progress};
use crate::report::searches::{GeneratorRun, RunResult, SearchReport, SearchResult, SetCounts};
use crate::report::task_fit::TaskFit;
use crate::report::victims::{VictimVerdict, VictimsConsidered};
use crate::solver::accumulate::Accumulation;
use crate::solver::bounds::RecordedSlots;
use crate::solver::budget::{Budget, Spent};
use crate::solver::recorded::RecordedVictims;
use crate::solver::ruled_out::Demand;
use crate::solver::simulate::{Scenario, Verdict};
use crate::solver::trace::Trace;
use crate::solver::victim_queue::{Candidates, VictimQueue};
use crate::world::World;
use crate::world::index::{JobKey, RankSet};

/// What an action accepts.
pub(crate) enum Rules {
    /// Fair shares and quotas hold, young victims stay.
    Reclaim(Box<ReclaimValidator>),
    /// Victims that ran too short a time stay.
    Preempt,
    /// Every victim is placed again.
    Consolidation,
}

/// A search for one job.
pub(crate) struct Search {
    pub(crate) job: JobId,
    pub(crate) candidates: Candidates,
    pub(crate) rules: Rules,
    /// Nodes on which the job could run before any eviction; none: all.
    pub(crate) feasible: Option<RankSet>,
    /// The order in which victims are collected, as far as it was needed.
    pub(crate) trace: Trace,
    /// Sets of victims that were tried without success.
    pub(crate) failures: Failures,
    /// What became of sets of victims.
    pub(crate) sets: SetCounts,
    pub(crate) report: VictimsConsidered,
}

impl Search {
    /// Every job with pods that hold a place may be a victim, as far as its kind allows.
    fn spares_only_idle_jobs(&self, world: &World) -> bool {
        let is_idle = |job: &JobId| world.job(*job).counts.active_allocated() == 0;
        self.candidates.spared.iter().all(is_idle)
    }

    /// The search ended: notes the jobs whose eviction would not have helped, and the jobs that may never be evicted.
    pub(crate) fn note_failure(&mut self, cycle: &Cycle<'_>) {
        let world = &cycle.world;
        let name_of = |key: &JobKey| &world.job(key.job).spec.name;
        for (at, queue) in self.candidates.queues.iter().enumerate() {
            let name = &world.tree.node(*queue).name;
            let count = self.candidates.count_in(world, *queue);
            let most = self.candidates.most_jobs.get(at).map_or(count, |most| count.min(*most));
            let keys = || self.candidates.in_order(world, *queue).map(name_of);
            self.report.note_many(name, VictimVerdict::TakenInVain, most, keys());
            let beyond = keys().skip(most);
            self.report.note_many(name, VictimVerdict::BeyondMostMoved, count - most, beyond);
        }
        let own = world.job(self.job).queue;
        for (name, queue) in &world.queue_ids {
            let concerned = match self.rules {
                Rules::Reclaim(_) => Some(*queue) != own,
                Rules::Preempt => Some(*queue) == own,
                Rules::Consolidation => true,
            };
            if concerned {
                let fixed = &world.job_index.of(*queue).fixed;
                let names = fixed.iter().map(name_of);
                self.report.note_many(name, VictimVerdict::NotPreemptible, fixed.len(), names);
            }
        }
    }
}

/// A set of victims that was tried without success.
struct FailedSet {
    /// For how many pods of the job.
    pods: usize,
    /// Victims of the set, sorted by id.
    victims: Box<[TaskId]>,
    /// Its victims as they were taken, where the action's rules refused them: fairness judges one after the other.
    order: Option<Box<[TaskId]>>,
}

/// Sets of victims that were tried without success. Whether the job fits depends on nothing but the set, so none is
/// tried twice; one that was refused may be accepted in another order.
#[derive(Default)]
pub(crate) struct Failures {
    sets: FxHashMap<u64, Vec<FailedSet>>,
}

impl Failures {
    fn key(pods: usize, victims: &[TaskId]) -> (u64, Box<[TaskId]>) {
        let mut sorted: Box<[TaskId]> = victims.into();
        sorted.sort_unstable();
        let mut hasher = FxHasher::default();
        (pods, &sorted).hash(&mut hasher);
        (hasher.finish(), sorted)
    }

    /// Whether `victims`, whose key this is, failed before for as many pods.
    fn contain(&self, pods: usize, (hash, set): &(u64, Box<[TaskId]>), victims: &[TaskId]) -> bool {
        let known = self.sets.get(hash).into_iter().flatten();
        known.into_iter().any(|failed| {
            failed.pods == pods
                && failed.victims == *set
                && failed.order.as_ref().is_none_or(|order| **order == *victims)
        })
    }

    fn remember(
        &mut self,
        pods: usize,
        (hash, victims): (u64, Box<[TaskId]>),
        order: Option<Box<[TaskId]>>,
    ) {
        self.sets.entry(hash).or_default().push(FailedSet { pods, victims, order });
    }
}

/// How a search ended.
pub(crate) enum Outcome {
    /// Decisions that make the job run.
    Solved(Statement),
    /// No set of victims makes the job run.
    Unsolved,
    /// The budget ended before the search did: the action ends too.
    BudgetSpent,
}

/// One probe: the first pods of the job, and the victims of the largest success so far.
pub(crate) struct Probe<'a> {
    pub(crate) part: &'a Part,
    /// Pods of the probe, in task order.
    pub(crate) tasks: &'a [TaskId],
    pub(crate) recorded: &'a RecordedVictims,
    /// What those give; computed for the first set.
    recorded_slots: OnceCell<Option<RecordedSlots>>,
}

impl<'a> Probe<'a> {
    pub(crate) fn scope(&self, job: JobId) -> Scope<'a> {
        Scope::of(job, self.part)
    }

    /// Whether the victims that `scenario` adds to those of earlier successes are provably too few. Looks at the added ones
    /// alone: there are many sets, and those of earlier successes are in each.
    fn gets_too_few_slots(&self, world: &World, scenario: &Scenario) -> bool {
        let slots = self.recorded_slots.get_or_init(|| RecordedSlots::of(world, self));
        slots.as_ref().is_some_and(|slots| slots.stay_too_few(world, &scenario.potential))
    }
}

/// What a probe found.
struct Solution {
    statement: Statement,
    /// What the next probe starts from.
    victims: RecordedVictims,
}

enum ProbeResult {
    Solved(Solution),
    Unsolved,
    BudgetSpent(Spent),
}

/// Looks for victims so that the job of `search` can run, and notes how that went.
pub(crate) fn solve(cycle: &mut Cycle<'_>, search: &mut Search, budget: &mut Budget) -> Outcome {
    let mut runs = Vec::new();
    let outcome = run_generators(cycle, search, budget, &mut runs);
    note(cycle, search, &outcome, budget, runs);
    outcome
}

/// Notes how a search went.
pub(crate) fn note(
    cycle: &mut Cycle<'_>,
    search: &Search,
    outcome: &Outcome,
    budget: &Budget,
    runs: Vec<GeneratorRun>,
) {
    let result = match outcome {
        Outcome::Solved(_) => SearchResult::Solved,
        Outcome::BudgetSpent => SearchResult::DeadlineExhausted,
        Outcome::Unsolved if cycle.world.policy.generators.is_empty() => SearchResult::NoGenerator,
        Outcome::Unsolved => SearchResult::GeneratorsExhausted,
    };
    cycle.searches.push(SearchReport {
        action: search.report.action,
        result,
        reduced_budget: budget.reduced,
        action_budget_spent: budget.reduced && result == SearchResult::DeadlineExhausted,
        runs,
    });
}

fn run_generators(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    budget: &mut Budget,
    runs: &mut Vec<GeneratorRun>,
) -> Outcome {
    let tasks = cycle.world.tasks_to_allocate(Scope::whole(search.job), true);
    if tasks.is_empty() {
        return Outcome::Unsolved;
    }
    if VictimQueue::new(cycle, &search.candidates).is_empty() {
        return Outcome::Unsolved;
    }
    search.feasible = feasible_nodes(cycle, search.job);
    let before = cycle.world.job(search.job).counts.active_used();
    for generator in cycle.world.policy.generators.clone() {
        let (begin, sets) = (cycle.work(), search.sets);
        budget.begin_generator(generator, begin);
        let mut found = solve_with(cycle, search, generator, &tasks, budget);
        if let ProbeResult::Solved(solution) = found {
            let more = cycle.world.job(search.job).counts.active_used() > before;
            found = if more && cycle.world.is_gang_satisfied(search.job) {
                ProbeResult::Solved(solution)
            } else {
                // KAI leaves such a statement applied (fault 4), and nothing reverts it.
                solution.statement.discard(cycle.world);
                ProbeResult::Unsolved
            };
        }
        let sets = search.sets.since(sets);
        let work_units = cycle.work() - begin;
        let result = run_result(&found, sets);
        runs.reserve_exact(1);
        runs.push(GeneratorRun { generator: generator.name(), result, sets, work_units });
        match found {
            ProbeResult::Solved(solution) => return Outcome::Solved(solution.statement),
            ProbeResult::Unsolved | ProbeResult::BudgetSpent(Spent::Generator) => {}
            ProbeResult::BudgetSpent(Spent::Job) => {
                search.report.budget_spent = true;
                return Outcome::BudgetSpent;
            }
        }
    }
    Outcome::Unsolved
}

fn run_result(found: &ProbeResult, sets: SetCounts) -> RunResult {
    match found {
        ProbeResult::Solved(_) => RunResult::Solved,
        ProbeResult::BudgetSpent(_) => RunResult::DeadlineExhausted,
        ProbeResult::Unsolved if sets.refused > 0 => RunResult::ValidatorRejected,
        ProbeResult::Unsolved => RunResult::Unsolved,
    }
}

/// Nodes with any GPU free or becoming free; all nodes when some pod of the job needs none.
fn feasible_nodes(cycle: &Cycle<'_>, job: JobId) -> Option<RankSet> {
    let mut tasks = cycle.world.job(job).tasks();
    let some_without = tasks.any(|task| cycle.world.shape_of(task).is_cpu_only());
    (!some_without).then(|| cycle.world.free_gpus.partly_free().clone())
}

fn solve_with(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    generator: Generator,
    tasks: &Tasks,
    budget: &mut Budget,
) -> ProbeResult {
    let mut recorded = RecordedVictims::default();
    let mut solved = 0;
    let mut failed = tasks.len() + 1;
    let mut next = 1;
    while next < failed && solved < tasks.len() {
        match probe(cycle, search, generator, &tasks[..next], &recorded, budget) {
            ProbeResult::Solved(solution) => {
                if next == tasks.len() {
                    // The last probe would start from these victims and find the same.
                    return finish(cycle, search, generator, tasks, solution, budget);
                }
                solution.statement.discard(cycle.world);
                recorded = solution.victims;
                solved = next;
                next = (next * 2).min(tasks.len());
            }
            ProbeResult::Unsolved => {
                failed = next;
                break;
            }
            spent @ ProbeResult::BudgetSpent(_) => return spent,
        }
    }
    if solved == 0 {
        return ProbeResult::Unsolved;
    }
    while failed - solved > 1 {
        let middle = solved + (failed - solved) / 2;
        match probe(cycle, search, generator, &tasks[..middle], &recorded, budget) {
            ProbeResult::Solved(solution) => {
                solution.statement.discard(cycle.world);
                recorded = solution.victims;
                solved = middle;
            }
            ProbeResult::Unsolved => failed = middle,
            spent @ ProbeResult::BudgetSpent(_) => return spent,
        }
    }
    probe(cycle, search, generator, tasks, &recorded, budget)
}

/// All pods were placed by a search probe: probe once more from its own victims, which is what counts.
fn finish(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    generator: Generator,
    tasks: &Tasks,
    solution: Solution,
    budget: &mut Budget,
) -> ProbeResult {
    solution.statement.discard(cycle.world);
    probe(cycle, search, generator, tasks, &solution.victims, budget)
}

fn probe(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    generator: Generator,
    tasks: &[TaskId],
    recorded: &RecordedVictims,
    budget: &mut Budget,
) -> ProbeResult {
    let part = cycle.world.part_with(search.job, tasks);
    let probe = Probe { part: &part, tasks, recorded, recorded_slots: OnceCell::new() };
    if let Some(spent) = budget.spent(cycle.work()) {
        return ProbeResult::BudgetSpent(spent);
    }
    let demand = Demand::of(cycle.world, search, generator, &probe);
    if demand.as_ref().is_some_and(|demand| cycle.ruled_out.contains(cycle.world, demand)) {
        return ProbeResult::Unsolved;
    }
    let simulations = search.report.simulations;
    let result = match generator {
        Generator::NodeLocalGreedy => single_nodes::probe(cycle, search, &probe, budget),
        Generator::MultiNodeGang => None,
    };
    let result = result.unwrap_or_else(|| collect(cycle, search, generator, &probe, budget));
    if let (Some(demand), ProbeResult::Unsolved) = (demand, &result)
        && search.report.simulations == simulations
    {
        cycle.ruled_out.remember(cycle.world, demand);
    }
    result
}

/// Collects victims and tries sets of them whenever enough could be free.
fn collect(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    generator: Generator,
    probe: &Probe<'_>,
    budget: &mut Budget,
) -> ProbeResult {
    let mut accumulation = Accumulation::new(cycle, search, probe);
    loop {
        if let Some(spent) = budget.spent(cycle.work()) {
            return ProbeResult::BudgetSpent(spent);
        }
        if accumulation.accepts(cycle, search, probe) {
            let found = try_state(cycle, search, generator, probe, &mut accumulation, budget);
            match found {
                ProbeResult::Unsolved => {}
                other => return other,
            }
        }
        if !accumulation.grow(cycle, search) {
            return ProbeResult::Unsolved;
        }
    }
}

/// Tries the sets of victims that the generator makes of what was collected so far.
fn try_state(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    generator: Generator,
    probe: &Probe<'_>,
    accumulation: &mut Accumulation,
    budget: &mut Budget,
) -> ProbeResult {
    let mut emission = generators::Emission::new(cycle, generator, probe, accumulation);
    while let Some(scenario) = emission.next(cycle, probe, accumulation) {
        match try_set(cycle, search, probe, &scenario, budget) {
            ProbeResult::Unsolved => {}
            other => return other,
        }
    }
    ProbeResult::Unsolved
}

/// Sets that cannot help need not be tried. Where KAI remembers which pods minded others when they were first tried
/// (fault 10), trying has an effect of its own.
fn may_skip_sets(world: &World) -> bool {
    let trying_is_remembered = world.config.compatibility.is_kai() && world.some_pod_repels();
    !world.naive && !trying_is_remembered
}

/// Tries a set of victims unless it failed before or cannot help.
fn try_set(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    probe: &Probe<'_>,
    scenario: &Scenario,
    budget: &mut Budget,
) -> ProbeResult {
    if let Some(spent) = budget.spent(cycle.work()) {
        return ProbeResult::BudgetSpent(spent);
    }
    search.sets.emitted += 1;
    let may_skip = may_skip_sets(cycle.world);
    if may_skip && probe.gets_too_few_slots(cycle.world, scenario) {
        return ProbeResult::Unsolved;
    }
    let victims = scenario.victims(&probe.recorded.tasks);
    let pods = probe.tasks.len();
    if may_skip && bounds::cannot_help(cycle, search, probe, &victims) {
        return ProbeResult::Unsolved;
    }
    let key = Failures::key(pods, &victims);
    if may_skip && search.failures.contain(pods, &key, &victims) {
        search.sets.duplicate += 1;
        return ProbeResult::Unsolved;
    }
    search.report.simulations += 1;
    search.sets.simulated += 1;
    let mut statement = Statement::begin(cycle.world);
    let order = match simulate::run(cycle, search, probe, scenario, &mut statement) {
        Verdict::Solved(victims) => {
            return ProbeResult::Solved(Solution { statement, victims });
        }
        Verdict::Refused => {
            search.report.refused += 1;
            search.sets.refused += 1;
            Some(victims.into())
        }
        Verdict::DoesNotFit => None,
    };
    statement.discard(cycle.world);
    search.failures.remember(pods, key, order);
    ProbeResult::Unsolved
}

/// What no eviction can change stands against a job: says so and true.
pub(crate) fn is_hopeless(cycle: &mut Cycle<'_>, job: JobId) -> bool {
    if !cycle.world.policy.filters.contains(&Filter::Predicates) || cycle.is_known_to_have_hope(job)
    {
        return false;
    }
    let tasks = cycle.world.tasks_to_allocate(Scope::whole(job), true);
    for task in tasks {
        if let Err(refusal) = predicates::check_task_beyond_eviction(cycle.world, task) {
            let fit = TaskFit { before_nodes: Some(refusal.text), ..TaskFit::default() };
            let fit = std::sync::Arc::new(fit);
            cycle.note(job, JobError::NoNode { task, progress: Progress::Alone, fit });
            return true;
        }
    }
    cycle.remember_hope(job);
    false
}

impl Scenario {
    /// Every victim, those of earlier successes first.
    pub(crate) fn victims(&self, recorded: &[TaskId]) -> Vec<TaskId> {
        recorded.iter().chain(&self.potential).copied().collect()
    }
}
