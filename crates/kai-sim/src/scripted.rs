//! For tests: a planner that does what a script says, so that runner and comparison can be tested
//! without a scheduler.

use crate::format::{Action, Call, Scenario, Status};
use crate::outcome::{CycleOutcome, Event, JobOutcome, NodeOutcome, TaskOutcome};
use crate::run::{Planner, PlannerError};
use crate::state::ClusterState;

/// One decision of a script.
#[derive(Clone)]
pub(crate) struct Decision {
    call: Call,
    task: &'static str,
    node: &'static str,
    groups: Vec<String>,
}

/// `task` is placed on free resources of `node`.
pub(crate) fn bind(task: &'static str, node: &'static str) -> Decision {
    Decision { call: Call::Bind, task, node, groups: Vec::new() }
}

/// `task` is placed on a shared device of `node`.
pub(crate) fn bind_shared(task: &'static str, node: &'static str, device: &str) -> Decision {
    Decision { groups: vec![device.to_owned()], ..bind(task, node) }
}

/// Evicts `task` from `node`.
pub(crate) fn evict(task: &'static str, node: &'static str) -> Decision {
    Decision { call: Call::Evict, ..bind(task, node) }
}

/// Nominates `task` to `node`.
pub(crate) fn pipeline(task: &'static str, node: &'static str) -> Decision {
    Decision { call: Call::Pipeline, ..bind(task, node) }
}

/// Does in each cycle what the script says for it, and nothing when the script has ended.
#[derive(Default)]
pub(crate) struct ScriptedPlanner {
    script: std::collections::VecDeque<Vec<Decision>>,
    /// The time of every cycle with actions.
    pub(crate) times_s: Vec<f64>,
    /// What is said about every job that has a pending task.
    pub(crate) fit_errors: String,
}

impl ScriptedPlanner {
    pub(crate) fn new(script: impl IntoIterator<Item = Vec<Decision>>) -> Self {
        Self { script: script.into_iter().collect(), ..Self::default() }
    }
}

impl Planner for ScriptedPlanner {
    fn cycle(
        &mut self,
        state: &ClusterState,
        actions: &[Action],
        now_s: f64,
    ) -> Result<CycleOutcome, PlannerError> {
        let mut outcome = as_it_stands(state);
        if !actions.is_empty() {
            self.times_s.push(now_s);
            for decision in self.script.pop_front().unwrap_or_default() {
                carry_out(&decision, &mut outcome)?;
            }
        }
        for job in &state.jobs {
            let mut ended = JobOutcome::times_after(job, &outcome.tasks, &outcome.events, now_s);
            let pending = |name: &String| outcome.tasks[name].status == Status::Pending;
            if !actions.is_empty() && job.tasks.iter().any(|task| pending(&task.name)) {
                ended.fit_errors.clone_from(&self.fit_errors);
            }
            outcome.jobs.insert(job.name.clone(), ended);
        }
        Ok(outcome)
    }
}

fn as_it_stands(state: &ClusterState) -> CycleOutcome {
    let mut outcome = CycleOutcome::default();
    for (_, task) in state.tasks() {
        let ended = TaskOutcome {
            status: task.status,
            node: task.node.clone(),
            gpu_groups: task.gpu_groups.clone(),
            ..TaskOutcome::default()
        };
        outcome.tasks.insert(task.name.clone(), ended);
    }
    for node in &state.nodes {
        let idle_gpus = node.allocatable.gpus as f64;
        let ended = NodeOutcome { idle_gpus, ..NodeOutcome::default() };
        outcome.nodes.insert(node.name.clone(), ended);
    }
    outcome
}

fn carry_out(decision: &Decision, outcome: &mut CycleOutcome) -> Result<(), PlannerError> {
    let Some(task) = outcome.tasks.get_mut(decision.task) else {
        return Err(PlannerError(format!("there is no task {}", decision.task)));
    };
    task.node = Some(decision.node.to_owned());
    task.status = match decision.call {
        Call::Bind => Status::Binding,
        Call::Evict => Status::Releasing,
        Call::Pipeline => Status::Pipelined,
    };
    if !decision.groups.is_empty() {
        task.gpu_groups.clone_from(&decision.groups);
    }
    outcome.events.push(Event {
        call: decision.call,
        action: "script".to_owned(),
        task: decision.task.to_owned(),
        node: task.node.clone(),
        gpu_groups: decision.groups.clone(),
        for_job: None,
    });
    Ok(())
}

/// A scenario made of its parts.
pub(crate) fn scenario(
    cluster: &serde_json::Value,
    run: &serde_json::Value,
    expect: &serde_json::Value,
) -> Scenario {
    let document = serde_json::json!({
        "schema": "scenario/v1",
        "title": "a test",
        "config": {"actions": ["allocate"]},
        "cluster": cluster,
        "run": run,
        "expect": expect,
    });
    Scenario::from_json(&document.to_string()).expect("a scenario of a test is well-formed")
}
