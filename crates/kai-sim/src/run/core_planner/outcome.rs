//! What the core decided, in the runner's words.

use std::collections::BTreeMap;

use kai_core::input::Text;
use kai_core::plan::{CyclePlan, Step, StepKind};
use kai_core::report::explain;
use kai_core::report::text::detailed_message;
use kai_core::resources::GPU;
use kai_core::world::World;

use super::jobs::{name_of, status_back};
use crate::format::Call;
use crate::outcome::{CycleOutcome, Event, JobOutcome, NodeOutcome, TaskOutcome};
use crate::state::{ClusterState, Task};

/// Tasks and nodes as the world shows them.
pub(super) fn states(state: &ClusterState, world: &World) -> CycleOutcome {
    let mut outcome = CycleOutcome::default();
    for job in &state.jobs {
        for task in &job.tasks {
            let found = world.task_named(&name_of(job, &task.name));
            let known = found.map(|id| task_outcome(world, task, id));
            outcome.tasks.insert(task.name.clone(), known.unwrap_or_else(|| as_declared(task)));
        }
    }
    for (_, node) in world.nodes() {
        let numa_available = super::nodes::zones_back(world, node);
        let entry = NodeOutcome {
            idle_gpus: node.amounts.idle.get(GPU) as f64,
            releasing_gpus: node.amounts.releasing.get(GPU) as f64,
            numa_available,
        };
        outcome.nodes.insert(node.name().to_string(), entry);
    }
    super::devices::claims_back(state, world, &mut outcome);
    outcome
}

fn task_outcome(world: &World, task: &Task, id: kai_core::ids::TaskId) -> TaskOutcome {
    let entry = world.task(id);
    let node = entry.state.node.map(|node| world.node(node).name().to_string());
    let untouched = status_back(entry.state.status) == task.status;
    TaskOutcome {
        status: status_back(entry.state.status),
        node: node.or_else(|| task.node.clone().filter(|_| untouched)),
        gpu_groups: entry
            .state
            .groups
            .iter()
            .map(|group| world.group_name(*group).to_string())
            .collect(),
        numa_zones: entry.state.zones.zones().iter().map(|(zone, _)| *zone).collect(),
        gpus_accepted: entry.state.accepted.gpu_centi as f64 / 100.0,
    }
}

fn as_declared(task: &Task) -> TaskOutcome {
    TaskOutcome { status: task.status, node: task.node.clone(), ..TaskOutcome::default() }
}

/// Events, fit errors and times from the plan.
pub(super) fn add_plan(
    outcome: &mut CycleOutcome,
    state: &ClusterState,
    plan: &CyclePlan,
    now_s: f64,
) {
    outcome.events = plan.steps.iter().map(event).collect();
    outcome.wake_at_s = plan.wake_at.map(super::seconds);
    let reports: BTreeMap<_, _> =
        plan.waiting.iter().map(|report| (report.job.clone(), report)).collect();
    for job in &state.jobs {
        let mut entry = JobOutcome::times_after(job, &outcome.tasks, &outcome.events, now_s);
        let name = name_of(job, &job.name);
        if let Some(report) = reports.get(&name) {
            if !report.errors.is_empty() {
                entry.fit_errors = detailed_message(&report.errors);
            }
            entry.explanation = explain::job(report);
            entry.task_fit_errors = report.pods.iter().map(|pod| pod.message.to_string()).collect();
        }
        if let Some((_, since)) = plan.staleness.iter().find(|(stale, _)| *stale == name) {
            entry.stale_since_s = since.map(super::seconds);
        }
        outcome.jobs.insert(job.name.clone(), entry);
    }
}

/// Times of jobs when nothing ran.
pub(super) fn add_times(outcome: &mut CycleOutcome, state: &ClusterState, now_s: f64) {
    for job in &state.jobs {
        let entry = JobOutcome::times_after(job, &outcome.tasks, &[], now_s);
        outcome.jobs.insert(job.name.clone(), entry);
    }
}

fn event(step: &Step) -> Event {
    let texts = |groups: &[Text]| groups.iter().map(ToString::to_string).collect();
    let name =
        |job: &Option<kai_core::input::ObjectName>| job.as_ref().map(|job| job.name.to_string());
    let (call, node, gpu_groups, for_job) = match &step.kind {
        StepKind::Bind { node, gpu_groups, .. } => {
            (Call::Bind, Some(node.to_string()), texts(gpu_groups), None)
        }
        StepKind::Nominate { node, gpu_groups, for_job } => {
            (Call::Pipeline, Some(node.to_string()), texts(gpu_groups), name(for_job))
        }
        StepKind::Evict { for_job, .. } => (Call::Evict, None, Vec::new(), name(for_job)),
    };
    Event {
        call,
        action: step.action.name().to_owned(),
        task: step.pod.name.to_string(),
        node,
        gpu_groups,
        for_job,
    }
}
