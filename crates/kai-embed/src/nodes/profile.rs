//! What a node is like.

use std::collections::BTreeMap;

use kai_api::names::{gpu, node as labels};
use serde_json::{Value, json};

/// How the device plugin advertises devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each device is advertised once.
    #[default]
    Whole,
    /// Each as so many.
    TimeSliced(u32),
    /// Each as so many instances of a profile such as `1g.10gb`.
    Mig {
        /// MIG profile, such as `1g.10gb`.
        profile: String,
        /// Instances per device.
        per_device: u32,
    },
}

/// What a node is built of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// A server with GPUs of its own memory.
    #[default]
    Server,
    /// A Jetson Thor, whose GPU shares the memory of its cores.
    JetsonThor,
}

impl Machine {
    fn architecture(self) -> &'static str {
        match self {
            Self::Server => "amd64",
            Self::JetsonThor => "arm64",
        }
    }

    fn kernel(self) -> &'static str {
        match self {
            Self::Server => "simulated",
            Self::JetsonThor => "6.8.12-tegra",
        }
    }
}

/// What a node is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProfile {
    /// Name of the node.
    pub name: String,
    /// What it is built of.
    pub machine: Machine,
    /// Number of CPU cores.
    pub cpu: u32,
    pub memory_gib: u32,
    /// Number of physical GPUs.
    pub gpus: u32,
    /// Memory of each device in MiB.
    pub gpu_memory_mib: u64,
    /// What the devices are called.
    pub gpu_product: String,
    /// How they are advertised.
    pub sharing: Sharing,
    /// GPU feature discovery labels the node.
    pub discovered: bool,
    /// Labels in addition to those of kubelet and GPU feature discovery.
    pub labels: BTreeMap<String, String>,
}

impl NodeProfile {
    /// A node with so many devices of 80 GiB.
    pub fn with_gpus(name: &str, gpus: u32) -> Self {
        Self {
            name: name.to_owned(),
            machine: Machine::Server,
            cpu: 64,
            memory_gib: 512,
            gpus,
            gpu_memory_mib: 81_920,
            gpu_product: "NVIDIA-H100-80GB-HBM3".to_owned(),
            sharing: Sharing::Whole,
            discovered: true,
            labels: BTreeMap::new(),
        }
    }

    /// The node as an object, with its status.
    pub(super) fn node(&self) -> Value {
        let mut amounts = json!({
            "cpu": self.cpu.to_string(),
            "memory": format!("{}Gi", self.memory_gib),
            "ephemeral-storage": "1000Gi",
            "pods": "110",
        });
        if self.gpus > 0 {
            let (resource, count) = match &self.sharing {
                Sharing::Whole => (gpu::NVIDIA.to_owned(), self.gpus),
                Sharing::TimeSliced(replicas) => (gpu::NVIDIA.to_owned(), self.gpus * replicas),
                Sharing::Mig { profile, per_device } => {
                    (format!("{}{profile}", gpu::MIG_PREFIX), self.gpus * per_device)
                }
            };
            amounts[resource] = json!(count.to_string());
        }
        let mut all = usual_labels(&self.name, self.machine);
        if self.gpus > 0 && self.discovered {
            all.extend(self.discovered_labels());
        }
        all.extend(self.labels.clone());
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": all},
            "spec": {},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "nodeInfo": node_info(self.machine),
            },
        })
    }

    /// What GPU feature discovery would find.
    fn discovered_labels(&self) -> BTreeMap<String, String> {
        let (replicas, suffix) = match &self.sharing {
            Sharing::TimeSliced(replicas) => (*replicas, "-SHARED"),
            Sharing::Whole | Sharing::Mig { .. } => (1, ""),
        };
        let mut found = BTreeMap::from([
            (labels::GPU_COUNT.to_owned(), self.gpus.to_string()),
            (labels::GPU_MEMORY.to_owned(), self.gpu_memory_mib.to_string()),
            (labels::GPU_REPLICAS.to_owned(), replicas.to_string()),
            ("nvidia.com/gpu.product".to_owned(), format!("{}{suffix}", self.gpu_product)),
            ("nvidia.com/gpu.present".to_owned(), "true".to_owned()),
        ]);
        if matches!(self.sharing, Sharing::Mig { .. }) {
            found.insert(labels::MIG_STRATEGY.to_owned(), "mixed".to_owned());
            found.insert(labels::MIG_ENABLED.to_owned(), "true".to_owned());
        }
        found
    }
}

/// Labels that every kubelet sets.
pub(super) fn usual_labels(name: &str, machine: Machine) -> BTreeMap<String, String> {
    let labels = [
        (labels::HOSTNAME, name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", machine.architecture()),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// What a kubelet reports about its machine.
pub(super) fn node_info(machine: Machine) -> Value {
    json!({
        "architecture": machine.architecture(),
        "bootID": "simulated",
        "containerRuntimeVersion": "simulated://1",
        "kernelVersion": machine.kernel(),
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.4",
        "machineID": "simulated",
        "operatingSystem": "linux",
        "osImage": "simulated",
        "systemUUID": "simulated",
    })
}
