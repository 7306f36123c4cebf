//! The older format: a pod belongs to a component, and pods of a component are split by keys.

use kai_api::names::objects::{POD_GROUP_PREFIX, TRAIN};
use serde_json::Value;

use crate::base::{Case, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::jq::Query;
use crate::object::pod_error;
use crate::plan::{Minimum, PodGroupPlan};

use super::super::is_label;
use super::definition::{Member, Structure, TypeSelector};
use super::{pod_value, scale};

pub(super) fn plan(case: &Case<'_>, structure: &Structure) -> Result<PodGroupPlan, Stop> {
    let component = component_of_pod(case, structure)?;
    let member = effective_member(case, structure, component)?;
    let mut name = format!("{POD_GROUP_PREFIX}{}", case.top().uid());
    for key in &member.keys {
        name = format!("{name}-{}", scale::text(&single(case, structure, key)?));
    }
    if !is_subdomain(&name) {
        let problem = format!("{name:?} is no DNS-1123 subdomain, so it cannot name a pod group");
        return Err(structure.error("groupByKeyPaths", problem).into());
    }
    let own = member.component == component;
    let selector = structure.component(component)?.instance_selector.as_ref().filter(|_| own);
    let instance = match selector {
        Some(query) => Some(scale::text(&single(case, structure, query)?)),
        None => None,
    };
    let size = scale::of_subtree(structure, &member.component, instance.as_deref(), case.top())?;
    let mut plan = workload_plan(case, case.top(), TRAIN);
    plan.name = name;
    plan.minimum = Minimum::Members(size);
    Ok(plan)
}

/// The component with pods that selects this one; if only one has pods, that one.
fn component_of_pod<'a>(case: &Case<'_>, structure: &'a Structure) -> Result<&'a str, Stop> {
    let with_pods: Vec<_> = structure.with_pods().collect();
    if let [(only, _)] = with_pods[..] {
        return Ok(only);
    }
    let mut found = Vec::new();
    for (name, component) in with_pods {
        if let Some(selector) = &component.type_selector
            && selects(case, structure, selector)?
        {
            found.push(name);
        }
    }
    match found[..] {
        [only] => Ok(only),
        [] => Err(unmatched(case, structure, "no component found for pod".to_owned()).into()),
        _ => Err(unmatched(
            case,
            structure,
            format!("components {} all select it", found.join(", ")),
        )
        .into()),
    }
}

/// A member that names the component itself, else its nearest ancestor; the first whose filters all pass.
fn effective_member<'a>(
    case: &Case<'_>,
    structure: &'a Structure,
    component: &'a str,
) -> Result<&'a Member, Stop> {
    let mut current = Some(component);
    while let Some(name) = current {
        for member in structure.members.iter().filter(|member| member.component == name) {
            if passes(case, structure, &member.filters)? {
                return Ok(member);
            }
        }
        current = structure.component(name)?.parent.as_deref();
    }
    let problem = format!(
        "pod {}/{} does not match any Karta pod group member definition",
        case.namespace(),
        case.pod.metadata.name
    );
    Err(unmatched(case, structure, problem).into())
}

fn passes(case: &Case<'_>, structure: &Structure, filters: &[Query]) -> Result<bool, Stop> {
    for filter in filters {
        if single(case, structure, filter)? != Value::Bool(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Does the pod belong to the component with this selector?
pub(super) fn selects(
    case: &Case<'_>,
    structure: &Structure,
    selector: &TypeSelector,
) -> Result<bool, Stop> {
    let found = run(case, structure, &selector.key)?;
    Ok(match &selector.value {
        None => found.iter().any(|value| !value.is_null()),
        Some(expected) => found.iter().any(|value| value.as_str() == Some(expected)),
    })
}

/// The only result, which must not be empty.
fn single(case: &Case<'_>, structure: &Structure, query: &Query) -> Result<Value, Stop> {
    let mut results = run(case, structure, query)?;
    match (results.pop(), results.len()) {
        (Some(value), 0) if !value.is_null() && value != "" => Ok(value),
        (value, more) => {
            let number = more + usize::from(value.is_some());
            let problem = if number == 1 {
                "query result is empty".to_owned()
            } else {
                format!("expected single query result, got {number}")
            };
            Err(unmatched(case, structure, problem).into())
        }
    }
}

fn run(case: &Case<'_>, structure: &Structure, query: &Query) -> Result<Vec<Value>, Stop> {
    let pod = pod_value(case, query.reads_beyond_metadata())?;
    Ok(query.run(&pod).map_err(|error| unmatched(case, structure, error.to_string()))?)
}

fn unmatched(case: &Case<'_>, structure: &Structure, problem: String) -> GroupingError {
    pod_error(case.pod, &format!("as described by Karta {}", structure.name), problem)
}

/// Labels, joined by dots.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}
