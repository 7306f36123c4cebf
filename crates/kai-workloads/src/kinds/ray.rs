//! Ray: one group per cluster, with a part for the head and one per worker group.
//!
//! Name, metadata and queue come from the top owner (`RayCluster`, `RayJob` or `RayService`), the shape from the cluster. A worker
//! group needs its `minReplicas` where that is given, else its `replicas`, times its hosts; where Ray scales the group by
//! itself, `minReplicas` is all it needs. Suspended and empty groups need nothing and have no part.
//!
//! The pod that submits a `RayJob` comes when the cluster is there: it is a group of its own. While a `RayService` moves to a new
//! cluster, both need all their pods: the first cluster has the service's group, each further one a group that is deleted with it.

use kai_api::names::objects::TRAIN;
use kai_api::names::{third_party, workload};
use serde_json::Value;

use crate::base::{Case, pod_name, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::facts::ObjectKey;
use crate::object::{Object, template_annotation};
use crate::plan::{Minimum, Notice, PodGroupPlan, SubGroupPlan};
use crate::topology;

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let top = case.top();
    let mut plan = workload_plan(case, top, TRAIN);
    if let Some(class) =
        top.label(third_party::RAY_PRIORITY_CLASS).filter(|class| !class.is_empty())
    {
        class.clone_into(&mut plan.priority_class_name);
    }
    if top.kind() == "RayJob" && case.owner_of_kind("RayCluster").is_none() && is_submitter(case) {
        plan.name = format!("{}-submitter", plan.name);
        return Ok(plan);
    }
    let cluster = Object::new(cluster(case)?);
    if top.kind() == "RayService" {
        share_service(case, cluster, &mut plan)?;
    }
    let (size, sub_groups) = shape(cluster)?;
    plan.minimum = Minimum::Members(size);
    if made_flat(case, &plan.name)? {
        return Ok(plan);
    }
    plan.sub_groups = sub_groups;
    let group = case.pod.label(third_party::RAY_GROUP);
    let part = plan.sub_groups.iter().find(|part| Some(part.name.as_str()) == group);
    plan.pod_sub_group = part.map(|part| part.name.clone());
    if plan.pod_sub_group.is_none() {
        let problem = match group {
            None => format!("it has no label {}", third_party::RAY_GROUP),
            Some(group) => format!("{} needs no worker group {group}", cluster.describe()),
        };
        plan.notices.push(Notice::NoSubGroup { pod: pod_name(case.pod), problem });
    }
    Ok(plan)
}

/// The pod of the Job that submits a `RayJob`.
fn is_submitter(case: &Case<'_>) -> bool {
    case.owner_of_kind("Job").is_some() && case.pod.label(third_party::RAY_GROUP).is_none()
}

/// The cluster of the pod: the owner it has, or else the one its top owner reports.
fn cluster<'a>(case: &'a Case<'_>) -> Result<&'a Value, Stop> {
    let top = case.top();
    if let Some(cluster) = case.owner_of_kind("RayCluster")
        && cluster.field("spec").is_some()
    {
        return Ok(cluster.value());
    }
    let paths: &[&str] = match top.kind() {
        "RayJob" => &["status.rayClusterName"],
        "RayService" => &[
            "status.activeServiceStatus.rayClusterName",
            "status.pendingServiceStatus.rayClusterName",
        ],
        _ => &["metadata.name"],
    };
    let name = match case.owner_of_kind("RayCluster") {
        Some(cluster) => Some(cluster.name()),
        None => {
            paths.iter().find_map(|path| top.field(path)?.as_str().filter(|name| !name.is_empty()))
        }
    };
    let name = name.ok_or_else(|| {
        let problem = format!(
            "failed to extract rayClusterName for {}/{} of kind {}. Please make sure that the ray-operator is up and a \
             rayCluster child-object has been created",
            top.namespace(),
            top.name(),
            top.kind()
        );
        top.error(paths[0], problem)
    })?;
    let key = ObjectKey::new(top.api_version(), "RayCluster", case.namespace(), name);
    case.facts
        .object(&key)?
        .ok_or_else(|| top.error(paths[0], format!("no RayCluster {name}")).into())
}

