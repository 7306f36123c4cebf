//! minruntime: a victim that started a short while ago is left alone.

use crate::config::PluginSpec;
use crate::plugins::Policy;

/// Arguments of the plugin.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments {}

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.min_runtime = Some(Arguments {});
}
