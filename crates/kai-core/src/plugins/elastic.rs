//! elastic: of equal priority, jobs that have fewer pods than they need first, then those that have exactly what
//! they need, then those that have more. A job is below if any leaf is, and exact only if all leaves are.

use crate::config::PluginSpec;
use crate::plugins::Policy;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.orders_by_fill = true;
}
