//! A walk-through as it was played: step by step, moment by moment.

use std::collections::BTreeMap;
use std::time::Duration;

use kai_embed::Cluster;
use kai_embed::object::{has_condition, is_terminating, name, text, uid};
use serde_json::Value;

use super::snapshot::{Decision, Snapshot, is_ours};

/// A walk-through that was played.
pub(super) struct Recording {
    pub(super) number: usize,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) steps: Vec<Step>,
}

/// One step of it.
pub(super) struct Step {
    /// Text that announces the step.
    pub(super) what: String,
    /// What is created, where something is.
    pub(super) manifest: Option<String>,
    /// What the scheduler decided.
    pub(super) decisions: Vec<Decision>,
    /// What came of it.
    pub(super) after: Snapshot,
    /// How it came, from the beginning of the step.
    pub(super) moments: Vec<Moment>,
    /// What is worth a closer look.
    pub(super) exhibits: Vec<Exhibit>,
}

/// A text that is shown as it is.
#[derive(Clone)]
pub(super) struct Exhibit {
    pub(super) title: String,
    pub(super) text: String,
}

/// Every pod at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// How long after the beginning of the step.
    pub(super) at: Duration,
    /// Pods by UID: their names and how far they are.
    pub(super) pods: BTreeMap<String, (String, PodState)>,
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodState {
    Waiting,
    Starting,
    Running,
    Leaving,
    Ended,
}

impl Moment {
    pub(super) fn of(cluster: &Cluster, at: Duration) -> Self {
        let pods = cluster.list(("", "pods")).filter(|pod| is_ours(pod));
        let pods = pods.map(|pod| (uid(pod).to_owned(), (name(pod).to_owned(), state(pod))));
        Self { at, pods: pods.collect() }
    }
}

fn state(pod: &Value) -> PodState {
    let is_placed = !text(&pod["spec"]["nodeName"]).is_empty();
    match text(&pod["status"]["phase"]) {
        "Succeeded" | "Failed" => PodState::Ended,
        _ if is_terminating(pod) => PodState::Leaving,
        "Running" if has_condition(pod, "Ready") => PodState::Running,
        _ if is_placed => PodState::Starting,
        _ => PodState::Waiting,
    }
}

impl Step {
    /// Adds a moment in which something is different.
    pub(super) fn note(moments: &mut Vec<Moment>, moment: Moment) {
        if moments.last().is_none_or(|last| last.pods != moment.pods) {
            moments.push(moment);
        }
    }
}

impl Recording {
    /// Names of pods, in the order in which they came.
    pub(super) fn pods(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let moments = self.steps.iter().flat_map(|step| &step.moments);
        for (name, _) in moments.flat_map(|moment| moment.pods.values()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}
