//! The scheduling core: a cluster model, a pure planner and its reasons. No I/O, no async, no clock.

pub(crate) mod actions;
pub mod check;
pub mod compatibility;
pub mod config;
pub(crate) mod cycle;
pub mod fairness;
pub mod ids;
pub mod input;
pub mod keyed_hash;
pub mod placement;
pub mod plan;
pub mod plugins;
pub mod report;
pub mod resources;
pub(crate) mod solver;
pub mod status;
pub mod time;
pub mod world;

#[cfg(test)]
extern crate self as kai_core;
#[cfg(test)]
mod properties;
