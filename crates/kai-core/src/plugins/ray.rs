//! ray: the head of a Ray cluster before its workers.

use std::cmp::Ordering;

use crate::config::PluginSpec;
use crate::input::PodSpec;
use crate::plugins::{Policy, TaskOrder};

const NODE_TYPE_LABEL: &str = "ray.io/node-type";

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.task_orders.push(TaskOrder::Ray);
}

pub(super) fn compare(left: &PodSpec, right: &PodSpec) -> Ordering {
    leads(right).cmp(&leads(left))
}

fn leads(pod: &PodSpec) -> bool {
    pod.labels.get(NODE_TYPE_LABEL).is_some_and(|kind| &**kind == "head")
}
