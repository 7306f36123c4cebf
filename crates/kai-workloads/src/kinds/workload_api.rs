//! Pods of Kubernetes' own scheduling API. Before Kubernetes 1.36 a pod names a `Workload` and a pod group in it: one group
//! per replica of that pod group. From 1.36 on it names a `PodGroup` object, which is one group.
//!
//! The named object gives name, owner, gang size and, where it says so, priority and topology level; everything else comes
//! from the pod's owners as usual.

use kai_api::names::objects::TRAIN;
use kai_api::names::workload;
use kai_api::view::WorkloadReference;
use serde_json::Value;

use crate::base::{Case, group_name, workload_plan};
use crate::error::Stop;
use crate::facts::{ObjectKey, SERVED_VERSION};
use crate::object::{Object, pod_error};
use crate::plan::{Minimum, Notice, PodGroupPlan};
use crate::priority;

const POD_GROUP_FIELD: &str = "spec.schedulingGroup.podGroupName";

pub(super) fn plan(case: &Case<'_>) -> Result<Option<PodGroupPlan>, Stop> {
    let ignored = case.pod.annotation(workload::IGNORE_WORKLOAD_API) == Some("true");
    if !case.config.workload_api || ignored {
        return Ok(None);
    }
    let spec = &case.pod.spec;
    let group = spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_deref());
    match (group, &spec.workload_ref) {
        (Some(name), _) => pod_group_plan(case, name).map(Some),
        (None, Some(reference)) => workload_ref_plan(case, reference).map(Some),
        (None, None) => Ok(None),
    }
}

/// The group that a `PodGroup` object is.
fn pod_group_plan(case: &Case<'_>, name: &str) -> Result<PodGroupPlan, Stop> {
    let api = format!("scheduling.k8s.io/{SERVED_VERSION}");
    let key = ObjectKey::new(&api, "PodGroup", case.namespace(), name);
    let object = case.facts.object(&key)?.ok_or_else(|| {
        let problem = format!("no PodGroup {}/{name} of scheduling.k8s.io", case.namespace());
        pod_error(case.pod, POD_GROUP_FIELD, problem)
    })?;
    let group = Object::new(object);
    let mut plan = workload_plan(case, case.top(), TRAIN);
    let policy = &object["spec"]["schedulingPolicy"];
    plan.minimum = Minimum::Members(minimum(group, policy, "spec.schedulingPolicy.gang.minCount")?);
    plan.owner = group.reference();
    plan.name = group_name(group);
    set_priority(case, group, &mut plan);
    set_topology_level(group, &mut plan);
    if let Some(parent) = object["spec"]["parentCompositePodGroupName"].as_str() {
        let place = format!("{}: spec.parentCompositePodGroupName", group.describe());
        let problem = format!("groups of groups such as {parent} are not supported");
        plan.notices.push(Notice::Ignored { place, problem });
    }
    Ok(plan)
}

/// The priority class of the `PodGroup`, unless a label of workload or pod names another.
fn set_priority(case: &Case<'_>, group: Object<'_>, plan: &mut PodGroupPlan) {
    let Some(class) = group.value()["spec"]["priorityClassName"].as_str() else { return };
    let label = workload::PRIORITY_CLASS_NAME;
    let labelled = case.pod.label(label).is_some()
        || case.owners.iter().any(|owner| Object::new(owner).label(label).is_some());
    let source = format!("spec.priorityClassName of {}", group.describe());
    if !class.is_empty() && !labelled && priority::exists(case, class, source, &mut plan.notices) {
        class.clone_into(&mut plan.priority_class_name);
    }
}

/// The node label by which the `PodGroup` wants its pods together is a level of the topology that the workload names.
fn set_topology_level(group: Object<'_>, plan: &mut PodGroupPlan) {
    let constraints = &group.value()["spec"]["schedulingConstraints"]["topology"];
    let Some(key) = constraints[0]["key"].as_str() else { return };
    if plan.topology.topology.is_some() {
        plan.topology.required_topology_level.get_or_insert_with(|| key.to_owned());
        return;
    }
    let place = format!("{}: spec.schedulingConstraints.topology", group.describe());
    let problem = format!("the workload has no annotation {}", workload::TOPOLOGY);
    plan.notices.push(Notice::Ignored { place, problem });
}

fn workload_ref_plan(case: &Case<'_>, reference: &WorkloadReference) -> Result<PodGroupPlan, Stop> {
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
    let path = "spec.podGroups[].policy.gang.minCount";
    plan.minimum = Minimum::Members(minimum(workload, &group["policy"], path)?);
    plan.owner = workload.reference();
    plan.name = format!("{}-{}", reference.name, reference.pod_group);
    if let Some(replica) = reference.pod_group_replica_key.as_deref().filter(|key| !key.is_empty())
    {
        plan.name = format!("{}-{replica}", plan.name);
    }
    Ok(plan)
}

/// The gang size of a policy; 1 where its pods need not run together.
fn minimum(object: Object<'_>, policy: &Value, path: &'static str) -> Result<i32, Stop> {
    let Some(gang) = crate::object::field(policy, "gang") else { return Ok(1) };
    let minimum = gang["minCount"].as_i64().and_then(|minimum| i32::try_from(minimum).ok());
    Ok(minimum
        .filter(|minimum| *minimum >= 1)
        .ok_or_else(|| object.error(path, "must be an integer of at least 1"))?)
}
