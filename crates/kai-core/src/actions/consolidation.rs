//! consolidation: running pods move together so that a waiting job fits; every pod that moves is placed again.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::config::ActionKind;
use crate::cycle::Cycle;
use crate::cycle::members::{Scope, Tasks};
use crate::cycle::order::{Eligible, JobQueue};
use crate::ids::JobId;
use crate::report::searches::SetCounts;
use crate::report::victims::{TooLittleFree, VictimsConsidered};
use crate::solver::budget::ActionBudget;
use crate::solver::signatures::Signatures;
use crate::solver::trace::Trace;
use crate::solver::victim_queue::{Candidates, giving_queues};
use crate::solver::{Failures, Outcome, Rules, Search, is_hopeless, solve};
use crate::world::shape::{GpuDemand, mig_gigabytes};

pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let budgets = cycle.world.config.budgets.clone();
    let budget = ActionBudget::new(budgets.as_ref(), ActionKind::Consolidation, cycle.work());
    if cycle.world.config.params.max_consolidation_preemptees == Some(0) || !budget.is_valid() {
        return;
    }
    let eligible = Eligible { preemptible_only: true, past_delay_only: true };
    let mut queue = JobQueue::new(cycle, ActionKind::Consolidation, eligible);
    let mut signatures = Signatures::new(cycle);
    while let Some(job) = queue.pop(cycle) {
        if !signatures.is_worth_trying(cycle, job, None) || is_hopeless(cycle, job) {
            continue;
        }
        if let Some(report) = lack_of_capacity(cycle, job) {
            signatures.failed(cycle, job, None);
            cycle.fits.entry(job).or_default().add_victims(report);
            continue;
        }
        let Some(mut job_budget) = budget.for_job(cycle) else { return };
        let mut search = search_for(cycle, job);
        match solve(cycle, &mut search, &mut job_budget) {
            Outcome::Solved(statement) => {
                cycle.commit(ActionKind::Consolidation, &statement, Some(job));
            }
            Outcome::Unsolved => {
                signatures.failed(cycle, job, None);
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

/// Why no pods can be moved for the job, where the whole cluster lacks what it asks for.
fn lack_of_capacity(cycle: &Cycle<'_>, job: JobId) -> Option<Arc<VictimsConsidered>> {
    if let Some(known) = cycle.known_lack_of_capacity(job) {
        return Some(known);
    }
    let too_little_free = could_fit_at_all(cycle, job).err()?;
    let mut report = cycle.victims_report(ActionKind::Consolidation, job);
    report.too_little_free = Some(too_little_free);
    let report = Arc::new(report);
    cycle.remember_lack_of_capacity(job, &report);
    Some(report)
}

/// The whole cluster has what the job asks for, wherever it is.
fn could_fit_at_all(cycle: &Cycle<'_>, job: JobId) -> Result<(), TooLittleFree> {
    let world = &cycle.world;
    let tasks = world.tasks_to_allocate(Scope::whole(job), true);
    let needed_centi = tasks.iter().map(|task| world.shape_of(*task).quota_centi()).sum();
    let needed_mib = wanted_memory(cycle, &tasks);
    let (free_centi, free_mib) = world.available_on_ready_nodes();
    if free_centi >= needed_centi && free_mib >= needed_mib {
        return Ok(());
    }
    Err(TooLittleFree { needed_centi, free_centi, needed_mib, free_mib })
}

/// KAI adds MiB per device, not per pod, and the GB of MIG profiles (fault 23).
fn wanted_memory(cycle: &Cycle<'_>, tasks: &Tasks) -> i64 {
    let world = &cycle.world;
    let as_kai = world.config.compatibility.is_kai();
    tasks
        .iter()
        .map(|task| match &world.shape_of(*task).gpu {
            GpuDemand::Memory { mib, devices } => {
                if as_kai {
                    *mib
                } else {
                    mib * devices
                }
            }
            GpuDemand::Mig { instances, .. } if as_kai => instances
                .iter()
                .map(|(slot, count)| mig_gigabytes(world.names.name(*slot)).unwrap_or(0) * count)
                .sum(),
            _ => 0,
        })
        .sum()
}

fn search_for(cycle: &mut Cycle<'_>, job: JobId) -> Search {
    let mut report = cycle.victims_report(ActionKind::Consolidation, job);
    let giving = giving_queues(cycle.world);
    let mut spared = FxHashSet::default();
    spared.insert(job);
    if !cycle.world.budgets.is_empty() || !cycle.world.protected_pods.is_empty() {
        for (name, queue) in &giving {
            let running: Vec<JobId> =
                cycle.world.job_index.of(*queue).running.iter().map(|key| key.job).collect();
            for victim in running {
                let Some(verdict) = cycle.eviction_obstacle(victim, false, &mut report) else {
                    continue;
                };
                spared.insert(victim);
                let victim = cycle.world.job(victim).spec.name.clone();
                report.note(name, verdict, &victim);
            }
        }
    }
    let queues = giving.into_iter().map(|(_, queue)| queue).collect();
    let mut candidates = Candidates { queues, below_priority: None, spared, most_jobs: Vec::new() };
    if let Some(most) = cycle.world.config.params.max_consolidation_preemptees {
        // KAI takes one more than it was allowed.
        let one_more = usize::from(cycle.world.config.compatibility.is_kai());
        candidates.keep_first(cycle, most + one_more);
    }
    Search {
        job,
        candidates,
        rules: Rules::Consolidation,
        feasible: None,
        trace: Trace::default(),
        failures: Failures::default(),
        sets: SetCounts::default(),
        report,
    }
}
