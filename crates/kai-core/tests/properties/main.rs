//! Properties of the planner over random small worlds, and the named cases that people ask for.
//!
//! `PROPTEST_CASES` sets how many worlds each property sees; without it each has its own number.

mod alike;
mod bad_input;
mod coverage;
mod incremental;
mod invariants;
mod reclaim;
mod repeatable;
mod scattered;
mod time_slicing;
mod undo;
mod worlds;

use kai_core::plan::{CyclePlan, Step, StepKind};
use proptest::prelude::ProptestConfig;

/// The configuration of a property that sees `cases` worlds unless the environment says otherwise.
fn cases(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|value| value.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), ..ProptestConfig::default() }
}

/// Some pod is evicted twice, as KAI does it (fault 11): what it had is counted as free, and credited to its queue, twice.
fn evicts_twice(plan: &CyclePlan) -> bool {
    let evicts = |step: &&Step| matches!(step.kind, StepKind::Evict { .. });
    let mut pods: Vec<_> = plan.steps.iter().filter(evicts).map(|step| &step.pod).collect();
    let steps = pods.len();
    pods.sort();
    pods.dedup();
    pods.len() < steps
}
