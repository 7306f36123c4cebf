//! Planners that are set up in another way than usual, as files in KAI's format.

use std::fmt::Write as _;

/// The usual plugins in their usual order, without the plugins that decide between packing and spreading.
const PLUGINS: [&str; 18] = [
    "predicates",
    "proportion",
    "priority",
    "nodeavailability",
    "resourcetype",
    "podaffinity",
    "elastic",
    "kubeflow",
    "ray",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "minruntime",
    "topology",
    "snapshot",
    "sg-nodelocalgreedy",
    "sg-multinodegang",
];

/// Pods are packed, and aligned to NUMA zones.
pub fn aligned() -> String {
    file(
        "allocate, consolidation, reclaim, preempt, stalegangeviction",
        &[
            "{name: gpupack}",
            "{name: nodeplacement, arguments: {gpu: binpack, cpu: binpack}}",
            "{name: gpusharingorder}",
            "{name: numa}",
        ],
    )
}

/// Pods are spread over nodes and devices.
pub fn spread() -> String {
    file(
        "allocate, reclaim, preempt, stalegangeviction",
        &["{name: gpuspread}", "{name: nodeplacement, arguments: {gpu: spread, cpu: spread}}"],
    )
}

fn file(actions: &str, more: &[&str]) -> String {
    let mut text = format!("actions: \"{actions}\"\ntiers:\n- plugins:\n");
    for name in PLUGINS {
        let _ = writeln!(text, "  - {{name: {name}}}");
    }
    for plugin in more {
        let _ = writeln!(text, "  - {plugin}");
    }
    text
}
