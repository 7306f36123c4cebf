//! Pods that name a Kubernetes `Workload`: one group per replica of its pod group, as large as its gang.
//!
//! The `Workload` gives name, owner and gang size; everything else comes from the pod's owners as usual.

use kai_api::names::objects::TRAIN;
use kai_api::names::workload;
use serde_json::Value;

use crate::base::{Case, workload_plan};
use crate::error::Stop;
use crate::facts::ObjectKey;
use crate::object::{Object, pod_error};
use crate::plan::{Minimum, PodGroupPlan};

pub(super) fn plan(case: &Case<'_>) -> Result<Option<PodGroupPlan>, Stop> {
    let Some(reference) = &case.pod.spec.workload_ref else { return Ok(None) };
    let ignored = case.pod.annotation(workload::IGNORE_WORKLOAD_API) == Some("true");
    if !case.config.workload_api || ignored {
        return Ok(None);
    }
    let key =
        ObjectKey::new("scheduling.k8s.io/v1alpha1", "Workload", case.namespace(), &reference.name);
    let object = case.facts.object(&key)?.ok_or_else(|| {
        let problem = format!("no Workload {}/{}", case.namespace(), reference.name);
        pod_error(case.pod, "spec.workloadRef.name", problem)
    })?;
    let workload = Object::new(object);
    let group = workload
        .list("spec.podGroups")?
        .iter()
        .find(|group| group["name"].as_str() == Some(reference.pod_group.as_str()))
        .ok_or_else(|| {
            let problem =
                format!("{} has no pod group {}", workload.describe(), reference.pod_group);
            pod_error(case.pod, "spec.workloadRef.podGroup", problem)
        })?;
    let mut plan = workload_plan(case, case.top(), TRAIN);
    plan.minimum = Minimum::Members(gang_size(workload, group)?);
    plan.owner = workload.reference();
    plan.name = format!("{}-{}", reference.name, reference.pod_group);
    if let Some(replica) = reference.pod_group_replica_key.as_deref().filter(|key| !key.is_empty())
    {
        plan.name = format!("{}-{replica}", plan.name);
    }
    Ok(Some(plan))
}

fn gang_size(workload: Object<'_>, group: &Value) -> Result<i32, Stop> {
    let path = "spec.podGroups[].policy.gang.minCount";
    let Some(gang) = crate::object::field(group, "policy.gang") else { return Ok(1) };
    let minimum = gang["minCount"].as_i64().and_then(|minimum| i32::try_from(minimum).ok());
    Ok(minimum
        .filter(|minimum| *minimum >= 1)
        .ok_or_else(|| workload.error(path, "must be an integer of at least 1"))?)
}
