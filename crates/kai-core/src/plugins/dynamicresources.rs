//! dynamicresources: devices through resource claims.

use crate::compatibility::Compatibility;
use crate::config::PluginSpec;
use crate::ids::{NodeId, TaskId};
use crate::input::{ClaimSpec, DeviceClassSpec, ObjectName, PodSpec, SliceSpec, Text};
use crate::plugins::{Filter, Policy};
use crate::world::World;

/// Classes, slices and claims, and which devices are taken.
#[derive(Clone, Debug, Default)]
pub struct Claims {}

/// What of a claim changes while a cycle runs.
#[derive(Clone, PartialEq, Debug)]
pub struct ClaimState {}

/// The claims of one pod.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskClaims {
    /// Positions in the store of claims.
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
    /// Something is different.
    pub changed: bool,
    /// Nodes by name.
    pub nodes: Vec<Text>,
    /// Pods.
    pub pods: Vec<ObjectName>,
}

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.filters.push(Filter::Claims);
}

impl Claims {
    pub(crate) fn set_class(&mut self, _spec: DeviceClassSpec) -> Touched {
        Touched::default()
    }

    pub(crate) fn set_slice(&mut self, _spec: SliceSpec) -> Touched {
        Touched::default()
    }

    pub(crate) fn set_claim(&mut self, _spec: ClaimSpec) -> Touched {
        Touched::default()
    }

    pub(crate) fn remove_class(&mut self, _name: &Text) -> Touched {
        Touched::default()
    }

    pub(crate) fn remove_slice(&mut self, _name: &Text) -> Touched {
        Touched::default()
    }

    pub(crate) fn remove_claim(&mut self, _name: &ObjectName) -> Touched {
        Touched::default()
    }

    /// The claims of a pod.
    pub(crate) fn of_pod(&self, _pod: &PodSpec) -> TaskClaims {
        TaskClaims::default()
    }

    /// GPUs a pod asks for through claims.
    pub(crate) fn gpus_of_pod(&self, _pod: &PodSpec, _compatibility: Compatibility) -> i64 {
        0
    }

    /// GPUs offered on a node through slices.
    pub(crate) fn gpus_on(&self, _node: &Text) -> i64 {
        0
    }

    /// Notes that a pod with these claims is on a node; how many of its GPUs another pod there already counts.
    pub(crate) fn join_node(&mut self, _node: NodeId, _claims: &TaskClaims) -> i64 {
        0
    }

    /// How many GPUs of these claims a pod on the node already counts.
    pub(crate) fn repeated_devices(&self, _node: NodeId, _claims: &TaskClaims) -> i64 {
        0
    }

    /// No pod is on the node.
    pub(crate) fn forget_node(&mut self, _node: NodeId) {}

    /// Slots of resources that devices of a class stand behind.
    pub(crate) fn backed_slots(&self, _names: &crate::resources::ResourceNames) -> Vec<usize> {
        Vec::new()
    }

    pub(crate) fn restore(&mut self, _claim: usize, _state: ClaimState) {}
}

impl World {
    /// Reserves and allocates the claims of a pod that was placed in a cycle.
    pub(crate) fn reserve_claims(&mut self, _task: TaskId, _node: NodeId) {}

    /// Frees the claims of a pod that was told to go in a cycle.
    pub(crate) fn free_claims(&mut self, _task: TaskId) {}
}
pub(crate) fn check_node(_: &World, _: TaskId, _: NodeId) -> Result<(), crate::report::refusal::NodeRefusal> { Ok(()) }
pub(crate) fn check_task(_: &World, _: TaskId) -> Result<(), crate::report::refusal::TaskRefusal> { Ok(()) }
impl Claims {
    pub(crate) fn backs_resource(&self, _name: &str) -> bool { false }
}
