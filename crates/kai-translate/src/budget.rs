//! Disruption budgets.

use kai_core::input::{BudgetSpec, ObjectName};

use crate::problem::Translated;
use crate::selectors::label_selector;
use crate::view::PodDisruptionBudget;

/// A disruption budget. One whose status is older than its spec allows nothing until it is brought up to date.
pub fn translate(budget: &PodDisruptionBudget) -> Translated<BudgetSpec> {
    let metadata = &budget.metadata;
    let status = budget.status.as_ref();
    let up_to_date = status.is_some_and(|one| one.observed_generation >= metadata.generation);
    let allowed = status.filter(|_| up_to_date).map_or(0, |status| status.disruptions_allowed);
    BudgetSpec {
        name: ObjectName::new(metadata.namespace.as_str(), metadata.name.as_str()),
        selector: label_selector(budget.spec.selector.as_ref()),
        allowed: u32::try_from(allowed).unwrap_or_default(),
    }
    .into()
}
