//! The scheduling core: a cluster model, a pure planner and its reasons. No I/O, no async, no clock.

pub mod compatibility;
pub mod fairness;
pub mod ids;
pub mod time;
