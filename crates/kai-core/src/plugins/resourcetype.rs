//! resourcetype: pods without GPUs prefer nodes without GPUs.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};

/// Score of a CPU node for a CPU pod.
pub(crate) const SCORE: f64 = 10.0;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.scores.push(Score::ResourceType);
}
