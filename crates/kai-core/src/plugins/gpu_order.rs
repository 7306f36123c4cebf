//! gpupack, gpuspread: which shared device of a node a pod joins. Pack takes the fullest that fits and opens a new
//! device last; spread takes the emptiest and prefers a new one. A device smaller than the placeholder memory
//! cannot be scored and is left out.

use crate::config::PluginSpec;
use crate::plugins::Policy;
use crate::world::gpu_facts::UNKNOWN_GPU_MEMORY_MIB;
use crate::world::node::{GpuGroup, Node};

/// How devices are scored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceScore {
    /// Prefers the device with the most memory in use.
    Pack,
    /// Prefers the device with the least memory in use.
    Spread,
}

pub(super) fn register_pack(policy: &mut Policy, _: &PluginSpec) {
    policy.device_scores.push(DeviceScore::Pack);
}

pub(super) fn register_spread(policy: &mut Policy, _: &PluginSpec) {
    policy.device_scores.push(DeviceScore::Spread);
}

impl DeviceScore {
    /// Score of a device in use; none leaves it out.
    pub(crate) fn of_group(self, group: &GpuGroup, node: &Node) -> Option<f64> {
        if node.gpus.memory_mib < UNKNOWN_GPU_MEMORY_MIB {
            return None;
        }
        let part = group.used_mib as f64 / node.gpus.memory_mib as f64;
        Some(match self {
            Self::Pack => part,
            Self::Spread => 1.0 - part,
        })
    }

    /// Score of a device without pods.
    pub(crate) fn of_new_device(self) -> f64 {
        match self {
            Self::Pack => 0.0,
            Self::Spread => 1.0,
        }
    }
}
