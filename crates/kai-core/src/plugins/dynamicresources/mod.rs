//! dynamicresources: devices through resource claims.
//!
//! Rule: a pod with claims fits a node from which the devices of its allocated claims can be used and on
//! which all its other claims can be satisfied together. Placing it reserves its claims and gives them devices;
//! evicting it reverts the reservation, and the last pod to be evicted frees the devices. Extended resources that a
//! device class stands behind are asked for as if by a claim of the pod's own, on nodes without a device plugin
//! for them.

mod allocator;
mod checks;
mod claim_cycle;
mod counting;
mod dependent;
mod extended;
mod pools;
mod releasing;
mod shares;
mod stock;
mod store;

#[cfg(test)]
mod tests;

pub(crate) use checks::{check_node, check_task};
pub use claim_cycle::ClaimView;
pub(crate) use claim_cycle::SharedDevices;
pub use extended::{ContainerAsk, EXTENDED_CLAIM};
pub use store::{ClaimState, Claims};

use crate::config::PluginSpec;
use crate::input::{ObjectName, Text};
use crate::plugins::{Filter, Policy};
use crate::world::World;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.filters.push(Filter::Claims);
}

/// The claims of one pod, as positions in the store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskClaims {
    /// Claims it names or owns: they are reserved and allocated for it.
    pub claims: Vec<usize>,
}

impl TaskClaims {
    /// The pod uses no claim.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

/// Objects that must look anew after devices or claims changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// The update changed what the planner knows.
    pub changed: bool,
    /// Names of nodes whose supply of devices changed.
    pub nodes: Vec<Text>,
    /// Pods whose claims changed.
    pub pods: Vec<ObjectName>,
}

impl World {
    /// Claims are understood and looked at.
    pub(crate) fn uses_claims(&self) -> bool {
        self.config.params.dynamic_resources && self.policy.filters.contains(&Filter::Claims)
    }
}

/// Whether a class or driver of this name is about GPUs.
fn is_gpu_name(name: &str) -> bool {
    name.to_ascii_lowercase().contains("gpu")
}
