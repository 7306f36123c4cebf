//! minruntime: a victim that started a short while ago is left alone.

use crate::config::PluginSpec;
use crate::plugins::Policy;

/// Arguments of the plugin.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments {}

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.min_runtime = Some(Arguments {});
}
use crate::ids::{JobId, TaskId};
use crate::time::Timestamp;
use crate::world::World;
pub(crate) fn may_protect(_: &World) -> bool {
    false
}
pub(crate) fn allows_reclaim(_: &World, _: Timestamp, _: JobId, _: &[TaskId]) -> bool {
    true
}
pub(crate) fn allows_preempt(_: &World, _: Timestamp, _: JobId, _: &[TaskId]) -> bool {
    true
}
