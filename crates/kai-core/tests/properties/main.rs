//! Properties of the planner over random small worlds, and the named cases that people ask for.
//!
//! `PROPTEST_CASES` sets how many worlds each property sees; without it each has its own number.

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

use proptest::prelude::ProptestConfig;

/// The configuration of a property that sees `cases` worlds unless the environment says otherwise.
fn cases(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|value| value.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), ..ProptestConfig::default() }
}