/// Gives a further cluster of a service a group of its own.
fn share_service(
    case: &Case<'_>,
    cluster: Object<'_>,
    plan: &mut PodGroupPlan,
) -> Result<(), Stop> {
    let key = ObjectKey::pod_group(case.namespace(), &plan.name);
    let active =
        case.top().field("status.activeServiceStatus.rayClusterName").and_then(Value::as_str);
    let active = active.filter(|name| !name.is_empty());
    let holder = match case.facts.object(&key)? {
        Some(group) => Object::new(group).annotation(workload::RAY_CLUSTER).or(active),
        None => active,
    };
    if holder.is_some_and(|holder| holder != cluster.name()) {
        plan.name = format!("{}-{}", plan.name, cluster.name());
        plan.owner = cluster.reference();
    }
    plan.annotations.insert(workload::RAY_CLUSTER.to_owned(), cluster.name().to_owned());
    Ok(())
}

/// Older releases made groups without parts; they stay so.
fn made_flat(case: &Case<'_>, name: &str) -> Result<bool, Stop> {
    if !case.config.search_legacy_groups {
        return Ok(false);
    }
    let group = case.facts.object(&ObjectKey::pod_group(case.namespace(), name))?;
    Ok(group
        .is_some_and(|group| Object::new(group).list("spec.subGroups").is_ok_and(<[_]>::is_empty)))
}

fn shape(cluster: Object<'_>) -> Result<(i32, Vec<SubGroupPlan>), GroupingError> {
    let head = cluster.field("spec.headGroupSpec").unwrap_or(&Value::Null);
    let topology = group_topology(cluster, head, "spec.headGroupSpec")?;
    let mut groups = vec![SubGroupPlan::leaf(third_party::RAY_HEAD_GROUP, 1).placed(topology)];
    let mut size = 1_i32;
    let scales_itself = cluster.field("spec.enableInTreeAutoscaling") == Some(&Value::Bool(true));
    for (index, spec) in cluster.list("spec.workerGroupSpecs")?.iter().enumerate() {
        let path = format!("spec.workerGroupSpecs[{index}]");
        let Some(members) = worker_minimum(cluster, spec, &path, scales_itself)? else { continue };
        let name = cluster.string_in(spec, "groupName", &format!("{path}.groupName"))?;
        let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
        let name = name.unwrap_or_else(|| format!("worker-group-{index}"));
        let topology = group_topology(cluster, spec, &path)?;
        groups.push(SubGroupPlan::leaf(name, members).placed(topology));
        size = size.saturating_add(members);
    }
    Ok((size, groups))
}

/// The pods a worker group needs; none where it has no pods.
fn worker_minimum(
    cluster: Object<'_>,
    spec: &Value,
    path: &str,
    scales_itself: bool,
) -> Result<Option<i32>, GroupingError> {
    let number = |field: &str| {
        let path = format!("{path}.{field}");
        let Some(number) = cluster.integer_in(spec, field, &path)? else { return Ok(None) };
        let in_range = i32::try_from(number).ok().filter(|number| *number >= 0);
        in_range
            .map(Some)
            .ok_or_else(|| cluster.error(path, format!("{number} is no number of pods")))
    };
    if ["suspend", "suspended"].iter().any(|field| spec[*field] == Value::Bool(true)) {
        return Ok(None);
    }
    let (minimum, replicas) =
        (number("minReplicas")?.unwrap_or(0), number("replicas")?.unwrap_or(0));
    let most = number("maxReplicas")?.filter(|most| *most > 0).unwrap_or(i32::MAX);
    let (minimum, replicas) = (minimum.min(most), replicas.min(most));
    if minimum == 0 && replicas == 0 && !scales_itself {
        return Ok(None);
    }
    let needed = if minimum > 0 || scales_itself { minimum } else { replicas };
    Ok(Some(needed.saturating_mul(number("numOfHosts")?.unwrap_or(1))))
}

fn group_topology(
    cluster: Object<'_>,
    spec: &Value,
    path: &str,
) -> Result<Option<kai_api::pod_group::TopologyConstraint>, GroupingError> {
    let constraint = topology::constraint(|key| template_annotation(&spec["template"], key));
    if constraint.topology.is_none() && topology::has_level(&constraint) {
        let problem = format!("needs annotation {} beside its placement", workload::TOPOLOGY);
        return Err(cluster.error(format!("{path}.template.metadata.annotations"), problem));
    }
    Ok(topology::effective(constraint))
}
