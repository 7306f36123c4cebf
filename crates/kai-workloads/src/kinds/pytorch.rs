//! `PyTorchJob`: parts for master and workers, and segments of workers that should be close together.
//!
//! Gang size: `runPolicy.schedulingPolicy.minAvailable`, else `elasticPolicy.minReplicas`, else all replicas. The master counts
//! in full, the workers share the rest. With a segment size the workers' part is split: segments that the gang size does not
//! reach have a minimum of 0.

use kai_api::names::objects::TRAIN;
use kai_api::names::{third_party, workload};
use serde_json::Value;

use crate::base::{Case, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::object::{annotation_path, label_path, pod_error, template_annotation};
use crate::plan::{Minimum, PodGroupPlan, SubGroupPlan};
use crate::registry::PYTORCH;
use crate::topology;

use super::kubeflow::{all_replicas, count, min_available};

const MASTER: &str = "master";
const WORKER: &str = "worker";
const SPECS: &str = "spec.pytorchReplicaSpecs";
/// More segments are an error.
pub(super) const MOST_SEGMENTS: i32 = 10_000;

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let job = case.top();
    let size = match (min_available(job)?, count(job, "spec.elasticPolicy.minReplicas")?) {
        (Some(size), _) => size,
        (None, elastic) => {
            let all = all_replicas(job, PYTORCH)?;
            elastic.unwrap_or(all)
        }
    };
    let mut plan = workload_plan(case, job, TRAIN);
    plan.minimum = Minimum::Members(size);

    let specs = job.field(SPECS).ok_or_else(|| job.error(SPECS, "is missing"))?;
    let masters = count(job, &format!("{SPECS}.Master.replicas"))?.unwrap_or(0);
    let role = case.pod.label(third_party::KUBEFLOW_REPLICA_TYPE);
    if masters > 0 {
        plan.sub_groups.push(SubGroupPlan::leaf(MASTER, masters));
        plan.pod_sub_group = (role == Some(MASTER)).then(|| MASTER.to_owned());
    }
    if let Some(worker) = specs.get("Worker").filter(|worker| !worker.is_null()) {
        let minimum = (size - masters).max(0);
        let workers = count(job, &format!("{SPECS}.Worker.replicas"))?.unwrap_or(1);
        let is_worker = role == Some(WORKER);
        match segment_size(case, &worker["template"])?.filter(|_| workers > 0) {
            None => {
                plan.sub_groups.push(SubGroupPlan::leaf(WORKER, minimum));
                if is_worker {
                    plan.pod_sub_group = Some(WORKER.to_owned());
                }
            }
            Some(size) => {
                add_segments(
                    case,
                    &mut plan,
                    &worker["template"],
                    &Segments { size, workers, minimum },
                )?;
                if is_worker {
                    plan.pod_sub_group = Some(segment_name(worker_index(case)? / size));
                }
            }
        }
    }
    Ok(plan)
}

struct Segments {
    size: i32,
    workers: i32,
    minimum: i32,
}

fn add_segments(
    case: &Case<'_>,
    plan: &mut PodGroupPlan,
    template: &Value,
    segments: &Segments,
) -> Result<(), GroupingError> {
    let &Segments { size, workers, minimum } = segments;
    let number = workers.div_ceil_by(size);
    if number > MOST_SEGMENTS {
        let problem = format!("{number} segments; at most {MOST_SEGMENTS} are allowed");
        return Err(case.top().error(annotation_path(workload::SEGMENT_SIZE), problem));
    }
    let topology = topology::segment(case.pod, template, case.top());
    plan.sub_groups.push(SubGroupPlan::parent(WORKER, number));
    for index in 0..number {
        let members = match index {
            index if index >= minimum.div_ceil_by(size) => 0,
            index if index == number - 1 => workers - index * size,
            _ => size,
        };
        let segment = SubGroupPlan::leaf(segment_name(index), members).under(WORKER);
        plan.sub_groups.push(segment.placed(topology.clone()));
    }
    Ok(())
}

fn segment_name(index: i32) -> String {
    format!("{WORKER}-{index}")
}

/// From the pod's annotation, else from the workers' template.
fn segment_size(case: &Case<'_>, template: &Value) -> Result<Option<i32>, GroupingError> {
    let key = workload::SEGMENT_SIZE;
    let parse = |text: &str| text.parse::<i32>().ok().filter(|size| *size > 0);
    let problem = |text: &str| format!("segment size {text:?} is not an integer of at least 1");
    if let Some(text) = case.pod.annotation(key).filter(|text| !text.is_empty()) {
        let error = || pod_error(case.pod, &annotation_path(key), problem(text));
        return parse(text).map(Some).ok_or_else(error);
    }
    let Some(text) = template_annotation(template, key) else { return Ok(None) };
    let path = format!("{SPECS}.Worker.template.{}", annotation_path(key));
    parse(text).map(Some).ok_or_else(|| case.top().error(path, problem(text)))
}

fn worker_index(case: &Case<'_>) -> Result<i32, GroupingError> {
    let key = third_party::KUBEFLOW_REPLICA_INDEX;
    let text = case.pod.label(key).ok_or_else(|| {
        pod_error(case.pod, &label_path(key), "is missing; the training operator sets it")
    })?;
    text.parse::<i32>()
        .ok()
        .filter(|index| *index >= 0)
        .ok_or_else(|| pod_error(case.pod, &label_path(key), format!("{text:?} is no index")))
}

trait DivCeil {
    fn div_ceil_by(self, divisor: Self) -> Self;
}

impl DivCeil for i32 {
    /// Rounded up; both are positive.
    fn div_ceil_by(self, divisor: Self) -> Self {
        self / divisor + Self::from(self % divisor != 0)
    }
}
