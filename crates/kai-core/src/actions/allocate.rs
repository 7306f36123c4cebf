//! allocate: jobs in order, each placed on free resources, whole or not at all. A job that needs capacity of
//! releasing pods is nominated to it and waits whole. A job that can grow comes back until it cannot.

use crate::config::ActionKind;
use crate::cycle::Cycle;
use crate::cycle::attempt::Mode;
use crate::cycle::members::Scope;
use crate::cycle::order::{Eligible, JobQueue};
use crate::cycle::statement::{OperationKind, Statement};
use crate::ids::JobId;
use crate::placement::node_set::NodeSet;
use crate::status::Status;

pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let eligible = Eligible { preemptible_only: false, past_delay_only: false };
    let mut queue = JobQueue::new(cycle, ActionKind::Allocate, eligible);
    while let Some(job) = queue.pop(cycle) {
        if serve(cycle, job) && cycle.world.job(job).counts.of(Status::Pending) > 0 {
            queue.push(cycle, job);
        }
    }
}

fn serve(cycle: &mut Cycle<'_>, job: JobId) -> bool {
    if cycle.repeat_failure(job) {
        return false;
    }
    let is_first_attempt = !cycle.fits.contains_key(&job);
    let mut statement = Statement::begin(cycle.world);
    let was_placed = cycle.world.job(job).counts.count(Status::is_allocated) > 0;
    if !cycle.attempt(&mut statement, Scope::whole(job), &NodeSet::all(), Mode::Real) {
        statement.discard(cycle.world);
        if is_first_attempt {
            cycle.remember_failure(job);
        }
        return false;
    }
    if cycle.world.must_wait_whole(job) {
        statement.turn_placements_into_nominations(cycle.world);
    }
    let nominates = statement
        .standing()
        .any(|operation| matches!(operation.kind, OperationKind::Nominate { .. }));
    cycle.commit(ActionKind::Allocate, &statement, None);
    if !nominates && !was_placed {
        cycle.world.set_last_start(job, cycle.now);
    }
    true
}
