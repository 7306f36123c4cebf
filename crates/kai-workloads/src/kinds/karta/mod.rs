//! Kinds that are described by a `Karta`: components, where they keep their scale, how their pods are distinguished.
//!
//! A kind without a rule takes the shape its `Karta` describes, if there is exactly one and it is sound; otherwise it is treated as
//! an unknown kind, and the user gets a warning. Metadata, queue and priority are as for every kind.

mod definition;
mod members;
mod scale;

use kai_api::names::objects::{POD_GROUP_PREFIX, TRAIN};
use kai_api::pod_group::TopologyConstraint;
use serde_json::Value;

use crate::base::{Case, pod_name, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::facts::ObjectKey;
use crate::object::{Object, pod_object};
use crate::plan::{Minimum, Notice, PodGroupPlan, SubGroupPlan};
use crate::topology;

use self::definition::{PodGroup, Structure, Topology};

/// The group by the `Karta` of the kind, or that of an unknown kind.
pub(super) fn plan_or_default(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    if !case.config.karta {
        return Ok(super::unknown(case));
    }
    let gvk = case.top().gvk();
    let (mut sound, mut notices) = (Vec::new(), Vec::new());
    for karta in case.facts.kartas(&gvk)? {
        match definition::read(karta, &gvk) {
            Ok(structure) => sound.extend(structure),
            Err(problem) => notices.push(ignored(karta, problem)),
        }
    }
    if sound.len() > 1 {
        let names: Vec<&str> = sound.iter().map(|structure| structure.name.as_str()).collect();
        let problem = format!("{} describe the same kind", names.join(", "));
        notices.push(Notice::Ignored { place: format!("every Karta of {}", gvk.kind), problem });
        sound.clear();
    }
    let mut plan = match sound.first() {
        Some(structure) => described(case, structure)?,
        None => super::unknown(case),
    };
    plan.notices.extend(notices);
    Ok(plan)
}

fn ignored(karta: &Value, problem: String) -> Notice {
    Notice::Ignored { place: Object::new(karta).describe(), problem }
}

fn described(case: &Case<'_>, structure: &Structure) -> Result<PodGroupPlan, Stop> {
    match &structure.pod_group {
        Some(group) => one_group(case, structure, group),
        None => members::plan(case, structure),
    }
}

/// One group for the workload, a part for each component that is listed.
fn one_group(
    case: &Case<'_>,
    structure: &Structure,
    group: &PodGroup,
) -> Result<PodGroupPlan, Stop> {
    let top = case.top();
    let mut plan = workload_plan(case, top, TRAIN);
    plan.name = format!("{POD_GROUP_PREFIX}{}-{}", top.uid(), group.name);
    if let Some(topology) = &group.topology {
        plan.topology = constraint(structure, topology)?;
    }
    if group.sub_groups.is_empty() {
        plan.minimum = Minimum::Members(scale::of_subtree(structure, &structure.root, None, top)?);
        return Ok(plan);
    }
    for part in &group.sub_groups {
        let name = &part.component_name;
        let size = scale::of_subtree(structure, name, None, top)?;
        if size == 0 {
            let problem = format!("component {name} must expose a replica scale definition");
            return Err(structure.error(name, problem).into());
        }
        let topology = part.topology.as_ref().map(|topology| constraint(structure, topology));
        plan.sub_groups.push(SubGroupPlan::leaf(name, size).placed(topology.transpose()?));
    }
    plan.minimum = Minimum::SubGroups(plan.sub_groups.len() as i32);
    for part in &group.sub_groups {
        if subtree_has_pod(case, structure, &part.component_name)? {
            plan.pod_sub_group = Some(part.component_name.clone());
            break;
        }
    }
    if plan.pod_sub_group.is_none() {
        let problem = format!("no component of Karta {} that has one selects it", structure.name);
        plan.notices.push(Notice::NoSubGroup { pod: pod_name(case.pod), problem });
    }
    Ok(plan)
}

fn subtree_has_pod(case: &Case<'_>, structure: &Structure, component: &str) -> Result<bool, Stop> {
    for name in structure.subtree(component) {
        if let Some(selector) = structure.component(name)?.type_selector.as_ref()
            && members::selects(case, structure, selector)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn constraint(
    structure: &Structure,
    given: &Topology,
) -> Result<TopologyConstraint, GroupingError> {
    let text = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let constraint = TopologyConstraint {
        topology: text(&given.name),
        required_topology_level: text(&given.required),
        preferred_topology_level: text(&given.preferred),
    };
    topology::effective(constraint).ok_or_else(|| {
        structure.error("topology", "needs topologyName and at least one level".to_owned())
    })
}

/// The pod as an object: in full only where an expression reads more than metadata.
fn pod_value(case: &Case<'_>, in_full: bool) -> Result<Value, Stop> {
    if !in_full {
        return Ok(pod_object(case.pod));
    }
    let key = ObjectKey::new("v1", "Pod", case.namespace(), &case.pod.metadata.name);
    Ok(case.facts.object(&key)?.cloned().unwrap_or_else(|| pod_object(case.pod)))
}
