//! The scheduling core: a cluster model, a pure planner and its reasons. No I/O, no async, no clock.

pub mod compatibility;
pub mod config;
pub mod fairness;
pub mod ids;
pub mod input;
pub mod placement;
pub mod plugins;
pub mod report;
pub mod resources;
pub mod status;
pub mod time;
pub mod world;
