//! How admission is set up.

use std::collections::BTreeMap;
use std::str::FromStr;

use kai_api::enforcement::Enforcement;
use kai_api::names::{defaults, objects, workload};

use crate::planner::Settings;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRules {
    /// Pods may share devices.
    pub gpu_sharing: bool,
    /// The memory of shared devices is limited by `HAMi`'s library.
    pub hami_core: bool,
    /// Containers may not reach for devices by themselves.
    pub block_visible_devices: bool,
    /// Runtime class of pods that share devices, if it exists; none: as they say.
    pub runtime_class: Option<String>,
    /// How the library that limits GPU memory comes into pods.
    pub guard: GuardRules,
}

/// How the library that limits GPU memory comes into pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardRules {
    /// What holds for every pod at least.
    pub enforcement: Enforcement,
    /// Image with the library; none: it is not known, so no pod gets the library.
    pub image: Option<String>,
    /// When the image is pulled; none: as the API server decides.
    pub pull_policy: Option<String>,
    /// Secrets of the pod's namespace with which the image is pulled.
    pub pull_secrets: Vec<String>,
}

impl GuardRules {
    /// No pod gets the library.
    pub const OFF: Self = Self {
        enforcement: Enforcement::Off,
        image: None,
        pull_policy: None,
        pull_secrets: Vec::new(),
    };
}

impl Default for PodRules {
    fn default() -> Self {
        Self {
            gpu_sharing: false,
            hami_core: false,
            block_visible_devices: false,
            runtime_class: Some("nvidia".to_owned()),
            guard: GuardRules::OFF,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRules {
    /// Quotas are compared with those of the parent queue and the child queues.
    pub check_quotas: bool,
    /// A queue that has child queues cannot be deleted.
    pub deny_parent_deletion: bool,
    /// Limits and quotas that are lowered below what the queue has.
    pub reductions: ReductionRule,
}

/// What happens when a limit is lowered below what the queue has allocated, or a quota below what its pods have that cannot be
/// preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReductionRule {
    /// The change is admitted.
    #[default]
    None,
    /// The change is admitted with a warning.
    Warning,
    /// The change is denied.
    Block,
}

impl FromStr for ReductionRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_lowercase().as_str() {
            "" | "none" => Ok(Self::None),
            "warning" => Ok(Self::Warning),
            "block" => Ok(Self::Block),
            _ => Err(format!("{text:?} is none of None, Warning and Block")),
        }
    }
}

/// Which pods are looked at, of those that are ours; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodScope {
    /// Namespaces must have this label.
    pub namespaces_with: Option<String>,
    /// Namespaces must have these labels.
    pub namespace_labels: BTreeMap<String, String>,
    /// Pods must have these labels.
    pub pod_labels: BTreeMap<String, String>,
}

/// How admission is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Port the API server calls.
    pub port: u16,
    /// Address the API server calls; none: the Service of our namespace.
    pub url: Option<String>,
    pub namespace: String,
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler_name: String,
    /// Key of the label that names the queue of a pod.
    pub queue_label_key: String,
    /// Service accounts need the verb `use` on queues and priority classes.
    pub authorize_queues: bool,
    pub pods: PodRules,
    /// Which pods are looked at, of those that are ours.
    pub scope: PodScope,
    /// Whether the webhook checks queues.
    pub queues: bool,
    pub queue_rules: QueueRules,
    /// Pod groups are checked.
    pub pod_groups: bool,
    /// What the API server does with new objects when the webhook does not answer.
    pub on_create: FailurePolicy,
    /// The same with objects that are changed.
    pub on_update: FailurePolicy,
}

/// As after an install: KAI's port, names and checks.
impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            port: defaults::WEBHOOK_PORT,
            url: None,
            namespace: objects::NAMESPACE.to_owned(),
            scheduler_name: Settings::default().rules.scheduler_name,
            queue_label_key: workload::QUEUE.to_owned(),
            authorize_queues: false,
            pods: PodRules::default(),
            scope: PodScope::default(),
            queues: true,
            queue_rules: QueueRules::default(),
            pod_groups: true,
            on_create: FailurePolicy::Fail,
            on_update: FailurePolicy::Ignore,
        }
    }
}

/// What the API server does when the webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The write is refused.
    Fail,
    /// The write goes through.
    Ignore,
}

impl FailurePolicy {
    /// As it stands in a registration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}
