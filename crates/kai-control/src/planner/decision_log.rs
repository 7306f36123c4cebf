//! One line per decision when it changes, and with `--v=4` one per pod and device that was considered, under the tags that KAI
//! users grep for.

use kai_core::plan::{CyclePlan, Step, StepKind};
use kai_core::report::device_trials::{DeviceTrial, DeviceUsage, NodeDevices};

/// Logs what a plan considered.
pub(super) fn log_trials(made: &CyclePlan) {
    for trial in &made.device_trials {
        for line in trial_lines(trial) {
            tracing::debug!("{line}");
        }
    }
    tracing::debug!(steps = made.steps.len(), waiting = made.waiting.len(), "planned");
}

/// Logs one decision of a plan.
pub(super) fn log_decision(step: &Step) {
    let (action, pod) = (step.action.name(), &step.pod);
    match &step.kind {
        StepKind::Bind { node, .. } => tracing::info!(action, %pod, %node, "binding pod"),
        StepKind::Nominate { node, .. } => tracing::info!(action, %pod, %node, "nominated pod"),
        StepKind::Evict { message, .. } => tracing::info!(action, %pod, %message, "evicting pod"),
    }
}

/// The devices that a plan considered for a pod, and its choice.
fn trial_lines(trial: &DeviceTrial) -> Vec<String> {
    let pod = &trial.pod;
    let mut lines = Vec::new();
    for node in &trial.nodes {
        lines.push(format!("[GPU_FILTER] Pod <{pod}> {}", node_line(node)));
        let devices = node.devices.iter().map(|device| device_line(&node.node, device));
        lines.extend(devices.map(|line| format!("[GPU_FILTER] Pod <{pod}> {line}")));
    }
    match &trial.choice {
        Some(choice) => {
            let (node, devices) = (&choice.node, choice.devices.join(" "));
            lines.push(format!("[GPU_SELECT] Pod <{pod}> Node <{node}>: groups=<[{devices}]>"));
            lines.push(format!("[GPU_ALLOCATE] Pod <{pod}> Node <{node}>: Allocation successful"));
        }
        None => lines.push(format!("[GPU_ALLOCATE] Pod <{pod}>: Allocation failed, no node fits")),
    }
    lines
}

fn node_line(node: &NodeDevices) -> String {
    let NodeDevices { node, idle, releasing, requested_mib, .. } = node;
    let wanted = requested_mib.map_or("whole GPUs".to_owned(), |mib| format!("{mib} MiB"));
    format!("Node <{node}>: IdleGPUs=<{idle}>, ReleasingGPUs=<{releasing}>, Requested=<{wanted}>")
}

fn device_line(node: &str, usage: &DeviceUsage) -> String {
    let DeviceUsage { device, used_mib, allocated_mib, releasing_mib, total_mib, fits } = usage;
    format!(
        "Node <{node}> GPU <{device}>: UsedMemory=<{used_mib} MiB>, AllocatedMemory=<{allocated_mib} MiB>, \
         ReleasingMemory=<{releasing_mib} MiB>, TotalGpuMemory=<{total_mib} MiB>, Fits=<{fits}>"
    )
}

#[cfg(test)]
mod tests {
    use kai_core::input::ObjectName;
    use kai_core::report::device_trials::DeviceChoice;

    use super::*;

    #[test]
    fn every_device_that_was_looked_at_has_a_line() {
        let usage = DeviceUsage {
            device: "g1".into(),
            used_mib: 24_000,
            allocated_mib: 24_000,
            releasing_mib: 0,
            total_mib: 32_600,
            fits: true,
        };
        let node = NodeDevices {
            node: "n1".into(),
            idle: 0,
            releasing: 0,
            requested_mib: Some(8000),
            devices: vec![usage],
        };
        let choice = DeviceChoice { node: "n1".into(), devices: vec!["g1".into()] };
        let pod = ObjectName::new("a", "p");
        let trial = DeviceTrial { pod, nodes: vec![node], choice: Some(choice) };
        assert_eq!(
            trial_lines(&trial),
            [
                "[GPU_FILTER] Pod <a/p> Node <n1>: IdleGPUs=<0>, ReleasingGPUs=<0>, Requested=<8000 MiB>",
                "[GPU_FILTER] Pod <a/p> Node <n1> GPU <g1>: UsedMemory=<24000 MiB>, AllocatedMemory=<24000 MiB>, \
                 ReleasingMemory=<0 MiB>, TotalGpuMemory=<32600 MiB>, Fits=<true>",
                "[GPU_SELECT] Pod <a/p> Node <n1>: groups=<[g1]>",
                "[GPU_ALLOCATE] Pod <a/p> Node <n1>: Allocation successful",
            ]
        );
        let lines = trial_lines(&DeviceTrial { choice: None, ..trial });
        let last = lines.last().map(String::as_str);
        assert_eq!(last, Some("[GPU_ALLOCATE] Pod <a/p>: Allocation failed, no node fits"));
    }
}
