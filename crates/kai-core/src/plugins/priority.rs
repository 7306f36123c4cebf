//! priority: jobs of higher priority first.

use crate::config::PluginSpec;
use crate::plugins::Policy;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.orders_by_priority = true;
}
