//! Azure ML jobs: as many pods as the job has nodes.

use kai_api::names::objects::TRAIN;

use crate::base::{Case, workload_plan};
use crate::error::Stop;
use crate::plan::{Minimum, PodGroupPlan};

const NODE_COUNT: &str = "spec.job.options.envs.AZUREML_NODE_COUNT";

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let job = case.top();
    let nodes = job
        .integer(NODE_COUNT)?
        .and_then(|nodes| i32::try_from(nodes).ok())
        .filter(|nodes| *nodes >= 0)
        .ok_or_else(|| job.error(NODE_COUNT, "azureml envs count not found in spec"))?;
    let mut plan = workload_plan(case, job, TRAIN);
    plan.minimum = Minimum::Members(nodes);
    Ok(plan)
}
