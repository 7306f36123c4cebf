//! kubeflow: masters and launchers of a training job before its workers.

use std::cmp::Ordering;

use crate::config::PluginSpec;
use crate::input::PodSpec;
use crate::plugins::{Policy, TaskOrder};

const ROLE_LABEL: &str = "training.kubeflow.org/job-role";

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.task_orders.push(TaskOrder::Kubeflow);
}

pub(super) fn compare(left: &PodSpec, right: &PodSpec) -> Ordering {
    leads(right).cmp(&leads(left))
}

fn leads(pod: &PodSpec) -> bool {
    pod.labels.get(ROLE_LABEL).is_some_and(|role| matches!(&**role, "master" | "launcher"))
}
