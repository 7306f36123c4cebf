//! preempt: of one queue, jobs of higher priority take the place of preemptible jobs of lower priority.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::config::ActionKind;
use crate::cycle::Cycle;
use crate::cycle::alike::FutileSearch;
use crate::cycle::members::Scope;
use crate::cycle::order::{Eligible, JobQueue};
use crate::fairness::{CapacityViolation, check_non_preemptible_quota};
use crate::ids::{JobId, QueueId};
use crate::plugins::minruntime::Cause;
use crate::report::job_fit::JobError;
use crate::report::searches::{SearchReport, SetCounts};
use crate::report::victims::VictimVerdict;
use crate::solver::budget::ActionBudget;
use crate::solver::signatures::Signatures;
use crate::solver::trace::Trace;
use crate::solver::victim_queue::Candidates;
use crate::solver::{Failures, Outcome, Rules, Search, is_hopeless, solve};
use crate::world::index::JobKey;

pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let budgets = cycle.world.config.budgets.clone();
    let budget = ActionBudget::new(budgets.as_ref(), ActionKind::Preempt, cycle.work());
    if !budget.is_valid() {
        return;
    }
    let eligible = Eligible { preemptible_only: false, past_delay_only: true };
    let mut queue = JobQueue::new(cycle, ActionKind::Preempt, eligible);
    let mut signatures = Signatures::new(cycle);
    while let Some(job) = queue.pop(cycle) {
        let Some(own_queue) = cycle.world.job(job).queue else { continue };
        if let Err(violation) = fits_quota(cycle, job, own_queue) {
            cycle.note_first_error(job, JobError::Capacity(violation));
            continue;
        }
        if !signatures.is_worth_trying(cycle, job, Some(own_queue)) || is_hopeless(cycle, job) {
            continue;
        }
        if let Some(FutileSearch { victims, search }) = cycle.known_futile_search(job) {
            let Some(job_budget) = budget.for_job(cycle) else { return };
            signatures.failed(cycle, job, Some(own_queue));
            cycle.searches.push(SearchReport { reduced_budget: job_budget.reduced, ..search });
            cycle.fits.entry(job).or_default().add_victims(victims);
            continue;
        }
        let work_before = cycle.work();
        let mut search = search_for(cycle, job, own_queue);
        let Some(mut job_budget) = budget.for_job(cycle) else { return };
        match solve(cycle, &mut search, &mut job_budget) {
            Outcome::Solved(statement) => {
                cycle.commit(ActionKind::Preempt, &statement, Some(job));
            }
            Outcome::Unsolved => {
                signatures.failed(cycle, job, Some(own_queue));
                search.note_failure(cycle);
                let victims = Arc::new(search.report);
                let nothing_was_tried = victims.simulations == 0 && cycle.work() == work_before;
                if nothing_was_tried
                    && !cycle.world.may_protect_victims()
                    && let Some(search) = cycle.searches.last().cloned()
                {
                    let futile = FutileSearch { victims: Arc::clone(&victims), search };
                    cycle.remember_futile_search(job, futile);
                }
                cycle.fits.entry(job).or_default().add_victims(victims);
            }
            Outcome::BudgetSpent => {
                cycle.fits.entry(job).or_default().add_victims(search.report);
                return;
            }
        }
    }
}

/// A job that may not be preempted must fit its queue's quota.
fn fits_quota(cycle: &Cycle<'_>, job: JobId, queue: QueueId) -> Result<(), CapacityViolation> {
    if cycle.world.policy.proportion.is_none() || cycle.world.job(job).is_preemptible() {
        return Ok(());
    }
    let tasks = cycle.world.tasks_to_allocate(Scope::whole(job), true);
    if cycle.world.asks_beyond_quota(job, &tasks) {
        return Ok(());
    }
    let requested = cycle.requested(&tasks, cycle.world.largest_gpu_mib());
    check_non_preemptible_quota(&cycle.world.tree, queue, &requested)
}

fn search_for(cycle: &mut Cycle<'_>, job: JobId, queue: QueueId) -> Search {
    let priority = cycle.world.job(job).spec.priority;
    let mut report = cycle.victims_report(ActionKind::Preempt, job);
    let name = cycle.world.tree.node(queue).name.clone();
    let mut spared = FxHashSet::default();
    spared.insert(job);
    let running = &cycle.world.job_index.of(queue).running;
    let lower = |key: &&JobKey| cycle.world.job(key.job).spec.priority < priority;
    // Where priorities order jobs, those below are the last ones.
    let ordered = cycle.world.policy.orders_by_priority;
    let below: Vec<JobId> = if ordered {
        running.iter().rev().take_while(lower).map(|key| key.job).collect()
    } else {
        running.iter().filter(lower).map(|key| key.job).collect()
    };
    let no_lower = running.len() - below.len();
    let others = running.iter().filter(|key| !lower(key));
    let names = others.map(|key| &cycle.world.job(key.job).spec.name);
    report.note_many(&name, VictimVerdict::PriorityNotLower, no_lower, names);
    if cycle.world.may_protect_victims() {
        for victim in below {
            let verdict = if cycle.is_too_young(Cause::Preempt, job, victim) {
                VictimVerdict::YoungerThanMinRuntime
            } else if let Some(verdict) = cycle.eviction_obstacle(victim, false, &mut report) {
                verdict
            } else {
                continue;
            };
            spared.insert(victim);
            report.note(&name, verdict, &cycle.world.job(victim).spec.name.clone());
        }
    }
    Search {
        job,
        candidates: Candidates {
            queues: vec![queue],
            below_priority: Some(priority),
            spared,
            most_jobs: Vec::new(),
        },
        rules: Rules::Preempt,
        feasible: None,
        trace: Trace::default(),
        failures: Failures::default(),
        sets: SetCounts::default(),
        report,
    }
}
