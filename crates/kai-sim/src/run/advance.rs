//! What happens to a cluster between two cycles: bindings succeed, nominations are forgotten, evicted
//! tasks end and come back.

use crate::format::{OnEvict, Status};
use crate::outcome::{CycleOutcome, JobOutcome, TaskOutcome};
use crate::state::{ClusterState, Job, Task};

/// Whether time passes between cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Clock {
    /// Every cycle is at time 0 of its own; ages stay what they were.
    Frozen,
    /// Times are kept, and an evicted task takes its time to end.
    Running {
        /// The time of the cycle.
        now_s: f64,
    },
}

/// Turns the state a cycle began with into the one the next begins with.
pub(super) fn advance(state: &mut ClusterState, outcome: &CycleOutcome, clock: Clock) {
    for job in &mut state.jobs {
        for task in &mut job.tasks {
            if let Some(ended) = outcome.tasks.get(&task.name) {
                advance_task(task, ended, job.on_evict, clock);
            }
        }
        advance_times(job, outcome.jobs.get(&job.name), clock);
    }
    for claim in &mut state.resource_claims {
        let decided = outcome
            .claims
            .iter()
            .find(|(name, _)| name.name == claim.name && name.namespace == claim.namespace);
        if let Some((_, status)) = decided {
            claim.status = Some(status.clone()).filter(|status| !status.is_empty());
        }
    }
    if let Clock::Running { now_s } = clock {
        finish_evictions(state, now_s);
    }
}

fn advance_task(task: &mut Task, ended: &TaskOutcome, on_evict: OnEvict, clock: Clock) {
    match ended.status {
        Status::Pipelined => return_to_pending(task),
        Status::Releasing if on_evict == OnEvict::Reset && clock == Clock::Frozen => {
            return_to_pending(task);
        }
        Status::Binding => {
            settle(task, ended, Status::Running);
            task.bind_request = None;
            task.nominated_node = None;
        }
        status => settle(task, ended, status),
    }
    if let (Clock::Running { now_s }, Status::Releasing) = (clock, task.status) {
        task.evicted_at_s.get_or_insert(now_s);
    }
}

/// The devices a task had before the cycle stay written on it: nothing removes them.
fn return_to_pending(task: &mut Task) {
    task.status = Status::Pending;
    task.node = None;
    task.numa_zones.clear();
    task.bind_request = None;
    task.evicted_at_s = None;
}

fn settle(task: &mut Task, ended: &TaskOutcome, status: Status) {
    task.status = status;
    task.node.clone_from(&ended.node);
    task.gpu_groups.clone_from(&ended.gpu_groups);
    task.numa_zones.clone_from(&ended.numa_zones);
}

fn advance_times(job: &mut Job, ended: Option<&JobOutcome>, clock: Clock) {
    match (clock, ended) {
        (Clock::Frozen, _) => {
            job.started_at_s = job.has_allocated_task().then_some(-job.start_age_s);
        }
        (Clock::Running { .. }, Some(ended)) => {
            job.started_at_s = ended.started_at_s;
            job.stale_since_s = ended.stale_since_s;
            job.evicted_at_s = ended.evicted_at_s;
        }
        (Clock::Running { .. }, None) => {}
    }
}

/// Evicted tasks whose time is over wait again.
pub(super) fn finish_evictions(state: &mut ClusterState, now_s: f64) {
    let grace_s = state.config.params.eviction_grace_s;
    for job in state.jobs.iter_mut().filter(|job| job.on_evict == OnEvict::Reset) {
        for task in job.tasks.iter_mut().filter(|task| task.status == Status::Releasing) {
            if task.evicted_at_s.is_some_and(|evicted_at_s| now_s >= evicted_at_s + grace_s) {
                return_to_pending(task);
            }
        }
    }
}
