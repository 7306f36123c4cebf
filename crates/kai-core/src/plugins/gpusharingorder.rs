//! gpusharingorder: a node with a shared device that the pod fits on before one where a new device would be opened.
//! KAI scores every pod this way, so that pods without GPUs are drawn to nodes with shared devices (fault 25); by
//! default only pods that share are scored.

use crate::config::PluginSpec;
use crate::plugins::{Policy, Score};
use crate::world::World;
use crate::world::node::{DeviceDemand, GroupKind, Node};
use crate::world::shape::Shape;

/// Score of a node with a fitting shared device.
pub(crate) const SCORE: f64 = 10_000.0;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.scores.push(Score::GpuSharing);
}

/// Whether some shared device of `node` fits a pod of `shape`.
pub(crate) fn applies(world: &World, shape: &Shape, node: &Node) -> bool {
    if node.groups.is_empty() {
        return false;
    }
    let compatibility = world.config.compatibility;
    let (mib, kind) = match node.demand(shape, compatibility) {
        DeviceDemand::Shared { mib, kind, .. } => (mib, kind),
        DeviceDemand::Vector if compatibility.is_kai() => {
            (node.device_mib(shape, compatibility), GroupKind::default())
        }
        DeviceDemand::Vector => return false,
    };
    node.groups.iter().any(|group| group.fits(mib, kind, &node.gpus))
}
