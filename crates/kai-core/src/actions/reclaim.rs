//! reclaim: a queue below its fair share takes back from queues above theirs.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::config::ActionKind;
use crate::cycle::Cycle;
use crate::cycle::members::Scope;
use crate::cycle::order::{Eligible, JobQueue};
use crate::fairness::{ReclaimValidator, Reclaimer, can_reclaim, may_be_victim};
use crate::ids::{JobId, QueueId};
use crate::plugins::minruntime::Cause;
use crate::report::searches::SetCounts;
use crate::report::victims::VictimVerdict;
use crate::solver::bounds::not_enough_to_take;
use crate::solver::budget::{ActionBudget, Budget};
use crate::solver::reclaim_rules::required;
use crate::solver::signatures::Signatures;
use crate::solver::trace::Trace;
use crate::solver::victim_queue::{Candidates, giving_queues};
use crate::solver::{Failures, Outcome, Rules, Search, is_hopeless, note, solve};

pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let budgets = cycle.world.config.budgets.clone();
    let budget = ActionBudget::new(budgets.as_ref(), ActionKind::Reclaim, cycle.work());
    if cycle.world.policy.proportion.is_none() || !budget.is_valid() {
        return;
    }
    let eligible = Eligible { preemptible_only: false, past_delay_only: true };
    let mut queue = JobQueue::new(cycle, ActionKind::Reclaim, eligible);
    let mut signatures = Signatures::new(cycle);
    // Jobs for which no disruption budget counts any more fail for other reasons.
    let mut outwaiting = Signatures::new(cycle);
    let mut delayed_queues: BTreeSet<QueueId> = BTreeSet::new();
    while let Some(job) = queue.pop(cycle) {
        if let Some(refusal) = cycle.known_reclaim_refusal(job) {
            cycle.fits.entry(job).or_default().cannot_reclaim = Some(refusal);
            continue;
        }
        let Some(reclaimer) = reclaimer(cycle, job) else { continue };
        if let Err(refusal) = can_reclaim(&cycle.world.tree, &reclaimer) {
            cycle.remember_reclaim_refusal(job, refusal);
            cycle.fits.entry(job).or_default().cannot_reclaim = Some(refusal);
            continue;
        }
        let outwaited = cycle.outwaited_budgets(job);
        let known = if outwaited { &mut outwaiting } else { &mut signatures };
        if !known.is_worth_trying(cycle, job, Some(reclaimer.queue)) || is_hopeless(cycle, job) {
            if delayed_queues.contains(&reclaimer.queue) {
                cycle.delay_reclaim(job);
            }
            continue;
        }
        let Some(mut job_budget) = budget.for_job(cycle) else { return };
        let (mut search, outcome) = look_for_victims(cycle, job, reclaimer, &mut job_budget);
        match outcome {
            Outcome::Solved(statement) => {
                cycle.commit(ActionKind::Reclaim, &statement, Some(job));
            }
            Outcome::Unsolved => {
                known.failed(cycle, job, Some(reclaimer.queue));
                if cycle.reclaim_delays.contains_key(&job) {
                    delayed_queues.insert(reclaimer.queue);
                }
                search.note_failure(cycle);
                cycle.fits.entry(job).or_default().add_victims(search.report);
            }
            Outcome::BudgetSpent => {
                cycle.fits.entry(job).or_default().add_victims(search.report);
                return;
            }
        }
    }
}

/// Looks for victims; once disruption budgets have delayed the job long enough, also for over-quota victims that they
/// protect.
fn look_for_victims(
    cycle: &mut Cycle<'_>,
    job: JobId,
    reclaimer: Reclaimer,
    budget: &mut Budget,
) -> (Search, Outcome) {
    let (mut search, outcome) = look_once(cycle, job, reclaimer, budget);
    let in_the_way = !search.report.budgets.is_empty() && search.report.not_enough.is_none();
    if !in_the_way || !matches!(outcome, Outcome::Unsolved) {
        return (search, outcome);
    }
    search.report.budgets_until = cycle.delay_reclaim(job);
    if !cycle.outwaited_budgets(job) {
        return (search, outcome);
    }
    cycle.budget_overrides.insert(job);
    let (mut second, outcome) = look_once(cycle, job, reclaimer, budget);
    if !matches!(outcome, Outcome::Solved(_)) {
        cycle.budget_overrides.remove(&job);
    }
    second.report.budgets = search.report.budgets;
    second.report.budgets_until = search.report.budgets_until;
    (second, outcome)
}

fn look_once(
    cycle: &mut Cycle<'_>,
    job: JobId,
    reclaimer: Reclaimer,
    budget: &mut Budget,
) -> (Search, Outcome) {
    let mut search = search_for(cycle, job, reclaimer);
    let tasks = cycle.world.tasks_to_allocate(Scope::whole(job), true);
    let queues = &search.candidates.queues;
    search.report.not_enough = not_enough_to_take(cycle, queues, &reclaimer, &tasks);
    let outcome = if search.report.not_enough.is_some() {
        note(cycle, &search, &Outcome::Unsolved, budget, Vec::new());
        Outcome::Unsolved
    } else {
        solve(cycle, &mut search, budget)
    };
    (search, outcome)
}

/// What the job's next pods ask for, as a reclaimer.
fn reclaimer(cycle: &Cycle<'_>, job: JobId) -> Option<Reclaimer> {
    let tasks = cycle.world.tasks_to_allocate(Scope::whole(job), true);
    let queue = cycle.world.job(job).queue?;
    let preemptible = cycle.world.asks_beyond_quota(job, &tasks);
    let (required, involved) = required(cycle, &tasks);
    Some(Reclaimer { queue, required, involved, preemptible })
}

fn search_for(cycle: &mut Cycle<'_>, job: JobId, reclaimer: Reclaimer) -> Search {
    let mut report = cycle.victims_report(ActionKind::Reclaim, job);
    // It may have waited long enough for disruption budgets.
    let overrides = cycle.budget_overrides.contains(&job);
    let mut queues = Vec::new();
    let mut spared = FxHashSet::default();
    for (name, queue) in giving_queues(cycle.world) {
        if queue == reclaimer.queue {
            continue;
        }
        let running = &cycle.world.job_index.of(queue).running;
        if !may_be_victim(&cycle.world.tree, &reclaimer, queue) {
            let names = running.iter().map(|key| &cycle.world.job(key.job).spec.name);
            report.note_many(&name, VictimVerdict::QueueProtected, running.len(), names);
            continue;
        }
        queues.push(queue);
        if !cycle.world.may_protect_victims() {
            continue;
        }
        let victims: Vec<JobId> = running.iter().map(|key| key.job).collect();
        for victim in victims {
            let verdict = if cycle.is_too_young(Cause::Reclaim, job, victim) {
                VictimVerdict::YoungerThanMinRuntime
            } else if let Some(verdict) = cycle.eviction_obstacle(victim, overrides, &mut report) {
                verdict
            } else {
                continue;
            };
            spared.insert(victim);
            report.note(&name, verdict, &cycle.world.job(victim).spec.name.clone());
        }
    }
    let multiplier =
        cycle.world.policy.proportion.map_or(1.0, |arguments| arguments.saturation_multiplier);
    let validator = ReclaimValidator::new(&cycle.world.tree, reclaimer, multiplier);
    Search {
        job,
        candidates: Candidates { queues, below_priority: None, spared, most_jobs: Vec::new() },
        rules: Rules::Reclaim(Box::new(validator)),
        feasible: None,
        trace: Trace::default(),
        failures: Failures::default(),
        sets: SetCounts::default(),
        report,
    }
}
