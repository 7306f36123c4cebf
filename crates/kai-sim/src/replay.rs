//! A planner that decides nothing itself: it does what another implementation was recorded to do. The
//! judge must find no fault with it, so it judges the judge.

use std::collections::BTreeMap;

use crate::format::{Action, GpuRequest, Reference, Status};
use crate::outcome::{CycleOutcome, Event, JobOutcome, NodeOutcome, TaskOutcome};
use crate::run::{Planner, PlannerError};
use crate::state::{ClusterState, Node, Task};
use crate::strict::RecordedStates;

/// Replays the recorded cycles one by one.
pub struct ReplayPlanner<'a> {
    reference: &'a Reference,
    states: RecordedStates<'a>,
    next: usize,
    fit_errors: &'a BTreeMap<String, String>,
}

impl<'a> ReplayPlanner<'a> {
    /// A planner that starts with the first recorded cycle.
    pub fn new(reference: &'a Reference) -> Self {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        Self { reference, states: RecordedStates::new(reference), next: 0, fit_errors: &NONE }
    }
}

impl Planner for ReplayPlanner<'_> {
    fn cycle(
        &mut self,
        state: &ClusterState,
        actions: &[Action],
        now_s: f64,
    ) -> Result<CycleOutcome, PlannerError> {
        let number = self.next + 1;
        let Some(entry) = self.reference.cycles.get(self.next) else {
            return Err(PlannerError(format!("only {} cycles were recorded", self.next)));
        };
        self.next += 1;
        let asked: Vec<_> = actions.iter().map(ToString::to_string).collect();
        if asked != entry.actions {
            let message = format!("entry {number} has other actions: {:?}", entry.actions);
            return Err(PlannerError(message));
        }
        // Records keep the fit errors of the first cycle only.
        if !entry.fit_errors.is_empty() {
            self.fit_errors = &entry.fit_errors;
        }
        let mut outcome = CycleOutcome::default();
        for event in &entry.events {
            outcome.events.push(Event {
                call: event.op,
                action: event.action.clone(),
                task: event.task.clone(),
                node: event.node.clone(),
                gpu_groups: event.gpu_groups.clone(),
                for_job: event.for_job.clone(),
            });
        }
        for (&name, recorded) in self.states.advance().into_iter().flatten() {
            let Some((_, task)) = state.task(name) else {
                return Err(PlannerError(format!("entry {number} has an unknown task {name}")));
            };
            let node = recorded.node.as_ref().and_then(|node| state.node(node));
            let ended = TaskOutcome {
                status: recorded.status,
                node: recorded.node.clone(),
                gpu_groups: recorded.gpu_groups.clone(),
                numa_zones: recorded.numa_zones.clone(),
                gpus_accepted: gpus_accepted(task, recorded.status, node),
            };
            outcome.tasks.insert(name.to_owned(), ended);
        }
        for job in &state.jobs {
            let mut ended = JobOutcome::times_after(job, &outcome.tasks, &outcome.events, now_s);
            ended.fit_errors = self.fit_errors.get(&job.name).cloned().unwrap_or_default();
            outcome.jobs.insert(job.name.clone(), ended);
        }
        for (name, recorded) in &entry.nodes {
            let ended = NodeOutcome {
                idle_gpus: recorded.idle_gpus,
                releasing_gpus: recorded.releasing_gpus,
                numa_available: recorded.numa_available.clone(),
            };
            outcome.nodes.insert(name.clone(), ended);
        }
        check_settled(state, actions, &outcome, number)?;
        Ok(outcome)
    }
}

/// Without actions the recorded states are those the cycle began with, so the runner must have arrived
/// at the same ones.
fn check_settled(
    state: &ClusterState,
    actions: &[Action],
    outcome: &CycleOutcome,
    number: usize,
) -> Result<(), PlannerError> {
    if !actions.is_empty() {
        return Ok(());
    }
    for (_, task) in state.tasks() {
        let recorded = outcome.tasks.get(&task.name);
        let recorded = recorded.map(|recorded| (recorded.status, &recorded.node));
        if recorded != Some((task.status, &task.node)) {
            let message = format!(
                "entry {number} has {recorded:?} for {}, the runner {} on {:?}",
                task.name, task.status, task.node
            );
            return Err(PlannerError(message));
        }
    }
    Ok(())
}

/// Devices a task is granted on its node.
fn gpus_accepted(task: &Task, status: Status, node: Option<&Node>) -> f64 {
    let (Some(request), Some(node)) = (&task.request.gpu, node) else { return 0.0 };
    match request {
        _ if !status.occupies_node() => 0.0,
        GpuRequest::Memory { mib, devices } => {
            // The reference rounds a device's memory down to hundreds and a part of it up to 0.01.
            let memory_mib = (node.gpu_memory_mib - node.gpu_memory_mib % 100) as f64;
            let part = (*mib as f64 / memory_mib * 100.0).ceil() / 100.0;
            part * *devices as f64
        }
        request => request.devices_requested(),
    }
}
