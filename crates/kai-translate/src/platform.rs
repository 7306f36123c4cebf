//! Which kind of system a node is, as far as its reservation pods are concerned. Only the node object is asked: it is there
//! before anything runs on the node.

use kai_api::names::node as names;

use crate::view;

/// Parts of the names of Tegra products.
const TEGRA_PRODUCTS: [&str; 5] = ["Orin", "Xavier", "Thor", "Tegra", "Jetson"];
/// Products, beside Tegra's, whose GPU uses the memory of the CPU.
const UNIFIED_PRODUCTS: [&str; 1] = ["GB10"];

/// Kind of system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Platform {
    /// Containers get devices and libraries from the container runtime.
    #[default]
    Standard,
    /// Jetson and its like: libraries lie outside the usual folders, and devices are not those of other systems.
    Tegra,
}

impl Platform {
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Tegra => "tegra",
        }
    }

    /// The platform of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Standard, Self::Tegra].into_iter().find(|platform| platform.name() == name)
    }

    /// The platform of a node; the first sign decides.
    pub fn of(node: &view::Node) -> Self {
        match stated(node) {
            Some(platform) => platform,
            None if !is_arm(node) => Self::Standard,
            None if runs_tegra_kernel(node) || has_product(node, &TEGRA_PRODUCTS) => Self::Tegra,
            None => Self::Standard, // servers with ARM processors
        }
    }
}

/// The setting on the node, as label or annotation.
pub fn stated(node: &view::Node) -> Option<Platform> {
    let metadata = &node.metadata;
    let key = names::TEGRA;
    let value = metadata.labels.get(key).or_else(|| metadata.annotations.get(key))?;
    match value.as_str() {
        "on" | "true" => Some(Platform::Tegra),
        "off" | "false" => Some(Platform::Standard),
        _ => None,
    }
}

fn is_arm(node: &view::Node) -> bool {
    let architecture = &node.status.node_info.architecture;
    let label = node.metadata.labels.get(names::ARCHITECTURE);
    architecture == "arm64" || label.is_some_and(|label| label == "arm64")
}

fn runs_tegra_kernel(node: &view::Node) -> bool {
    let label = node.metadata.labels.get(names::KERNEL_VERSION).map(String::as_str);
    let kernels = [Some(node.status.node_info.kernel_version.as_str()), label];
    kernels.into_iter().flatten().any(|kernel| kernel.contains("tegra"))
}

fn has_product(node: &view::Node, parts: &[&str]) -> bool {
    let product = node.metadata.labels.get(names::GPU_PRODUCT);
    product.is_some_and(|product| parts.iter().any(|part| product.contains(part)))
}

/// The node's one GPU uses the memory of the CPU.
pub fn has_unified_memory(node: &view::Node) -> bool {
    Platform::of(node) == Platform::Tegra || has_product(node, &UNIFIED_PRODUCTS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(architecture: &str, kernel: &str, labels: &serde_json::Value) -> view::Node {
        let object = json!({
            "metadata": {"name": "n", "labels": labels},
            "status": {"nodeInfo": {"architecture": architecture, "kernelVersion": kernel}},
        });
        serde_json::from_value(object).expect("a node")
    }

    fn platform(architecture: &str, kernel: &str, labels: &serde_json::Value) -> Platform {
        Platform::of(&node(architecture, kernel, labels))
    }

    #[test]
    fn the_first_sign_decides() {
        let none = json!({});
        assert_eq!(platform("arm64", "6.8.12-tegra", &none), Platform::Tegra);
        assert_eq!(platform("amd64", "6.8.12-tegra", &none), Platform::Standard);
        assert_eq!(
            platform("amd64", "6.8.0", &json!({"kai.scheduler/tegra": "on"})),
            Platform::Tegra
        );
        let off = json!({"kai.scheduler/tegra": "off"});
        assert_eq!(platform("arm64", "6.8.12-tegra", &off), Platform::Standard);
        let kernel = json!({"feature.node.kubernetes.io/kernel-version.full": "5.15.148-tegra"});
        assert_eq!(platform("arm64", "", &kernel), Platform::Tegra);
        let product =
            json!({"kubernetes.io/arch": "arm64", "nvidia.com/gpu.product": "NVIDIA-Thor"});
        assert_eq!(platform("", "", &product), Platform::Tegra);
    }

    #[test]
    fn servers_with_arm_processors_are_standard() {
        let grace = json!({"nvidia.com/gpu.product": "NVIDIA-GH200-480GB"});
        assert_eq!(platform("arm64", "6.8.0-nvidia-64k", &grace), Platform::Standard);
        let spark = json!({"nvidia.com/gpu.product": "NVIDIA-GB10"});
        assert_eq!(platform("arm64", "6.11.0-nvidia", &spark), Platform::Standard);
        assert!(has_unified_memory(&node("arm64", "6.11.0-nvidia", &spark)));
        assert!(!has_unified_memory(&node("arm64", "6.8.0-nvidia-64k", &grace)));
    }

    #[test]
    fn a_value_that_means_nothing_is_no_statement() {
        let odd = json!({"kai.scheduler/tegra": "perhaps"});
        assert_eq!(platform("arm64", "6.8.12-tegra", &odd), Platform::Tegra);
    }
}
