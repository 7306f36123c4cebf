//! sg-nodelocalgreedy, sg-multinodegang: which sets of victims the search tries. The search itself is in
//! `solver`; here is only which generators run, and in which order.

use crate::config::PluginSpec;
use crate::plugins::Policy;

/// A generator of scenarios.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Generator {
    /// All victims' pods of one node at a time.
    NodeLocalGreedy,
    /// Growing sets of nodes, smallest first.
    MultiNodeGang,
}

impl Generator {
    /// KAI's name, as budgets are keyed.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeLocalGreedy => "NodeLocalGreedy",
            Self::MultiNodeGang => "MultiNodeGang",
        }
    }
}

pub(super) fn register_node_local_greedy(policy: &mut Policy, _: &PluginSpec) {
    policy.generators.push(Generator::NodeLocalGreedy);
}

pub(super) fn register_multi_node_gang(policy: &mut Policy, _: &PluginSpec) {
    policy.generators.push(Generator::MultiNodeGang);
}
