//! Why a pod found no node: refusals counted over the nodes tried.

use std::sync::Arc;

use crate::fairness::CapacityViolation;
use crate::input::Text;
use crate::report::refusal::{Lacking, NodeRefusal, Rule};

/// Why a pod found no node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaskFit {
    /// Why it was refused before any node was looked at.
    pub before_nodes: Option<Text>,
    /// Refusals with the number of nodes that gave them, in order of first appearance.
    pub counts: Vec<(NodeReason, u32)>,
    /// The same per node, where details were asked for.
    pub per_node: Vec<(Text, NodeRefusal)>,
    /// Devices of nodes that refused for want of GPU memory: what is in use of each.
    pub devices: Vec<DeviceUse>,
    /// Time-sliced nodes that refused whole GPUs although they advertise enough.
    pub sliced: Vec<SlicedNode>,
}

/// Why a node refuses, without the numbers of that node.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeReason {
    /// Too little of something; `by_overhead` when only the pod's overhead prevents the fit.
    Lacks {
        /// What lacks.
        what: Lacking,
        /// The overhead alone is too much.
        by_overhead: bool,
    },
    /// The queue may not hold what the pod would cost on this node.
    QueueCapacity(CapacityViolation),
    /// A rule refuses.
    Rule(Rule, Text),
}

/// What is in use of one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceUse {
    /// Node.
    pub node: Text,
    /// Id of the shared device.
    pub device: Text,
    /// MiB in use.
    pub used_mib: i64,
    /// MiB there are.
    pub total_mib: i64,
    /// Pods that use it.
    pub pods: u32,
    /// MiB that were asked for.
    pub requested_mib: i64,
}

/// A time-sliced node on which whole GPUs are physical devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlicedNode {
    /// Node.
    pub node: Text,
    /// GPUs that the device plugin advertises.
    pub advertised: i64,
    /// GPUs that exist.
    pub physical: i64,
}

/// At most this many devices, or time-sliced nodes, are named in a reason.
pub const MOST_DEVICES_NAMED: usize = 8;

impl TaskFit {
    /// Counts one refusal.
    pub(crate) fn count(&mut self, refusal: &NodeRefusal, by_overhead: bool) {
        match refusal {
            NodeRefusal::Shortages(shortages) => {
                for shortage in shortages {
                    self.add(NodeReason::Lacks { what: shortage.what, by_overhead }, 1);
                }
            }
            NodeRefusal::QueueCapacity(violation) => {
                self.add(NodeReason::QueueCapacity(**violation), 1);
            }
            NodeRefusal::Rule { rule, text } => {
                self.add(NodeReason::Rule(*rule, Arc::clone(text)), 1);
            }
        }
    }

    fn add(&mut self, reason: NodeReason, nodes: u32) {
        match self.counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += nodes,
            None => self.counts.push((reason, nodes)),
        }
    }

    /// Adds the refusals of another attempt.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.before_nodes.is_some() {
            self.before_nodes.clone_from(&other.before_nodes);
        }
        for (reason, nodes) in &other.counts {
            self.add(reason.clone(), *nodes);
        }
        self.per_node.extend(other.per_node.iter().cloned());
        self.devices.clone_from(&other.devices);
        self.sliced.clone_from(&other.sliced);
    }
}
