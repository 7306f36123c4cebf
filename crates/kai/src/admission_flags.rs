//! Flags of admission, most of them KAI's.

use clap::{Args, ValueEnum};
use kai_cluster::admission::{AdmissionSettings, FailurePolicy, PodRules};

/// KAI's port for webhooks.
const USUAL_PORT: u16 = 9443;

/// How admission is set up.
#[derive(Args)]
#[command(next_help_heading = "Flags of admission")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct AdmissionFlags {
    /// Port for webhooks; with one, admission runs beside the other functions. [with --only admission: 9443]
    #[arg(long, value_name = "PORT")]
    webhook_addr: Option<u16>,

    /// Where the API server finds us, such as <https://10.0.0.1:9443>; by default the Service `admission` of our namespace.
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,

    /// Pods may share GPUs.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    gpu_sharing_enabled: bool,

    /// The memory of shared GPUs is limited by `HAMi`'s library.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    hami_core_enabled: bool,

    /// Containers may not reach for GPUs by themselves.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    block_nvidia_visible_devices: bool,

    /// Runtime class of pods that share GPUs; empty: as they say. [default: nvidia]
    #[arg(long, value_name = "NAME")]
    gpu_fraction_runtime_class_name: Option<String>,

    /// Older name of the same.
    #[arg(long, value_name = "NAME", hide = true)]
    gpu_pod_runtime_class_name: Option<String>,

    /// Check queues.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    enable_webhook: bool,

    /// Quotas of queues are checked against those of queues above and below.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_quota_validation: bool,

    /// Check pod groups.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    enable_podgroup_webhook: bool,

    /// What becomes of new objects when nobody answers.
    #[arg(long, value_enum, default_value = "fail")]
    webhook_failure_on_create: Policy,

    /// What becomes of changed objects when nobody answers.
    #[arg(long, value_enum, default_value = "ignore")]
    webhook_failure_on_update: Policy,
}

#[derive(Clone, Copy, ValueEnum)]
enum Policy {
    Fail,
    Ignore,
}

impl From<Policy> for FailurePolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Fail => Self::Fail,
            Policy::Ignore => Self::Ignore,
        }
    }
}

impl AdmissionFlags {
    /// How admission is set up; none: it does not run here.
    pub(crate) fn settings(
        &self,
        asked_for: bool,
        namespace: &str,
        scheduler_name: &str,
    ) -> Option<AdmissionSettings> {
        let port =
            self.webhook_addr.or(asked_for.then_some(USUAL_PORT)).filter(|port| *port != 0)?;
        let class = self.gpu_fraction_runtime_class_name.as_ref();
        let class = class.or(self.gpu_pod_runtime_class_name.as_ref());
        Some(AdmissionSettings {
            port,
            url: self.webhook_url.clone(),
            namespace: namespace.to_owned(),
            scheduler_name: scheduler_name.to_owned(),
            pods: PodRules {
                gpu_sharing: self.gpu_sharing_enabled,
                hami_core: self.hami_core_enabled,
                block_visible_devices: self.block_nvidia_visible_devices,
                runtime_class: class.map_or(PodRules::default().runtime_class, |class| {
                    (!class.is_empty()).then(|| class.clone())
                }),
            },
            queues: self.enable_webhook,
            quotas: self.enable_quota_validation,
            pod_groups: self.enable_podgroup_webhook,
            on_create: self.webhook_failure_on_create.into(),
            on_update: self.webhook_failure_on_update.into(),
        })
    }
}
