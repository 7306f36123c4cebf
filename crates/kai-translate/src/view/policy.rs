//! Disruption budgets and priority classes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kai_api::view::ObjectMeta;
use serde::Deserialize;

use super::null_is_default;

/// A budget of evictions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    pub metadata: BudgetMetadata,
    #[serde(deserialize_with = "null_is_default")]
    pub spec: BudgetSpec,
    pub status: Option<BudgetStatus>,
}

/// Metadata of a budget, with the generation, which is read of no other kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BudgetMetadata {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Counts changes of the spec.
    pub generation: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BudgetSpec {
    /// Pods of the budget; none: no pod.
    pub selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    pub disruptions_allowed: i32,
    /// Generation of the spec that the status is about.
    #[serde(deserialize_with = "null_is_default")]
    pub observed_generation: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    pub metadata: ObjectMeta,
    pub value: i32,
    /// Pods without a class have this one.
    #[serde(deserialize_with = "null_is_default")]
    pub global_default: bool,
    /// `PreemptLowerPriority` or `Never`.
    pub preemption_policy: Option<String>,
}
