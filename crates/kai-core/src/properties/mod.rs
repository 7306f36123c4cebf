//! Properties of what only the planner itself can do: writes of a cycle and their undoing, and searches by index.

#[path = "../../tests/properties/worlds/mod.rs"]
#[allow(dead_code, reason = "the properties of the public contract use the rest")]
mod worlds;

mod ledger;

use proptest::prelude::ProptestConfig;

/// The configuration of a property that sees `cases` worlds unless the environment says otherwise.
fn cases(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|value| value.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), ..ProptestConfig::default() }
}
