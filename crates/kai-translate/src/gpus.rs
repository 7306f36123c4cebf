//! What is known of a node's GPUs where labels do not say: what reservations found there, what a product of the name has,
//! and the node's own memory where its GPU uses that.

use kai_api::gpu_request::GpuShare;
use kai_api::names::{node as names, resources};
use kai_core::input::node::{ObservedGpus, WholeGpuPolicy};
use kai_core::world::gpu_facts::fraction_mib;

use crate::platform::has_unified_memory;
use crate::problem::Complaints;
use crate::view;

/// MiB of a device of `total_mib` that a share amounts to. The planner counts in the same way.
pub fn share_mib(share: GpuShare, total_mib: i64) -> i64 {
    match share {
        GpuShare::Memory(mib) => mib,
        GpuShare::Fraction(portion) => fraction_mib(portion, total_mib),
    }
}

/// What the system of a node with unified memory keeps for itself.
const SYSTEM_MIB: i64 = 2048;

/// Memory of products in MiB as NVML reports it, by a part of their name; the first part that is found decides.
const PRODUCTS: [(&str, i64); 24] = [
    ("GB200", 189_471),
    ("B200", 183_359),
    ("GH200-144G", 147_456),
    ("GH200", 97_871),
    ("H200", 143_771),
    ("H100-NVL", 95_830),
    ("H100", 81_559),
    ("A100-SXM4-40GB", 40_960),
    ("A100-PCIE-40GB", 40_960),
    ("A100", 81_920),
    ("RTX-6000-Ada", 49_140),
    ("RTX-A6000", 49_140),
    ("RTX-5090", 32_607),
    ("RTX-4090", 24_564),
    ("RTX-3090", 24_576),
    ("L40", 46_068),
    ("L4", 23_034),
    ("A40", 46_068),
    ("A30", 24_576),
    ("A16", 15_356),
    ("A10", 23_028),
    ("V100-SXM2-32GB", 32_768),
    ("V100", 16_384),
    ("T4", 15_360),
];

/// What was found out on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Its devices, where they are all there are for all that is known.
    pub uuids: Vec<String>,
    /// How many devices it has.
    pub count: Option<i64>,
    pub memory_mib: Option<i64>,
    /// MiB of each that the driver keeps for itself.
    pub reserve_mib: Option<i64>,
}

/// How a policy for whole GPUs is written.
pub fn whole_gpu_policy(value: &str) -> Option<WholeGpuPolicy> {
    match value {
        "physical" => Some(WholeGpuPolicy::Physical),
        "replica" => Some(WholeGpuPolicy::Replica),
        _ => None,
    }
}

/// The policy of a node for whole GPUs; none: that of the cluster.
pub(crate) fn policy_of_node(
    node: &view::Node,
    complaints: &mut Complaints,
) -> Option<WholeGpuPolicy> {
    let value = node.metadata.labels.get(names::WHOLE_GPU_POLICY)?;
    let policy = whole_gpu_policy(value);
    if policy.is_none() {
        let field = format!("metadata.labels[{}]", names::WHOLE_GPU_POLICY);
        complaints.add(field, format!("must be physical or replica, is {value:?}"));
    }
    policy
}

/// What is known beside labels.
pub(crate) fn observed(node: &view::Node, probed: &Probed) -> ObservedGpus {
    let unified = has_unified_memory(node);
    let memory =
        probed.memory_mib.or_else(|| product_memory(node)).or_else(|| own_memory(node, unified));
    // Systems whose GPU uses the memory of the CPU have one.
    let written = node.metadata.annotations.get(names::MEASURED_RESERVE_MIB);
    let reserve = probed.reserve_mib.or_else(|| written?.parse().ok().filter(|mib| *mib >= 0));
    ObservedGpus {
        count: probed.count.or(unified.then_some(1)),
        memory_mib: memory,
        reserve_mib: reserve,
    }
}

fn product_memory(node: &view::Node) -> Option<i64> {
    let product = node.metadata.labels.get(names::GPU_PRODUCT)?;
    let is_part = |part: &str| {
        let mut places = product.match_indices(part);
        // A10 is no part of A100.
        places.any(|(at, _)| {
            !product[at + part.len()..].starts_with(|next: char| next.is_ascii_digit())
        })
    };
    PRODUCTS.iter().find(|(part, _)| is_part(part)).map(|(_, mib)| *mib)
}

fn own_memory(node: &view::Node, unified: bool) -> Option<i64> {
    let memory = node.status.capacity.get(resources::MEMORY).filter(|_| unified)?;
    let mib = memory.parse().ok()?.value() >> 20;
    Some((mib - SYSTEM_MIB).max(1))
}

#[cfg(test)]
mod tests {
    use kai_core::compatibility::Compatibility;
    use kai_core::input::node::WholeGpuPolicy;
    use kai_core::world::gpu_facts::GpuFacts;
    use serde_json::json;

    use super::*;

