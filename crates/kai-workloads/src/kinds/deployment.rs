//! Deployments: replicas do not need each other, so each pod is a group of its own, with the Deployment's metadata.

use kai_api::names::objects::INFERENCE;

use crate::base::{Case, one_group_per_pod, workload_plan};
use crate::plan::PodGroupPlan;

pub(super) fn plan(case: &Case<'_>) -> PodGroupPlan {
    let mut plan = workload_plan(case, case.top(), INFERENCE);
    one_group_per_pod(case, &mut plan);
    plan
}
