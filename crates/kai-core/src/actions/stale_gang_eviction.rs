//! stalegangeviction: a gang that lost members and did not get them back within its grace is evicted whole.

use crate::config::ActionKind;
use crate::cycle::{Cycle, Decision, DecisionKind};
use crate::ids::{JobId, TaskId};

pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let mut jobs: Vec<JobId> = cycle.world.jobs_to_check_for_staleness();
    jobs.sort_by(|left, right| {
        cycle.world.job(*left).spec.name.cmp(&cycle.world.job(*right).spec.name)
    });
    for job in jobs {
        check(cycle, job);
    }
}

fn check(cycle: &mut Cycle<'_>, job: JobId) {
    let entry = cycle.world.job(job);
    let known = entry.spec.stale_since;
    if !cycle.world.is_stale(job) {
        if known.is_some() {
            cycle.staleness.insert(job, None);
        }
        return;
    }
    let since = known.unwrap_or(cycle.now);
    let default = cycle.world.config.params.default_staleness_grace;
    let grace = entry.spec.staleness_grace.unwrap_or(default);
    cycle.staleness.insert(job, Some(since));
    if grace.nanos < 0 {
        return;
    }
    if cycle.now < since.plus(grace) {
        cycle.wake_at(since.plus(grace));
        return;
    }
    let tasks: Vec<TaskId> = cycle
        .world
        .job(job)
        .tasks()
        .filter(|task| cycle.world.task(*task).state.status.is_active_allocated())
        .collect();
    let batch = tasks.len() as u32;
    for task in tasks {
        cycle.world.evict(task);
        cycle.world.mark_decided(task);
        let kind = DecisionKind::Evict { for_job: None, batch };
        cycle.decisions.push(Decision { action: ActionKind::StaleGangEviction, task, kind });
        cycle.touch(task);
    }
    cycle.settle_index();
}
