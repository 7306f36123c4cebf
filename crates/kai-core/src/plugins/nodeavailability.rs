//! nodeavailability: a node on which the pod can start now before one where it would wait.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};

/// Score of a node on which the pod can start now.
pub(crate) const SCORE: f64 = 1_000.0;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.scores.push(Score::Availability);
}