    fn node(product: &str, kernel: &str, memory: &str) -> view::Node {
        let object = json!({
            "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": product}},
            "status": {
                "capacity": {"memory": memory},
                "nodeInfo": {"architecture": "arm64", "kernelVersion": kernel},
            },
        });
        serde_json::from_value(object).expect("a node")
    }

    fn memory(product: &str) -> Option<i64> {
        observed(&node(product, "", "1Ti"), &Probed::default()).memory_mib
    }

    #[test]
    fn what_was_found_out_comes_before_what_a_product_has() {
        let probed = Probed { count: Some(8), memory_mib: Some(80_000), ..Probed::default() };
        let known = observed(&node("NVIDIA-H100-80GB-HBM3", "", "1Ti"), &probed);
        assert_eq!(
            known,
            ObservedGpus { count: Some(8), memory_mib: Some(80_000), reserve_mib: None }
        );
        assert_eq!(memory("NVIDIA-H100-80GB-HBM3"), Some(81_559));
        assert_eq!(memory("NVIDIA-A100-SXM4-40GB"), Some(40_960));
        assert_eq!(memory("NVIDIA-A100-SXM4-80GB-SHARED"), Some(81_920));
        assert_eq!(memory("NVIDIA-A10G"), Some(23_028));
        assert_eq!(memory("NVIDIA-L40S"), Some(46_068));
        assert_eq!(memory("Tesla-T4"), Some(15_360));
        assert_eq!(memory("NVIDIA-X900"), None);
    }

    #[test]
    fn a_gpu_in_the_memory_of_the_cpu_has_what_the_system_leaves() {
        let thor = node("NVIDIA-Thor", "6.8.12-tegra", "125772Mi");
        let known = observed(&thor, &Probed::default());
        assert_eq!(
            known,
            ObservedGpus { count: Some(1), memory_mib: Some(123_724), reserve_mib: None }
        );
        let server = observed(&node("unknown-product", "6.8", "512Gi"), &Probed::default());
        assert_eq!(server, ObservedGpus::default());
    }

    #[test]
    fn reserve_is_what_the_node_says_else_what_was_measured_else_that_of_the_cluster() {
        const RESERVE: &str = "kai.scheduler/gpu-memory-reserve-mib";
        let mut card = node("Tesla-T4", "", "1Ti");
        let left = |node: &view::Node, measured: Option<i64>, compatibility: Compatibility| {
            let probed = Probed { reserve_mib: measured, ..Probed::default() };
            let spec = crate::node::translate(node, &probed).object.expect("a node");
            GpuFacts::of(&spec, compatibility, WholeGpuPolicy::default(), 256).memory_mib
        };
        let right = Compatibility::Right;
        assert_eq!(left(&card, None, right), 15_104, "that of the cluster");
        assert_eq!(left(&card, Some(450), right), 14_910, "what a reservation pod measured");
        assert_eq!(left(&card, Some(450), Compatibility::Kai), 15_044, "KAI knows no measures");
        let measured = [(names::MEASURED_RESERVE_MIB.to_owned(), "451".to_owned())];
        card.metadata.annotations.extend(measured);
        assert_eq!(left(&card, None, right), 14_909, "what was measured before");
        card.metadata.labels.insert(RESERVE.to_owned(), "0".to_owned());
        assert_eq!(left(&card, Some(450), right), 15_360, "an administrator knows better");
        card.metadata.labels.insert(RESERVE.to_owned(), "-1".to_owned());
        assert_eq!(left(&card, Some(450), right), 14_910, "no amount");
    }

    /// What the planner makes of a node: how many devices, and how much memory each has.
    fn understood(node: &view::Node, probed: &Probed) -> (i64, Option<i64>) {
        let spec = crate::node::translate(node, probed).object.expect("a node");
        let facts = GpuFacts::of(&spec, Compatibility::Right, WholeGpuPolicy::default(), 0);
        (facts.physical, facts.memory_known.then_some(facts.memory_mib))
    }

    #[test]
    fn the_first_source_that_reports_decides_and_the_next_where_it_is_silent() {
        const COUNT: &str = "kai.scheduler/gpu-count";
        const MEMORY: &str = "kai.scheduler/gpu-memory-mib";
        let mut node = node("NVIDIA-Thor-A30", "6.8.12-tegra", "12048Mi");
        node.status.allocatable =
            serde_json::from_value(json!({"nvidia.com/gpu": "20"})).expect("an amount");
        let texts = |pairs: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect::<Vec<_>>()
        };
        node.metadata.annotations.extend(texts(&[(COUNT, "2"), (MEMORY, "200")]));
        node.metadata.labels.extend(texts(&[(COUNT, "8"), (MEMORY, "800")]));
        node.metadata.labels.extend(texts(&[
            ("nvidia.com/gpu.count", "3"),
            ("nvidia.com/gpu.memory", "300"),
            ("nvidia.com/gpu.replicas", "5"),
        ]));
        let uuids = (0..7).map(|number| format!("GPU-{number}")).collect();
        let mut probed = Probed { uuids, count: Some(6), memory_mib: Some(600), reserve_mib: None };
        assert_eq!(understood(&node, &probed), (2, Some(200)), "the labels of the node count");
        node.metadata.annotations.clear();
        assert_eq!(understood(&node, &probed), (8, Some(800)), "as a label, too");
        node.metadata.labels.retain(|key, _| !key.starts_with("kai.scheduler/"));
        assert_eq!(understood(&node, &probed), (3, Some(300)), "its labels");
        node.metadata.labels.remove("nvidia.com/gpu.memory");
        node.metadata.labels.remove("nvidia.com/gpu.count");
        assert_eq!(understood(&node, &probed), (4, Some(600)), "replicas; what was found on it");
        node.metadata.labels.remove("nvidia.com/gpu.replicas");
        probed.memory_mib = None;
        assert_eq!(understood(&node, &probed), (6, Some(24_576)), "its bus; its product");
        probed.count = None;
        node.metadata.labels.remove("nvidia.com/gpu.product");
        assert_eq!(
            understood(&node, &probed),
            (1, Some(10_000)),
            "a Jetson has one, and its memory"
        );
        node.status.node_info.kernel_version.clear();
        assert_eq!(understood(&node, &probed), (7, None), "devices that were seen; nothing");
        probed.uuids.clear();
        assert_eq!(understood(&node, &probed), (20, None), "what is advertised");
    }
}
