//! podaffinity: nodes near pods that the pod prefers to be near.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.scores.push(Score::PodAffinity);
}
pub(crate) struct Scores {}
impl Scores {
    pub(crate) fn of(&self, _node: &crate::world::node::Node) -> f64 {
        0.0
    }
}
pub(crate) fn scores(
    _: &crate::world::World,
    _: crate::ids::TaskId,
    _: &crate::placement::node_set::NodeSet,
) -> Option<Scores> {
    None
}
