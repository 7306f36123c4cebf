//! Knative services: one group per revision, as large as the revision's smallest scale; or one group per pod.
//!
//! Revisions whose pods already have groups of their own keep it that way.

use kai_api::names::objects::INFERENCE;
use kai_api::names::{third_party, workload};
use serde_json::Value;
use std::collections::BTreeSet;

use crate::base::{Case, one_group_per_pod, workload_plan};
use crate::error::Stop;
use crate::facts::{ObjectKey, PodQuery};
use crate::object::{Object, label_path, pod_error};
use crate::plan::{Minimum, PodGroupPlan};

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let revision = revision(case)?;
    let revision = Object::new(revision);
    let mut plan = workload_plan(case, revision, INFERENCE);
    if case.config.knative_gang && !has_group_per_pod(case, revision)? {
        let scale = revision.annotation(third_party::KNATIVE_MIN_SCALE).map(str::parse::<i32>);
        let minimum = scale.and_then(Result::ok).filter(|scale| *scale >= 0).unwrap_or(1);
        plan.minimum = Minimum::Members(minimum);
    } else {
        one_group_per_pod(case, &mut plan);
    }
    Ok(plan)
}

fn revision<'a>(case: &Case<'a>) -> Result<&'a Value, Stop> {
    let key = third_party::KNATIVE_REVISION;
    let name = case
        .pod
        .label(key)
        .ok_or_else(|| pod_error(case.pod, &label_path(key), "is missing; Knative sets it"))?;
    let key_of = ObjectKey::new("serving.knative.dev/v1", "Revision", case.namespace(), name);
    case.facts.object(&key_of)?.ok_or_else(|| {
        pod_error(case.pod, &label_path(key), format!("no Revision {}/{name}", case.namespace()))
            .into()
    })
}

fn has_group_per_pod(case: &Case<'_>, revision: Object<'_>) -> Result<bool, Stop> {
    let query = PodQuery::new(case.namespace(), [(third_party::KNATIVE_REVISION, revision.name())]);
    let mut groups = BTreeSet::new();
    for pod in case.facts.pods(&query)? {
        if let Some(group) = pod.annotation(workload::POD_GROUP_NAME)
            && !groups.insert(group)
        {
            return Ok(false);
        }
    }
    let only = match (groups.first(), groups.len()) {
        (Some(only), 1) => only,
        (_, number) => return Ok(number > 1),
    };
    let Some(group) = case.facts.object(&ObjectKey::pod_group(case.namespace(), only))? else {
        return Ok(false);
    };
    let group = Object::new(group);
    match group.list("metadata.ownerReferences")?.first().and_then(|owner| owner["kind"].as_str()) {
        Some("Pod") => Ok(true),
        Some("Revision") => Ok(false),
        owner => {
            let problem =
                format!("a Pod or a Revision is expected, not {}", owner.unwrap_or("nothing"));
            Err(group.error("metadata.ownerReferences", problem).into())
        }
    }
}
