//! topology: pods of a sub-group in one domain of the network or rack topology.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};

/// Domain trees of all topologies, built when first needed and kept until nodes or topologies change.
#[derive(Clone, Debug, Default)]
pub struct Trees {}

impl Trees {
    /// Nodes or topologies changed.
    pub(crate) fn invalidate(&mut self) {}
}

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.topology = true;
    policy.scores.push(Score::Topology);
}
