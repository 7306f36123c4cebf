//! Nodes that refused a pod, in words that mean something outside the world.

use crate::input::Text;
use crate::report::task_fit::{DeviceUse, TaskFit};
use crate::report::text;
use crate::world::World;
use crate::world::node_class::NodeClass;

/// Nodes that refused a pod.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RefusedNodes {
    /// By class, in the order of the first node of each by name.
    pub classes: Vec<RefusedClass>,
    /// Devices of nodes that refused for want of GPU memory: what is in use of each.
    pub devices: Vec<DeviceUse>,
    /// One by one, with why; only on request.
    pub each: Vec<(Text, Text)>,
}

/// Nodes of one class that refused a pod.
#[derive(Clone, PartialEq, Debug)]
pub struct RefusedClass {
    /// What the nodes have in common.
    pub class: NodeClass,
    /// How many of its nodes refused.
    pub nodes: u32,
    /// Why, with how many of the nodes gave each reason.
    pub reasons: Vec<(Text, u32)>,
}

impl RefusedNodes {
    pub(crate) fn of(world: &World, fit: &TaskFit) -> Self {
        let reasons: Vec<Text> =
            fit.counts.iter().map(|(reason, _)| text::node_reason(world, reason).into()).collect();
        let classes = fit.classes.iter().map(|class| RefusedClass {
            class: world.node_class(class.class).clone(),
            nodes: class.nodes,
            reasons: class
                .reasons
                .iter()
                .map(|(at, nodes)| (reasons[*at].clone(), *nodes))
                .collect(),
        });
        Self {
            classes: classes.collect(),
            devices: fit.devices.clone(),
            each: text::each_node(world, fit).collect(),
        }
    }
}
