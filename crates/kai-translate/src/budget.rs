//! Disruption budgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kai_core::input::{BudgetSpec, ObjectName};

use crate::problem::Translated;
use crate::selectors::label_selector;

/// A disruption budget. One whose status is older than its spec allows nothing until it is brought up to date.
pub fn translate(budget: &PodDisruptionBudget) -> Translated<BudgetSpec> {
    let metadata = &budget.metadata;
    let status = budget.status.as_ref();
    let up_to_date = status.is_some_and(|status| {
        status.observed_generation.unwrap_or_default() >= metadata.generation.unwrap_or_default()
    });
    let allowed = status.filter(|_| up_to_date).map_or(0, |status| status.disruptions_allowed);
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    BudgetSpec {
        name: ObjectName::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        ),
        selector: label_selector(selector),
        allowed: u32::try_from(allowed).unwrap_or_default(),
    }
    .into()
}
