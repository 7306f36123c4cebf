//! `JobSet`: one group; a part per replicated job, and below it a part per replica, which holds the pods of one Job.
//!
//! | node | minimum |
//! |---|---|
//! | group | annotation `kai.scheduler/batch-min-member` of the `JobSet`, at most the number of replicated jobs; else 1 where they start in order; else all |
//! | replicated job | all its replicas |
//! | replica | the same annotation in the job's template; else its parallelism, and never more than its completions |

use kai_api::names::objects::TRAIN;
use kai_api::names::{third_party, workload};
use serde_json::Value;

use crate::base::{Case, group_name, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::facts::ObjectKey;
use crate::object::{Object, annotation_path, label_path, pod_error, template_annotation};
use crate::plan::{Minimum, PodGroupPlan, SubGroupPlan};
use crate::topology;

use super::job;

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let set = case.top();
    let jobs = replicated_jobs(set)?;
    if let Some(name) = legacy_name(case, &jobs)? {
        return Ok(legacy_plan(case, name));
    }
    let mut plan = workload_plan(case, set, TRAIN);
    for job in jobs.iter().filter(|job| job.replicas > 0) {
        plan.sub_groups.push(SubGroupPlan::parent(&job.name, job.replicas));
        let minimum = leaf_minimum(set, job)?;
        let topology =
            topology::effective(topology::constraint(|key| template_annotation(job.template, key)));
        for index in 0..job.replicas {
            let leaf = SubGroupPlan::leaf(leaf_name(&job.name, index), minimum);
            plan.sub_groups.push(leaf.under(&job.name).placed(topology.clone()));
        }
    }
    plan.minimum = Minimum::SubGroups(root_minimum(set, &jobs)?);
    plan.pod_sub_group = Some(pod_leaf(case, &plan)?);
    Ok(plan)
}

struct ReplicatedJob<'a> {
    name: String,
    path: String,
    replicas: i32,
    template: &'a Value,
}

fn replicated_jobs(set: Object<'_>) -> Result<Vec<ReplicatedJob<'_>>, GroupingError> {
    let list = set.list("spec.replicatedJobs")?;
    if list.is_empty() {
        let problem = format!("jobset {}/{} has no replicatedJobs", set.namespace(), set.name());
        return Err(set.error("spec.replicatedJobs", problem));
    }
    list.iter().enumerate().map(|(index, job)| replicated_job(set, index, job)).collect()
}

fn replicated_job<'a>(
    set: Object<'a>,
    index: usize,
    job: &'a Value,
) -> Result<ReplicatedJob<'a>, GroupingError> {
    let path = format!("spec.replicatedJobs[{index}]");
    let name = set
        .string_in(job, "name", &format!("{path}.name"))?
        .filter(|name| !name.is_empty())
        .ok_or_else(|| set.error(&path, format!("replicatedJobs[{index}] missing name")))?;
    let replicas = set.integer_in(job, "replicas", &format!("{path}.replicas"))?.unwrap_or(1);
    let replicas = i32::try_from(replicas)
        .ok()
        .filter(|replicas| (0..=10_000).contains(replicas))
        .ok_or_else(|| set.error(format!("{path}.replicas"), "must be between 0 and 10000"))?;
    Ok(ReplicatedJob { name: name.to_owned(), path, replicas, template: &job["template"] })
}

fn in_order(set: Object<'_>) -> bool {
    set.field("spec.startupPolicy.startupPolicyOrder").and_then(Value::as_str) == Some("InOrder")
}

fn root_minimum(set: Object<'_>, jobs: &[ReplicatedJob<'_>]) -> Result<i32, GroupingError> {
    let all = jobs.iter().filter(|job| job.replicas > 0).count() as i32;
    Ok(match job::min_member(set)? {
        Some(minimum) => minimum.min(all),
        None if in_order(set) => all.min(1),
        None => all,
    })
}

fn leaf_minimum(set: Object<'_>, job: &ReplicatedJob<'_>) -> Result<i32, GroupingError> {
    let path = format!("{}.template", job.path);
    if let Some(text) = template_annotation(job.template, workload::BATCH_MIN_MEMBER) {
        return text.parse::<i32>().ok().filter(|minimum| *minimum >= 1).ok_or_else(|| {
            set.error(
                format!("{path}.{}", annotation_path(workload::BATCH_MIN_MEMBER)),
                format!(
                    "invalid min-member annotation value: {text:?} is not an integer of at least 1"
                ),
            )
        });
    }
    let read = |field: &str| {
        let field = format!("spec.{field}");
        set.integer_in(job.template, &field, &format!("{path}.{field}"))
    };
    let parallelism = read("parallelism")?.unwrap_or(1);
    let pods = parallelism.min(read("completions")?.unwrap_or(parallelism));
    i32::try_from(pods).ok().filter(|pods| *pods >= 0).ok_or_else(|| {
        set.error(format!("{path}.spec.parallelism"), format!("{pods} is out of range"))
    })
}

fn leaf_name(job: &str, index: impl std::fmt::Display) -> String {
    format!("{job}-replica-{index}")
}

fn pod_leaf(case: &Case<'_>, plan: &PodGroupPlan) -> Result<String, GroupingError> {
    let label = |key: &str| {
        let missing =
            || pod_error(case.pod, &label_path(key), "is missing; the JobSet controller sets it");
        case.pod.label(key).filter(|value| !value.is_empty()).ok_or_else(missing)
    };
    let job = label(third_party::JOBSET_REPLICATED_JOB)?;
    let leaf = leaf_name(job, label(third_party::JOBSET_JOB_INDEX)?);
    if plan.sub_groups.iter().any(|group| group.name == leaf) {
        return Ok(leaf);
    }
    let problem = format!("no replica {leaf} in {}", case.top().describe());
    Err(pod_error(case.pod, &label_path(third_party::JOBSET_JOB_INDEX), problem))
}

/// The name of a flat group that an older release made for this pod's part of the set, if there is one.
fn legacy_name(case: &Case<'_>, jobs: &[ReplicatedJob<'_>]) -> Result<Option<String>, Stop> {
    if !case.config.search_legacy_groups {
        return Ok(None);
    }
    let set = case.top();
    let base = group_name(set);
    let mut names = vec![base.clone()];
    if in_order(set) {
        names.extend(jobs.iter().map(|job| format!("{base}-{}", job.name)));
    }
    let keys: Vec<_> =
        names.iter().map(|name| ObjectKey::pod_group(case.namespace(), name)).collect();
    let is_flat =
        |group: &&Value| Object::new(group).list("spec.subGroups").is_ok_and(<[_]>::is_empty);
    if !case.facts.objects(&keys)?.into_iter().flatten().any(|group| is_flat(&group)) {
        return Ok(None);
    }
    if !in_order(set) {
        return Ok(Some(base));
    }
    let job = case.pod.label(third_party::JOBSET_REPLICATED_JOB).ok_or_else(|| {
        pod_error(case.pod, &label_path(third_party::JOBSET_REPLICATED_JOB), "is missing")
    })?;
    Ok(Some(format!("{base}-{job}")))
}

fn legacy_plan(case: &Case<'_>, name: String) -> PodGroupPlan {
    let mut plan = workload_plan(case, case.top(), TRAIN);
    let minimum =
        case.top().annotation(workload::BATCH_MIN_MEMBER).and_then(|text| text.parse().ok());
    plan.name = name;
    plan.minimum = Minimum::Members(minimum.unwrap_or(1).max(0));
    plan
}
