//! `RunaiJob`: the pods of a hyper-parameter trial share a prefix, and a group: `job-0-abc` and `job-0-def` are in `pg-job-0-<uid>`.

use kai_api::names::objects::{POD_GROUP_PREFIX, TRAIN};

use crate::base::{Case, workload_plan};
use crate::error::Stop;
use crate::facts::ObjectKey;
use crate::plan::PodGroupPlan;

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let job = case.top();
    let mut plan = workload_plan(case, job, TRAIN);
    let pod = case.pod.metadata.name.as_str();
    if case.config.search_legacy_groups {
        let many = job.integer("spec.parallelism")?.unwrap_or(1) > 1;
        let legacy = name(if many { pod } else { job.name() }, job.uid());
        if case.facts.object(&ObjectKey::pod_group(case.namespace(), &legacy))?.is_some() {
            plan.name = legacy;
            return Ok(plan);
        }
    }
    plan.name = name(pod.rsplit_once('-').map_or(pod, |(prefix, _)| prefix), job.uid());
    Ok(plan)
}

fn name(part: &str, uid: &str) -> String {
    format!("{POD_GROUP_PREFIX}{part}-{uid}")
}
