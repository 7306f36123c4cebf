//! Fixed texts of refusals, made once: a filter that refuses thousands of nodes copies a pointer, not a string.
//! The words are KAI's and kube-scheduler's (library version 1.35).

use std::sync::LazyLock;

use crate::input::Text;
use crate::report::refusal::{NodeRefusal, Rule};

/// A refusal whose words never change.
pub(super) struct FixedText {
    rule: Rule,
    text: LazyLock<Text>,
}

impl FixedText {
    /// The refusal as data; shares the text.
    pub(super) fn refusal(&self) -> NodeRefusal {
        NodeRefusal::Rule { rule: self.rule, text: Text::clone(&self.text) }
    }
}

macro_rules! fixed_texts {
    ($($name:ident = $rule:ident, $text:literal;)*) => {
        $(pub(super) static $name: FixedText =
            FixedText { rule: Rule::$rule, text: LazyLock::new(|| $text.into()) };)*
    };
}

fixed_texts! {
    SHARED_ON_CLAIMED_GPUS = GpuKind,
        "fractional/shared GPU pods are not yet supported on DRA-only nodes";
    MIG_ON_PLAIN_NODE = GpuKind, "MIG job cannot be scheduled on non-MIG node";
    ONLY_WHOLE_GPUS = GpuKind, "only whole gpu jobs can run on a node with MigStrategy='single'";
    ONLY_MIG = GpuKind, "non MIG jobs cant run on a node with MigStrategy='mixed'";
    DEVICE_COUNT_UNKNOWN = DeviceCountUnknown,
        "node(s) are time-sliced and do not report how many physical GPUs they have \
         (label nvidia.com/gpu.count or annotation kai.scheduler/gpu-count), \
         so their GPUs cannot be shared safely";
    OVERSOLD = Oversold,
        "node(s) are time-sliced and more of their GPUs was given away than they have, \
         so nothing more that needs a GPU is placed on them";
    POD_SLOTS = PodSlots, "node(s) pod number exceeded";
    HOST_PORTS = HostPorts, "node(s) didn't have free ports for the requested pod ports";
    TAINT = Taint, "node(s) had untolerated taint(s)";
    NODE_AFFINITY = NodeAffinity, "node(s) didn't match Pod's node affinity/selector";
    AVOIDED = Avoided, "node(s) failed to bind the Pod a moment ago";
    POD_AFFINITY = PodAffinity, "node(s) didn't match pod affinity rules";
    POD_ANTI_AFFINITY = PodAffinity, "node(s) didn't match pod anti-affinity rules";
    EXISTING_ANTI_AFFINITY = PodAffinity,
        "node(s) didn't satisfy existing pods anti-affinity rules";
}
