//! How the binder is set up.

mod plugins;

use std::collections::BTreeMap;

use kai_api::enforcement::Enforcement;
use kai_api::names::{defaults, objects, workload};
use kai_core::time::Span;
use kai_translate::placement::PlacementSigner;
use kai_translate::time::seconds;
use serde::Deserialize;
use serde_json::{Value, json};

pub use plugins::{BinderPlugin, BinderPlugins, PluginSettings};

/// How long a volume or a claim may take.
const VOLUMES_WAIT_SECONDS: i64 = 120;

/// How the binder is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct BinderSettings {
    /// Which parts of a bind are done.
    pub plugins: BinderPlugins,
    /// Only pods with this `spec.schedulerName` are bound.
    pub scheduler_name: String,
    /// How devices are reserved.
    pub reservation: ReservationSettings,
    /// Containers name their devices in the notation of CDI.
    pub cdi: CdiSetting,
    /// How long the volumes of a pod may take to be bound.
    pub volumes_wait: Span,
    /// Namespace of scaling pods.
    pub scale_adjust_namespace: String,
    /// Label with the pool of nodes and pods; empty: there are no pools.
    pub node_pool_label_key: String,
    /// How placements are signed.
    pub signer: PlacementSigner,
    /// How limits of GPU memory are treated at least.
    pub enforcement: Enforcement,
    /// NVIDIA's driver receives limits of memory where it can keep them.
    pub nv_fractions: bool,
    /// MiB of each device that are never given out, where its node says nothing else.
    pub gpu_memory_reserve_mib: i64,
}

impl BinderSettings {
    /// Reservation pods see the processes of their nodes. Without a setting they do where the cluster limits GPU memory: an
    /// administrator who turns limits on is to know where they hold.
    pub fn observes_processes(&self) -> bool {
        let limits = self.enforcement != Enforcement::Off;
        self.reservation.observe_processes.unwrap_or(limits)
    }
}

/// How devices are reserved.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservationSettings {
    /// Namespace of reservation pods.
    pub namespace: String,
    pub service_account: String,
    /// Value of their `app` label.
    pub app_label: String,
    pub image: String,
    pub runtime_class: RuntimeClassSetting,
    /// When their image is pulled.
    pub pull_policy: String,
    /// What they are given on Jetsons and their like.
    pub tegra: TegraSettings,
    /// The folder of nodes with the kubelet's socket, for nodes on which NVML cannot be used; none: it is not asked.
    pub kubelet_pod_resources: Option<String>,
    /// They see the processes of their nodes: which pods use a device, and whether the library limits them. None: where
    /// the cluster limits GPU memory.
    pub observe_processes: Option<bool>,
    /// How long one may take to name its device.
    pub wait: Span,
    /// Resources beside the device, a `ResourceRequirements`.
    pub resources: Option<Value>,
    /// Security context of the pod.
    pub pod_security: Option<Value>,
    /// Security context of the container.
    pub container_security: Option<Value>,
}

/// Whether containers name their devices in the notation of CDI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CdiSetting {
    /// As NVIDIA's operator is set up, if it is there.
    #[default]
    Auto,
    On,
    Off,
}

/// The runtime class of reservation pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeClassSetting {
    /// This one if it exists, else the usual one if that does, else none.
    Auto(Option<String>),
    /// The node's default.
    None,
}

/// What reservation pods are given on Jetsons and their like. The default is the set that was found to work.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TegraSettings {
    /// Which nodes are such.
    pub mode: TegraMode,
    /// Folders of NVIDIA's libraries.
    pub library_paths: Vec<String>,
    /// Device files; none: all of `/dev`.
    pub devices: Vec<String>,
    /// Whether they may open devices that the node did not grant.
    pub privileged: Privilege,
    /// Only nodes with these labels.
    pub node_selector: BTreeMap<String, String>,
}

/// Which nodes are Jetsons or their like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TegraMode {
    /// Those that say so.
    #[default]
    Auto,
    On,
    Off,
}

/// Whether reservation pods may open devices that the node did not grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Privilege {
    /// Where they need it.
    #[default]
    Auto,
    #[serde(rename = "true")]
    Yes,
    #[serde(rename = "false")]
    No,
}

impl Default for TegraSettings {
    fn default() -> Self {
        Self {
            mode: TegraMode::Auto,
            library_paths: vec!["/usr/lib/aarch64-linux-gnu/nvidia".to_owned()],
            devices: Vec::new(),
            privileged: Privilege::Auto,
            node_selector: BTreeMap::new(),
        }
    }
}

impl Default for BinderSettings {
    fn default() -> Self {
        Self {
            plugins: BinderPlugins::default(),
            scheduler_name: objects::SCHEDULER_NAME.to_owned(),
            reservation: ReservationSettings::default(),
            cdi: CdiSetting::Auto,
            volumes_wait: seconds(VOLUMES_WAIT_SECONDS),
            scale_adjust_namespace: objects::SCALE_ADJUST.to_owned(),
            node_pool_label_key: workload::NODE_POOL.to_owned(),
            signer: PlacementSigner::default(),
            enforcement: Enforcement::Off,
            nv_fractions: false,
            gpu_memory_reserve_mib: 0,
        }
    }
}

impl Default for ReservationSettings {
    fn default() -> Self {
        Self {
            namespace: objects::RESERVATION.to_owned(),
            service_account: objects::RESERVATION.to_owned(),
            app_label: objects::RESERVATION.to_owned(),
            image: objects::RESERVATION_IMAGE.to_owned(),
            runtime_class: RuntimeClassSetting::Auto(None),
            pull_policy: defaults::IMAGE_PULL_POLICY.to_owned(),
            tegra: TegraSettings::default(),
            kubelet_pod_resources: None,
            observe_processes: None,
            wait: seconds(defaults::RESERVATION_WAIT_SECONDS),
            resources: None,
            pod_security: None,
            container_security: Some(json!({
                "allowPrivilegeEscalation": false,
                "runAsNonRoot": true,
                "runAsUser": 10_000,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            })),
        }
    }
}
