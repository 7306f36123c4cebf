//! Kinds that only wrap others: the group is that of the object below, which inherits labels and annotations.
//!
//! `TrainJob`, Argo `Workflow`, the run.ai workloads, `DynamoGraphDeployment`, and workloads of other operators. What the object
//! below says itself counts more than what it inherits; defaults per kind count least.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::base::Case;
use crate::error::Stop;
use crate::object::pod_object;
use crate::plan::PodGroupPlan;

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let mut owners = case.owners.clone();
    let wrapper = owners.pop().unwrap_or_else(|| case.top.clone());
    let mut below = match owners.pop() {
        Some(owner) => owner.into_owned(),
        None => pod_object(case.pod),
    };
    for section in ["labels", "annotations"] {
        inherit(&mut below, &wrapper, section);
    }
    let is_pod = case.owners.len() < 2;
    let top: Cow<'_, Value> = Cow::Owned(below);
    if !is_pod {
        owners.push(top.clone());
    }
    let mut skipped = case.skipped.clone();
    skipped.push(wrapper);
    let inner =
        Case { pod: case.pod, top, owners, skipped, facts: case.facts, config: case.config };
    super::by_kind(&inner)
}

/// Copies labels or annotations that the object has not itself.
fn inherit(object: &mut Value, from: &Value, section: &str) {
    let Some(inherited) = from["metadata"][section].as_object() else { return };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let own = metadata.entry(section).or_insert_with(|| Value::Object(Map::new()));
    if !own.is_object() {
        *own = Value::Object(Map::new());
    }
    if let Some(own) = own.as_object_mut() {
        for (key, value) in inherited {
            own.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}
