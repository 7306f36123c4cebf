//! `Job` and `CronJob`: one group per Job, a gang where the Job asks for it.
//!
//! The gang size is the annotation `kai.scheduler/batch-min-member` of the Job, else 1 (or the parallelism, where so
//! configured).

use kai_api::names::objects::{POD_GROUP_PREFIX, TRAIN};
use kai_api::names::workload;

use crate::base::{Case, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::object::{Object, annotation_path};
use crate::plan::{Minimum, PodGroupPlan};

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let job = case.top();
    let mut plan = of_job(case, job)?;
    // Older releases made a group per pod; such a pod keeps it.
    let per_pod = format!("{POD_GROUP_PREFIX}{}-{}", case.pod.metadata.name, job.uid());
    if case.config.search_legacy_groups
        && case.pod.annotation(workload::POD_GROUP_NAME) == Some(per_pod.as_str())
    {
        plan.name = per_pod;
        plan.minimum = Minimum::Members(1);
    }
    Ok(plan)
}

/// The runs of a `CronJob` are Jobs; each is a workload of its own.
pub(super) fn plan_cron(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let job = case.owner_of_kind("Job").ok_or_else(|| {
        case.top().error("metadata.ownerReferences of its pod", "no owner reference of type 'Job'")
    })?;
    of_job(case, job)
}

fn of_job(case: &Case<'_>, job: Object<'_>) -> Result<PodGroupPlan, Stop> {
    let mut plan = workload_plan(case, job, TRAIN);
    let minimum = match min_member(job)? {
        Some(minimum) => minimum,
        None if case.config.job_gang_from_parallelism => parallel_pods(job)?,
        None => 1,
    };
    plan.minimum = Minimum::Members(minimum);
    Ok(plan)
}

/// The annotation that asks for a gang.
pub(super) fn min_member(object: Object<'_>) -> Result<Option<i32>, GroupingError> {
    let Some(text) = object.annotation(workload::BATCH_MIN_MEMBER) else { return Ok(None) };
    match text.parse::<i32>() {
        Ok(minimum) if minimum >= 1 => Ok(Some(minimum)),
        _ => Err(object.error(
            annotation_path(workload::BATCH_MIN_MEMBER),
            format!(
                "invalid min-member annotation value: {text:?} is not an integer of at least 1"
            ),
        )),
    }
}

/// How many pods of a Job run at once: the parallelism, and never more than the completions.
fn parallel_pods(job: Object<'_>) -> Result<i32, GroupingError> {
    let parallelism = job.integer("spec.parallelism")?.unwrap_or(1);
    let completions = job.integer("spec.completions")?.unwrap_or(parallelism);
    Ok(parallelism.min(completions).clamp(1, i64::from(i32::MAX)) as i32)
}
