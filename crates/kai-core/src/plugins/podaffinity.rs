//! podaffinity: nodes near pods that the pod prefers to be near.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.scores.push(Score::PodAffinity);
}
