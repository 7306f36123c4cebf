//! Searches for victims: how many, how they ended, what they cost. Effort is counted as budgets count it.

use std::collections::BTreeMap;

use kai_core::config::{ActionKind, SearchBudgets, UNITS_PER_SECOND};
use kai_core::input::Text;
use kai_core::report::searches::{GeneratorRun, SearchReport};

use super::{Histogram, Labels, Page};

/// Actions that search for victims.
const SEARCHING: [ActionKind; 3] =
    [ActionKind::Consolidation, ActionKind::Reclaim, ActionKind::Preempt];

/// What was counted of searches.
pub(super) struct Searches {
    budgets: Option<SearchBudgets>,
    /// By action, result and whether the budget was reduced.
    jobs: BTreeMap<(&'static str, &'static str, bool), u64>,
    /// Searches that used up their budget, by action.
    exhausted: BTreeMap<&'static str, u64>,
    /// By action, generator and result.
    durations: BTreeMap<(&'static str, &'static str, &'static str), Histogram>,
    /// Sets of victims by action, generator and state.
    sets: BTreeMap<(&'static str, &'static str, &'static str), u64>,
}

impl Searches {
    pub(super) fn new(budgets: Option<SearchBudgets>) -> Self {
        Self {
            budgets,
            jobs: BTreeMap::new(),
            exhausted: SEARCHING.map(|action| (action.name(), 0)).into(),
            durations: BTreeMap::new(),
            sets: BTreeMap::new(),
        }
    }

    pub(super) fn note(&mut self, search: &SearchReport) {
        let action = search.action.name();
        let key = (action, search.result.name(), search.reduced_budget);
        *self.jobs.entry(key).or_default() += 1;
        *self.exhausted.entry(action).or_default() += u64::from(search.action_budget_spent);
        for run in &search.runs {
            self.note_run(action, run);
        }
    }

    fn note_run(&mut self, action: &'static str, run: &GeneratorRun) {
        let doubling = || Histogram::doubling(0.001, 16);
        let key = (action, run.generator, run.result.name());
        self.durations.entry(key).or_insert_with(doubling).note(seconds(run.work_units));
        let sets = &run.sets;
        for (state, count) in [
            ("emitted", sets.emitted),
            ("simulated", sets.simulated),
            ("validator_rejected", sets.refused),
            ("duplicate", sets.duplicate),
        ] {
            *self.sets.entry((action, run.generator, state)).or_default() += u64::from(count);
        }
    }

    pub(super) fn add_to(&self, page: &mut Page) {
        let jobs = self.jobs.iter().map(|((action, result, reduced), count)| {
            let reduced = if *reduced { "true" } else { "false" };
            let labels = [("action", *action), ("result", result), ("reduced_budget", reduced)];
            (labelled(&labels), *count)
        });
        page.counted("scenario_search_jobs_total", "Searches for victims.", jobs);
        page.counters(
            "scenario_search_action_budget_exhausted_total",
            "Times an action ended because its budget was spent.",
            "action",
            &self.exhausted,
        );
        let durations = self.durations.iter().map(|((action, generator, result), histogram)| {
            let labels = [("action", *action), ("generator", generator), ("result", result)];
            (labelled(&labels), histogram)
        });
        page.histograms(
            "scenario_search_duration_seconds",
            "Effort of a generator in a search, as budgets count it: a second is a million steps.",
            durations,
        );
        let sets = self.sets.iter().map(|((action, generator, state), count)| {
            let labels = [("action", *action), ("generator", generator), ("state", state)];
            (labelled(&labels), *count)
        });
        page.counted("scenario_search_scenarios_total", "Sets of victims.", sets);
        self.add_budgets(page);
    }

    fn add_budgets(&self, page: &mut Page) {
        let Some(budgets) = &self.budgets else { return };
        let of = |name: &'static str, units: &BTreeMap<Text, u64>| -> Vec<(Labels, f64)> {
            let each = units.iter();
            each.map(|(key, units)| (labelled(&[(name, key)]), seconds(*units))).collect()
        };
        page.gauges(
            "scenario_search_action_budget_configured_seconds",
            "Budget of an action; 0 is unlimited.",
            of("action", &budgets.action_units),
        );
        page.gauges(
            "scenario_search_job_budget_configured_seconds",
            "Budget of a group; 0 is unlimited.",
            [(Labels::new(), seconds(budgets.job_units))],
        );
        page.gauges(
            "scenario_search_generator_budget_configured_seconds",
            "Budget of a generator; 0 is unlimited.",
            of("generator", &budgets.generator_units),
        );
    }
}

fn seconds(units: u64) -> f64 {
    units as f64 / UNITS_PER_SECOND
}

fn labelled(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
