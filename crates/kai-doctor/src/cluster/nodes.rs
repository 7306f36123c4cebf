//! What nodes say of their GPUs.

use kai_api::names::{gpu, node as labels};

use super::ClusterFacts;
use super::objects::Node;
use crate::check::Check;
use crate::finding::{Finding, Severity};

/// The resource of time-sliced devices if the device plugin is configured to rename them.
const RENAMED: &str = "nvidia.com/gpu.shared";
/// Labels that say that there are GPUs.
const SIGNS: [&str; 2] = ["nvidia.com/gpu.present", labels::GPU_COUNT];

pub(super) fn findings(facts: &ClusterFacts) -> Vec<Finding> {
    let has_reported_memory = |node: &Node| {
        !facts.was_read("pods") || facts.pods.iter().any(|pod| reports_memory_of(node, pod))
    };
    facts.nodes.iter().flat_map(|node| of_node(node, has_reported_memory(node))).collect()
}

/// A reservation pod of the node found out how much memory a device has.
fn reports_memory_of(node: &Node, pod: &super::objects::Pod) -> bool {
    pod.spec.node_name == node.metadata.name
        && pod.metadata.annotations.contains_key(gpu::MEMORY_MIB)
        && super::device_of(pod).is_some()
}

/// What `kai run` says of the node's GPUs: understood, or the reason why not; none: nothing.
fn verdict(node: &Node) -> Option<Result<(), &str>> {
    let mut conditions = node.status.conditions.iter();
    let condition = conditions.find(|one| one.kind == labels::GPUS_UNDERSTOOD)?;
    Some(if condition.status == "True" { Ok(()) } else { Err(&condition.reason) })
}

fn of_node(node: &Node, memory_is_reported: bool) -> Vec<Finding> {
    let mut all = Vec::new();
    let advertised = amount(node, gpu::NVIDIA);
    let counted = number(node, labels::GPU_COUNT);
    if amount(node, RENAMED) > 0 {
        all.push(renamed(node));
    } else if advertised == 0 && SIGNS.iter().any(|label| is_set(node, label)) {
        all.push(not_advertised(node));
    }
    if advertised == 0 {
        return all;
    }
    all.extend(memory(node, memory_is_reported));
    let physical = counted.or_else(|| by_replicas(node, advertised));
    match physical {
        None if advertised > 1 => all.push(uncounted(node, advertised)),
        Some(physical) if advertised < physical => all.push(fewer(node, advertised, physical)),
        Some(physical) if advertised > physical => all.push(sliced(node, advertised, physical)),
        None | Some(_) => {}
    }
    all
}

fn amount(node: &Node, resource: &str) -> u64 {
    node.status.allocatable.get(resource).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn number(node: &Node, label: &str) -> Option<u64> {
    node.metadata.labels.get(label)?.parse().ok().filter(|number| *number > 0)
}

fn is_set(node: &Node, label: &str) -> bool {
    node.metadata.labels.get(label).is_some_and(|value| !matches!(value.as_str(), "false" | "0"))
}

fn by_replicas(node: &Node, advertised: u64) -> Option<u64> {
    number(node, labels::GPU_REPLICAS).map(|replicas| advertised / replicas)
}

fn finding(node: &Node, check: Check, severity: Severity, message: String, fix: String) -> Finding {
    Finding { check, severity, object: format!("Node {}", node.metadata.name), message, fix }
}

fn memory(node: &Node, is_reported: bool) -> Option<Finding> {
    let name = &node.metadata.name;
    let metadata = &node.metadata;
    let label = metadata.labels.get(labels::GPU_MEMORY);
    let overridden = [&metadata.labels, &metadata.annotations]
        .iter()
        .any(|texts| texts.contains_key(gpu::MEMORY_MIB));
    let fix = format!("kubectl label node {name} {}=MIB --overwrite", labels::GPU_MEMORY);
    match label {
        Some(text) if !text.parse::<u64>().is_ok_and(|mib| mib > 0) => {
            let message = format!("{} is \"{text}\", not a number of MiB", labels::GPU_MEMORY);
            Some(finding(node, Check::GpuMemoryLabel, Severity::Error, message, fix))
        }
        None if !overridden && verdict(node) != Some(Ok(())) => {
            // What a reservation found out, or what a product of the name has, helps as well.
            let known = is_reported || metadata.labels.contains_key(labels::GPU_PRODUCT);
            let known = known && verdict(node).is_none();
            let severity = if known { Severity::Warning } else { Severity::Error };
            let message = format!(
                "no label {} gives the memory of a GPU: pods with gpu-memory may not fit here",
                labels::GPU_MEMORY
            );
            Some(finding(node, Check::GpuMemoryLabel, severity, message, fix))
        }
        Some(_) | None => None,
    }
}

fn not_advertised(node: &Node) -> Finding {
    let message = "its labels say that it has GPUs, but it offers no nvidia.com/gpu: no device plugin runs there".to_owned();
    let name = &node.metadata.name;
    let fix = format!(
        "kubectl get pods --all-namespaces --field-selector spec.nodeName={name} | grep device-plugin  # then read its log"
    );
    finding(node, Check::GpuNotAdvertised, Severity::Error, message, fix)
}

fn fewer(node: &Node, advertised: u64, physical: u64) -> Finding {
    let message = format!(
        "it has {physical} GPUs and offers {advertised}: the device plugin withholds the others as unhealthy, or {} is wrong",
        labels::GPU_COUNT
    );
    let name = &node.metadata.name;
    let fix = format!("kubectl label node {name} {}={advertised} --overwrite", labels::GPU_COUNT);
    finding(node, Check::GpuFewerAdvertised, Severity::Warning, message, fix)
}

fn renamed(node: &Node) -> Finding {
    let message = format!("it offers its GPUs as {RENAMED}, which no pod here requests");
    let fix = "kubectl edit configmap --namespace NAMESPACE NAME  # the device plugin's: sharing.timeSlicing.renameByDefault: false".to_owned();
    finding(node, Check::GpuRenamed, Severity::Error, message, fix)
}

fn uncounted(node: &Node, advertised: u64) -> Finding {
    let message = format!(
        "it offers {advertised} GPUs and no label {} gives the number of physical GPUs: with time-slicing one GPU would be allocated several times",
        labels::GPU_COUNT
    );
    let name = &node.metadata.name;
    let fix = format!("kubectl label node {name} {}=COUNT --overwrite", labels::GPU_COUNT);
    let unshared = verdict(node) == Some(Err("PhysicalGpuCountUnknown"));
    let severity = if unshared { Severity::Error } else { Severity::Warning };
    finding(node, Check::GpuCountLabel, severity, message, fix)
}

fn sliced(node: &Node, advertised: u64, physical: u64) -> Finding {
    let message = format!(
        "time-slicing: {physical} GPUs are offered as {advertised}. A pod with a whole GPU counts as one of {physical}, but the device \
         plugin chooses the GPU: it may be one that other pods share"
    );
    let name = &node.metadata.name;
    let fix = format!(
        "kubectl label node {name} nvidia.com/device-plugin.config=NAME --overwrite  # a configuration without sharing.timeSlicing, for whole GPUs"
    );
    finding(node, Check::TimeSlicing, Severity::Warning, message, fix)
}
