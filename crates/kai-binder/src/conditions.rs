//! Conditions of nodes with GPUs: whether we know what the GPUs are, and whether reservation pods find theirs.

use k8s_openapi::api::core::v1 as api;
use kai_api::names::node as names;
use kai_core::time::Timestamp;
use kai_core::world::gpu_facts::{GpuFacts, Sharing};
use kai_translate::{time, view};

use super::facts::NodeFacts;
use super::nvml_fallbacks::{NvmlFallbacks, RuntimeState};

/// A condition of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeCondition {
    pub(super) kind: &'static str,
    pub(super) holds: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl NodeCondition {
    /// The condition as the node shows it from now on.
    pub(super) fn object(&self, now: Timestamp) -> api::NodeCondition {
        let moment = Some(time::api_time(now));
        api::NodeCondition {
            type_: self.kind.to_owned(),
            status: self.status().to_owned(),
            reason: Some(self.reason.to_owned()),
            message: Some(self.message.clone()),
            last_heartbeat_time: moment.clone(),
            last_transition_time: moment,
        }
    }

    pub(super) fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }
}

/// Conditions that are to be written: those that say something else than the node shows. That all is well is written only
/// where the node says otherwise.
pub(super) fn changed(
    node: &NodeFacts,
    gpus: &GpuFacts,
    fallbacks: Option<&NvmlFallbacks>,
    runtime: RuntimeState,
) -> Vec<NodeCondition> {
    let understood = (gpus.advertised > 0).then(|| understood(gpus));
    let found = fallbacks.and_then(|fallbacks| found(fallbacks, runtime));
    let wanted = [understood, found].into_iter().flatten();
    wanted.filter(|one| differs(one, &node.view.status.conditions)).collect()
}

fn differs(wanted: &NodeCondition, shown: &[view::Condition]) -> bool {
    match shown.iter().find(|one| one.type_ == wanted.kind) {
        Some(shown) => shown.status != wanted.status() || shown.reason != wanted.reason,
        None => !wanted.holds,
    }
}

/// Whether the number and the memory of its GPUs are known.
fn understood(gpus: &GpuFacts) -> NodeCondition {
    let (holds, reason, message) = if gpus.sharing == Sharing::UnknownDeviceCount {
        (
            false,
            "PhysicalGpuCountUnknown",
            "the node is time-sliced and does not say how many GPUs it has, so they are not shared; label it \
             nvidia.com/gpu.count=<number of physical GPUs>",
        )
    } else if gpus.memory_known {
        (true, "Understood", "the number and the memory of its GPUs are known")
    } else {
        (
            false,
            "GpuMemoryUnknown",
            "the memory of its GPUs is not known, so pods with gpu-memory are not placed on it; label it \
             nvidia.com/gpu.memory=<MiB of one GPU>",
        )
    };
    NodeCondition { kind: names::GPUS_UNDERSTOOD, holds, reason, message: message.to_owned() }
}

/// Whether reservation pods find their device; none: nothing was seen of them yet.
fn found(fallbacks: &NvmlFallbacks, runtime: RuntimeState) -> Option<NodeCondition> {
    let kind = names::GPUS_FOUND;
    if fallbacks.works() {
        let message = "reservation pods find their GPU".to_owned();
        return Some(NodeCondition { kind, holds: true, reason: "Found", message });
    }
    let why = fallbacks.failures()?;
    let (reason, advice) = match runtime {
        RuntimeState::NoClass => (
            "RuntimeClassMissing",
            "no runtime class of NVIDIA's exists in the cluster: create RuntimeClass nvidia, unless every container of \
             the node gets NVIDIA's runtime",
        ),
        RuntimeState::NotOnNode => (
            "RuntimeNotOnNode",
            "the node does not have the runtime of the class: on the node, nvidia-ctk runtime configure \
             --runtime=containerd, then restart containerd",
        ),
        RuntimeState::Usable | RuntimeState::Unwanted => {
            ("GpuNotFound", "kai doctor says what to do")
        }
    };
    let message = format!("reservation pods do not find their GPU; {advice}. {why}");
    Some(NodeCondition { kind, holds: false, reason, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Rung;

    #[test]
    fn that_all_is_well_is_said_only_after_it_was_not() {
        let mut shown = Vec::new();
        let mut fallbacks = NvmlFallbacks::default();
        let changed_reason = |shown: &[view::Condition], fallbacks: &NvmlFallbacks, runtime| {
            let condition = found(fallbacks, runtime).filter(|one| differs(one, shown));
            condition.map(|one| (one.reason, one.message))
        };
        assert_eq!(
            changed_reason(&shown, &fallbacks, RuntimeState::NoClass),
            None,
            "nothing was tried"
        );
        fallbacks.failed(Rung::Plain, "no library");
        let (reason, message) =
            changed_reason(&shown, &fallbacks, RuntimeState::NoClass).expect("a condition");
        assert_eq!(reason, "RuntimeClassMissing");
        assert!(message.ends_with(". plain: no library"), "{message}");
        let reason = |shown: &[view::Condition], fallbacks: &NvmlFallbacks, runtime| {
            changed_reason(shown, fallbacks, runtime).map(|(reason, _)| reason)
        };
        assert_eq!(reason(&shown, &fallbacks, RuntimeState::NotOnNode), Some("RuntimeNotOnNode"));
        assert_eq!(reason(&shown, &fallbacks, RuntimeState::Usable), Some("GpuNotFound"));
        fallbacks.worked(Rung::Plain);
        assert_eq!(reason(&shown, &fallbacks, RuntimeState::NoClass), None, "it never failed");
        shown.push(view::Condition {
            type_: names::GPUS_FOUND.to_owned(),
            status: "False".to_owned(),
            reason: "GpuNotFound".to_owned(),
        });
        assert_eq!(reason(&shown, &fallbacks, RuntimeState::NoClass), Some("Found"));
    }
}
