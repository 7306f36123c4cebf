//! Why a pod found no node: refusals counted over the nodes tried.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::fairness::CapacityViolation;
use crate::input::Text;
use crate::report::refusal::{Lacking, NodeRefusal, Rule};
use crate::world::node_class::ClassId;

/// Why a pod found no node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaskFit {
    /// Why it was refused before any node was looked at.
    pub before_nodes: Option<Text>,
    /// Refusals with the number of nodes that gave them, in order of first appearance.
    pub counts: Vec<(NodeReason, u32)>,
    /// The same by class of nodes.
    pub classes: Vec<ClassRefusals>,
    /// The same per node, where details were asked for.
    pub per_node: Vec<(Text, NodeRefusal)>,
    /// Devices of nodes that refused for want of GPU memory: what is in use of each.
    pub devices: Vec<DeviceUse>,
    /// Time-sliced nodes that refused whole GPUs although they advertise enough.
    pub sliced: Vec<SlicedNode>,
}

/// Refusals of the nodes of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassRefusals {
    /// Class that the nodes are of.
    pub class: ClassId,
    /// How many of its nodes refused.
    pub nodes: u32,
    /// Why: positions in the list of all refusals, with how many of the nodes gave each.
    pub reasons: Vec<(usize, u32)>,
}

/// Why a node refuses, without the numbers of that node.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeReason {
    /// Too little of something.
    Lacks {
        /// Resource of which too little is free.
        what: Lacking,
        /// The pod's overhead, where that alone prevents the fit.
        overhead: Vec<(Text, i64)>,
    },
    /// The queue may not hold what the pod would cost on this node.
    QueueCapacity(CapacityViolation),
    /// A rule refuses; with its text in KAI's words.
    Rule(Rule, Text),
}

/// What is in use of one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceUse {
    /// Name of the node.
    pub node: Text,
    /// Id of the shared device.
    pub device: Text,
    /// MiB that pods use of the device.
    pub used_mib: i64,
    /// MiB of the device that may be given to pods.
    pub total_mib: i64,
    /// Pods that use it.
    pub pods: u32,
    /// MiB that were asked for.
    pub requested_mib: i64,
}

/// A time-sliced node on which whole GPUs are physical devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlicedNode {
    /// Name of the time-sliced node.
    pub node: Text,
    /// GPUs that the device plugin advertises.
    pub advertised: i64,
    /// Physical GPUs of the node.
    pub physical: i64,
}

/// At most this many devices, or time-sliced nodes, are named in a reason.
pub const MOST_DEVICES_NAMED: usize = 8;

impl NodeReason {
    /// Why a node refuses; with the pod's overhead, where that alone prevents the fit.
    pub(crate) fn all_of(
        refusal: &NodeRefusal,
        overhead: &[(Text, i64)],
    ) -> SmallVec<[NodeReason; 1]> {
        match refusal {
            NodeRefusal::Shortages(shortages) => {
                let lacks = |what| Self::Lacks { what, overhead: overhead.to_vec() };
                shortages.iter().map(|shortage| lacks(shortage.what)).collect()
            }
            NodeRefusal::QueueCapacity(violation) => smallvec![Self::QueueCapacity(**violation)],
            NodeRefusal::Rule { rule, text } => smallvec![Self::Rule(*rule, Arc::clone(text))],
        }
    }
}

impl TaskFit {
    /// Counts nodes of one class that refuse for the same reasons.
    pub(crate) fn count_many(&mut self, class: ClassId, reasons: &[NodeReason], nodes: u32) {
        let known = self.classes.iter().position(|entry| entry.class == class);
        let class = known.unwrap_or_else(|| {
            self.classes.push(ClassRefusals { class, nodes: 0, reasons: Vec::new() });
            self.classes.len() - 1
        });
        self.classes[class].nodes += nodes;
        for reason in reasons {
            let at = self.add(reason, nodes);
            let of_class = &mut self.classes[class].reasons;
            match of_class.iter_mut().find(|(known, _)| *known == at) {
                Some((_, counted)) => *counted += nodes,
                None => of_class.push((at, nodes)),
            }
        }
    }

    /// Adds to the list of all refusals; says where.
    fn add(&mut self, reason: &NodeReason, nodes: u32) -> usize {
        if let Some(at) = self.counts.iter().position(|(known, _)| known == reason) {
            self.counts[at].1 += nodes;
            return at;
        }
        self.counts.push((reason.clone(), nodes));
        self.counts.len() - 1
    }

    /// Adds the refusals of another attempt.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.before_nodes.is_some() {
            self.before_nodes.clone_from(&other.before_nodes);
        }
        let moved: Vec<usize> =
            other.counts.iter().map(|(reason, nodes)| self.add(reason, *nodes)).collect();
        self.classes.clone_from(&other.classes);
        for (reason, _) in self.classes.iter_mut().flat_map(|class| &mut class.reasons) {
            *reason = moved[*reason];
        }
        self.per_node.extend(other.per_node.iter().cloned());
        self.devices.clone_from(&other.devices);
        self.sliced.clone_from(&other.sliced);
    }
}
