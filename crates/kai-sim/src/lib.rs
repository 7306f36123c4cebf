//! Scenarios in virtual time: the format, the runner, the comparison with expectations.
//!
//! The way through the crate: [`mod@format`] reads a document, [`state`] spells it out into a
//! [`state::ClusterState`] the runner can change, [`run`] drives a [`run::Planner`] through cycles,
//! [`compare`] and [`strict`] judge each [`outcome::CycleOutcome`], [`suite`] does this for many files
//! at once and [`report`] prints the verdicts. [`vectors`] are single calls of pure functions. [`mod@bench`]
//! makes worlds of any size for measuring the planner.

pub mod bench;
pub mod compare;
pub mod format;
pub mod outcome;
pub mod replay;
pub mod report;
pub mod run;
pub mod shared;
pub mod state;
pub mod strict;
pub mod suite;
pub mod vectors;

#[cfg(test)]
mod scripted;
