//! nominatednode: the node a pod is nominated to comes before every other.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};

/// Score of the nominated node; above every other score.
pub(crate) const SCORE: f64 = 10_000_000.0;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.scores.push(Score::Nominated);
}
