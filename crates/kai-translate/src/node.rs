//! Nodes.

use kai_api::names::gpu as gpu_names;
use kai_core::input::NodeSpec;
use kai_core::input::Text;
use kai_core::input::node::{Allocatable, Taint, TaintEffect};
use kai_core::input::selectors::Labels;

use crate::amounts::Amounts;
use crate::gpus::{self, Probed};
use crate::problem::{Complaints, Translated};
use crate::selectors;
use crate::view;

/// Annotations that the planner reads.
const PLANNED_WITH: [&str; 3] =
    [gpu_names::COUNT, gpu_names::MEMORY_MIB, gpu_names::MEMORY_RESERVE_MIB];

/// Conditions that must be false where they are reported.
const PRESSURES: [&str; 4] =
    ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];

/// A node. `probed` is what was found out on it.
pub fn translate(node: &view::Node, probed: &Probed) -> Translated<NodeSpec> {
    let name = node.metadata.name.as_str();
    let mut complaints = Complaints::about(format!("Node {name}"));
    let amounts = Amounts::read(&node.status.allocatable, "status.allocatable", &mut complaints);
    let taints = node.spec.taints.iter().enumerate().filter_map(|(at, taint)| {
        let effect = effect(&taint.effect);
        if effect.is_none() {
            let message =
                format!("must be NoSchedule, PreferNoSchedule or NoExecute, is {:?}", taint.effect);
            complaints.add(format!("spec.taints[{at}].effect"), message);
        }
        Some(Taint {
            key: taint.key.as_str().into(),
            value: taint.value.as_str().into(),
            effect: effect?,
        })
    });
    let taints = taints.collect();
    let whole_gpu_policy = gpus::policy_of_node(node, &mut complaints);
    let spec = NodeSpec {
        name: name.into(),
        labels: selectors::labels(&node.metadata.labels),
        annotations: our_annotations(node),
        allocatable: Allocatable {
            cpu_milli: amounts.cpu_milli,
            memory_bytes: amounts.memory_bytes,
            pods: amounts.pods,
            gpus: amounts.gpus,
            mig: amounts.mig.into_iter().collect(),
            other: amounts.other.into_iter().collect(),
        },
        taints,
        unschedulable: node.spec.unschedulable,
        bad_conditions: bad_conditions(&node.status.conditions),
        gpu_memory_known: None,
        observed_gpu_uuids: probed.uuids.iter().map(|uuid| uuid.as_str().into()).collect(),
        observed_gpus: gpus::observed(node, probed),
        whole_gpu_policy,
    };
    complaints.with(spec)
}

pub(crate) fn effect(name: &str) -> Option<TaintEffect> {
    Some(match name {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    })
}

fn our_annotations(node: &view::Node) -> Labels {
    let all = node.metadata.annotations.iter();
    let ours = all.filter(|(key, _)| PLANNED_WITH.contains(&key.as_str()));
    ours.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

/// `NotReady` unless the node says it is ready, then every pressure that is not denied.
fn bad_conditions(conditions: &[view::Condition]) -> Vec<Text> {
    let status =
        |name: &str| conditions.iter().find(|one| one.type_ == name).map(|one| one.status.as_str());
    let mut bad: Vec<Text> = Vec::new();
    if status("Ready") != Some("True") {
        bad.push("NotReady".into());
    }
    let pressures = PRESSURES.iter().filter(|name| status(name).is_some_and(|is| is != "False"));
    bad.extend(pressures.map(|name| Text::from(*name)));
    bad
}
