//! Budgets of the search, in work units, so that results repeat. A spent generator budget ends the generator, a
//! spent job budget ends the action.

use crate::config::{ActionKind, SearchBudgets};
use crate::cycle::Cycle;
use crate::plugins::scenario_generators::Generator;
use crate::report::searches::{SearchReport, SearchResult};

/// Which budget is spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spent {
    Generator,
    Job,
}

/// Budgets of one action; none is unlimited.
#[derive(Clone, Debug)]
pub(crate) struct ActionBudget {
    action: ActionKind,
    budgets: Option<SearchBudgets>,
    action_end: Option<u64>,
    valid: bool,
}

/// Budgets of one job.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    budgets: Option<SearchBudgets>,
    job_end: Option<u64>,
    generator_end: Option<u64>,
    /// The action's end comes before the job's own.
    pub(crate) reduced: bool,
}

const DEFAULT: &str = "default";

impl ActionBudget {
    pub(crate) fn new(budgets: Option<&SearchBudgets>, action: ActionKind, work: u64) -> Self {
        let action_units = budgets.and_then(|budgets| {
            let units = budgets.action_units.get(action.name());
            units.or_else(|| budgets.action_units.get(DEFAULT)).copied()
        });
        let valid = budgets.is_none_or(|budgets| {
            budgets.job_units == 0 || budgets.min_job_units < budgets.job_units
        });
        Self { action, budgets: budgets.cloned(), action_end: end_of(action_units, work), valid }
    }

    /// False when the configured budgets contradict each other: the action does nothing.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid
    }

    /// The budget of the next job; none when nothing is left for it, which is noted.
    pub(crate) fn for_job(&self, cycle: &mut Cycle<'_>) -> Option<Budget> {
        let granted = self.grant(cycle.work());
        if granted.is_none() {
            cycle.searches.push(SearchReport {
                action: self.action,
                result: SearchResult::NotAttempted,
                reduced_budget: true,
                action_budget_spent: true,
                runs: Vec::new(),
            });
        }
        granted
    }

    fn grant(&self, work: u64) -> Option<Budget> {
        let Some(budgets) = &self.budgets else {
            return Some(Budget {
                budgets: None,
                job_end: None,
                generator_end: None,
                reduced: false,
            });
        };
        let own_end = end_of(Some(budgets.job_units), work);
        let reduced = self.action_end.is_some_and(|action| own_end.is_some_and(|own| action < own));
        let job_end = [own_end, self.action_end].into_iter().flatten().min();
        let granted = work + budgets.min_job_units;
        let job_end = job_end.map(|end| end.max(granted));
        if job_end.is_some_and(|end| end <= work) {
            return None;
        }
        Some(Budget { budgets: Some(budgets.clone()), job_end, generator_end: None, reduced })
    }
}

impl Budget {
    pub(crate) fn begin_generator(&mut self, generator: Generator, work: u64) {
        let units = self.budgets.as_ref().and_then(|budgets| {
            let units = budgets.generator_units.get(generator.name());
            units.or_else(|| budgets.generator_units.get(DEFAULT)).copied()
        });
        self.generator_end = end_of(units, work);
    }

    pub(crate) fn spent(&self, work: u64) -> Option<Spent> {
        if self.job_end.is_some_and(|end| work >= end) {
            return Some(Spent::Job);
        }
        self.generator_end.is_some_and(|end| work >= end).then_some(Spent::Generator)
    }
}

/// Zero units are unlimited.
fn end_of(units: Option<u64>, work: u64) -> Option<u64> {
    units.filter(|units| *units > 0).map(|units| work.saturating_add(units))
}
