//! Flags of admission, most of them KAI's.

use clap::{Args, ValueEnum};
use kai_settings::admission::{
    AdmissionSettings, FailurePolicy, GuardRules, PodRules, PodScope, QueueRules, ReductionRule,
};
use kai_settings::config::ConfiguredAdmission;
use kai_settings::flags::Flagged;

/// How admission is set up.
#[derive(Args)]
#[command(next_help_heading = "Admission")]
pub(crate) struct AdmissionFlags {
    /// Port of the admission webhooks; setting it also runs admission [default with --only admission: 9443].
    #[arg(long, value_name = "PORT")]
    webhook_addr: Option<u16>,

    /// URL under which the API server calls the webhooks [default: the Service `admission` in --namespace].
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,

    /// Admit pods that request GPU fractions or GPU memory.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    gpu_sharing_enabled: Option<bool>,

    /// Limit the memory of shared GPUs with HAMi-core.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    hami_core_enabled: Option<bool>,

    /// Deny containers that set `NVIDIA_VISIBLE_DEVICES` themselves.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    block_nvidia_visible_devices: Option<bool>,

    /// Runtime class of pods that share GPUs; empty leaves theirs unchanged [default: nvidia].
    #[arg(long, value_name = "NAME")]
    gpu_fraction_runtime_class_name: Option<String>,

    /// Deprecated: use --gpu-fraction-runtime-class-name.
    #[arg(long, value_name = "NAME", hide = true)]
    gpu_pod_runtime_class_name: Option<String>,

    /// Validate queues [default: true].
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_webhook: Option<bool>,

    /// Validate the quotas of queues against their parents and children.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_quota_validation: bool,

    /// What to do when a limit of a queue is lowered below what the queue has allocated, or a quota below what its non-preemptible
    /// pods have: None, Warning (admit with a warning) or Block (deny).
    #[arg(long, default_value = "None", value_name = "MODE")]
    enforce_quota_violation: ReductionRule,

    /// Deny the deletion of queues that have child queues; otherwise it is admitted with a warning.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    deny_parent_queue_deletion: bool,

    /// Validate pod groups [default: true].
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_podgroup_webhook: Option<bool>,

    /// What happens to new objects while the webhook is unavailable: fail denies them, ignore admits them.
    #[arg(long, value_enum, default_value = "fail", value_name = "POLICY")]
    webhook_failure_on_create: Policy,

    /// What happens to changed objects while the webhook is unavailable: fail denies them, ignore admits them.
    #[arg(long, value_enum, default_value = "ignore", value_name = "POLICY")]
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
    /// Settings of admission; none: it does not run here. Flags override `Config`.
    pub(crate) fn settings(
        &self,
        is_requested: bool,
        flagged: &Flagged,
        configured: &ConfiguredAdmission,
    ) -> Option<AdmissionSettings> {
        let usual = AdmissionSettings::default();
        let port =
            self.webhook_addr.or(is_requested.then_some(usual.port)).filter(|port| *port != 0)?;
        let class = self.gpu_fraction_runtime_class_name.as_ref();
        let class = class.or(self.gpu_pod_runtime_class_name.as_ref());
        let class = class.or(configured.runtime_class.as_ref());
        let is = |given: Option<bool>, configured: Option<bool>, usual: bool| {
            given.or(configured).unwrap_or(usual)
        };
        let name = &flagged.settings.rules.scheduler_name;
        let is_unnamed = *name == usual.scheduler_name;
        let name = configured.scheduler_name.as_ref().filter(|_| is_unnamed).unwrap_or(name);
        let grouper = flagged.settings.grouper.as_ref();
        Some(AdmissionSettings {
            port,
            url: self.webhook_url.clone(),
            namespace: flagged.namespace.clone(),
            scheduler_name: name.clone(),
            queue_label_key: flagged.settings.config.params.queue_label_key.to_string(),
            authorize_queues: grouper.is_some_and(|grouper| grouper.authorize_queues),
            pods: PodRules {
                gpu_sharing: is(
                    self.gpu_sharing_enabled,
                    configured.gpu_sharing,
                    usual.pods.gpu_sharing,
                ),
                hami_core: is(self.hami_core_enabled, configured.hami_core, usual.pods.hami_core),
                block_visible_devices: is(
                    self.block_nvidia_visible_devices,
                    configured.block_visible_devices,
                    usual.pods.block_visible_devices,
                ),
                runtime_class: class.map_or(usual.pods.runtime_class, |class| {
                    (!class.is_empty()).then(|| class.clone())
                }),
                guard: GuardRules::OFF, // flags of its own
            },
            scope: PodScope {
                namespaces_with: configured.namespaces_with.clone(),
                namespace_labels: configured.namespace_labels.clone(),
                pod_labels: configured.pod_labels.clone(),
            },
            queues: is(self.enable_webhook, configured.queues, usual.queues),
            queue_rules: QueueRules {
                check_quotas: self.enable_quota_validation,
                deny_parent_deletion: self.deny_parent_queue_deletion,
                reductions: self.enforce_quota_violation,
            },
            pod_groups: is(self.enable_podgroup_webhook, configured.pod_groups, usual.pod_groups),
            on_create: self.webhook_failure_on_create.into(),
            on_update: self.webhook_failure_on_update.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        admission: AdmissionFlags,
    }

    #[test]
    fn without_flags_admission_has_its_default_settings() {
        let Line { admission } = Line::parse_from(["kai"]);
        let settings =
            admission.settings(true, &Flagged::default(), &ConfiguredAdmission::default());
        assert_eq!(settings, Some(AdmissionSettings::default()));
        let settings =
            admission.settings(false, &Flagged::default(), &ConfiguredAdmission::default());
        assert_eq!(settings, None);
    }
}
