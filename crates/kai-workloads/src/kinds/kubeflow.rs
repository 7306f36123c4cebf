//! Kubeflow's distributed jobs: a gang of all replicas, unless the job names a smaller one.
//!
//! `spec.runPolicy.schedulingPolicy.minAvailable` is the gang size; without it every role must have replicas, and their sum
//! is. An `MPIJob` whose launcher waits for the workers does not count the launcher until it is there.

use kai_api::names::objects::TRAIN;
use kai_api::names::third_party;
use serde_json::Value;

use crate::base::{Case, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::facts::PodQuery;
use crate::object::Object;
use crate::plan::{Minimum, PodGroupPlan};
use crate::registry::{MPI, Replicas};

pub(super) fn plan(case: &Case<'_>, replicas: Replicas) -> Result<PodGroupPlan, Stop> {
    let job = case.top();
    let size = match min_available(job)? {
        Some(size) => size,
        None => all_replicas(job, replicas)?,
    };
    let mut plan = workload_plan(case, job, TRAIN);
    plan.minimum = Minimum::Members(size);
    Ok(plan)
}

pub(super) fn plan_mpi(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let job = case.top();
    let mut plan = plan(case, MPI)?;
    let policy = job.string("spec.launcherCreationPolicy")?;
    if policy == Some("WaitForWorkersReady") && !launcher_exists(case)? {
        let path = "spec.mpiReplicaSpecs.Launcher.replicas";
        let launchers = job.integer(path)?.unwrap_or(1) as i32;
        if let Minimum::Members(size) = &mut plan.minimum {
            *size = (*size - launchers).max(0);
        }
    }
    Ok(plan)
}

fn launcher_exists(case: &Case<'_>) -> Result<bool, Stop> {
    let is_launcher = |pod: &kai_api::view::Pod| {
        pod.label(third_party::KUBEFLOW_JOB_ROLE) == Some("launcher")
            && !pod.metadata.is_terminating()
    };
    if is_launcher(case.pod) {
        return Ok(true);
    }
    let query = PodQuery::new(
        case.namespace(),
        [
            (third_party::KUBEFLOW_JOB_NAME, case.top().name()),
            (third_party::KUBEFLOW_JOB_ROLE, "launcher"),
        ],
    );
    Ok(case.facts.pods(&query)?.iter().any(is_launcher))
}

/// The gang size the job names itself.
pub(super) fn min_available(job: Object<'_>) -> Result<Option<i32>, GroupingError> {
    count(job, "spec.runPolicy.schedulingPolicy.minAvailable")
}

/// A field that counts pods.
pub(super) fn count(job: Object<'_>, path: &str) -> Result<Option<i32>, GroupingError> {
    let Some(number) = job.integer(path)? else { return Ok(None) };
    let in_range = i32::try_from(number).ok().filter(|number| *number >= 0);
    in_range.map(Some).ok_or_else(|| job.error(path, format!("{number} is no number of pods")))
}

/// The sum over all roles; each must have replicas.
pub(super) fn all_replicas(job: Object<'_>, replicas: Replicas) -> Result<i32, GroupingError> {
    let path = format!("spec.{}", replicas.field);
    let roles = job
        .field(&path)
        .and_then(Value::as_object)
        .ok_or_else(|| job.error(&path, "is missing or no map of roles"))?;
    let present = roles.keys().map(String::as_str);
    let mandatory = replicas.mandatory.iter().copied().filter(|role| !roles.contains_key(*role));
    let mut sum = 0_i32;
    for role in present.chain(mandatory) {
        let path = format!("{path}.{role}.replicas");
        let number = count(job, &path)?.unwrap_or(0);
        if number == 0 {
            return Err(job.error(path, format!("{} doesn't allow for 0 {role} pods", job.kind())));
        }
        sum = sum.saturating_add(number);
    }
    Ok(sum)
}
