//! What one cycle produced, in the words of the scenario.

use std::collections::BTreeMap;
use std::fmt;

use crate::format::{AmountMap, Call, ClaimStatus, ObjectName, Status};
use crate::state::Job;

/// The state of everything at the end of a cycle, before anything advances.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CycleOutcome {
    /// Every task by name.
    pub tasks: BTreeMap<String, TaskOutcome>,
    /// Every job by name.
    pub jobs: BTreeMap<String, JobOutcome>,
    /// Every node by name.
    pub nodes: BTreeMap<String, NodeOutcome>,
    /// Claims whose status the cycle decided; others keep theirs.
    pub claims: BTreeMap<ObjectName, ClaimStatus>,
    /// What was done, in the order it was done.
    pub events: Vec<Event>,
    /// When the scheduler would look again although nothing happens.
    pub wake_at_s: Option<f64>,
}

/// A task at the end of a cycle.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TaskOutcome {
    /// Status at the end of the cycle.
    pub status: Status,
    /// Its node; for a task that was not touched, the one the state names.
    pub node: Option<String>,
    /// Ids of the shared devices it sits on.
    pub gpu_groups: Vec<String>,
    /// Positions of its NUMA zones on its node.
    pub numa_zones: Vec<usize>,
    /// Devices that its queue is charged for, fractions included.
    pub gpus_accepted: f64,
}

impl TaskOutcome {
    /// The node whose capacity the task takes.
    pub fn occupied_node(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| self.status.occupies_node())
    }
}

/// A job at the end of a cycle.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct JobOutcome {
    /// Its fit errors as one text: for each error a line with the reason, then its sorted messages.
    pub fit_errors: String,
    /// The fit errors of its tasks.
    pub task_fit_errors: Vec<String>,
    /// Why it waits, as a person would want to read it; empty where it does not.
    pub explanation: String,
    /// When it last started.
    pub started_at_s: Option<f64>,
    /// Since when it has been below its minimum.
    pub stale_since_s: Option<f64>,
    /// When one of its tasks was last evicted.
    pub evicted_at_s: Option<f64>,
}

impl JobOutcome {
    /// What follows for the times of `job` from the states its tasks end the cycle with: it starts when
    /// its first task gets a place, and remembers its last eviction.
    pub fn times_after(
        job: &Job,
        tasks: &BTreeMap<String, TaskOutcome>,
        events: &[Event],
        now_s: f64,
    ) -> Self {
        let of_job = |name: &str| job.tasks.iter().any(|task| task.name == name);
        let is_allocated = |name: &str| tasks.get(name).is_some_and(|t| t.status.is_allocated());
        let started_now =
            !job.has_allocated_task() && job.tasks.iter().any(|task| is_allocated(&task.name));
        let evicted_now =
            events.iter().any(|event| event.call == Call::Evict && of_job(&event.task));
        Self {
            started_at_s: if started_now { Some(now_s) } else { job.started_at_s },
            stale_since_s: job.stale_since_s,
            evicted_at_s: if evicted_now { Some(now_s) } else { job.evicted_at_s },
            ..Self::default()
        }
    }
}

/// A node at the end of a cycle.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct NodeOutcome {
    /// Devices that are free, fractions included.
    pub idle_gpus: f64,
    /// Devices that are being released, fractions included.
    pub releasing_gpus: f64,
    /// Free amounts by NUMA zone.
    pub numa_available: Vec<AmountMap>,
}

/// Something a cycle did to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it was bound, nominated or evicted.
    pub call: Call,
    /// The action that did it.
    pub action: String,
    /// Name of the task.
    pub task: String,
    /// Name of the node; none where the call has none.
    pub node: Option<String>,
    /// Shared devices that it gets or had.
    pub gpu_groups: Vec<String>,
    /// The job for which a victim was evicted.
    pub for_job: Option<String>,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} {}", self.action, self.call, self.task)?;
        if let Some(node) = &self.node {
            write!(formatter, " on {node}")?;
        }
        if !self.gpu_groups.is_empty() {
            write!(formatter, " device {}", self.gpu_groups.join(", "))?;
        }
        if let Some(job) = &self.for_job {
            write!(formatter, " for {job}")?;
        }
        Ok(())
    }
}
