//! taskorder: pods with a priority label before those without, a higher number first; a label that is no number
//! loses against one that is.

use std::cmp::Ordering;

use crate::config::PluginSpec;
use crate::input::PodSpec;
use crate::plugins::{Policy, TaskOrder};

const PRIORITY_LABEL: &str = "kai.scheduler/task-priority";

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.task_orders.push(TaskOrder::Label);
}

/// Greater comes first; no label, no number, number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    None,
    NoNumber,
    Number(i64),
}

pub(super) fn compare(left: &PodSpec, right: &PodSpec) -> Ordering {
    rank(right).cmp(&rank(left))
}

fn rank(pod: &PodSpec) -> Rank {
    match pod.labels.get(PRIORITY_LABEL) {
        None => Rank::None,
        Some(text) => text.parse().map_or(Rank::NoNumber, Rank::Number),
    }
}
