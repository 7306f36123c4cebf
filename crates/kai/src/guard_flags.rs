//! Flags of GPU memory limits.

use clap::Args;
use kai_api::enforcement::Enforcement;
use kai_settings::admission::GuardRules;
use kai_settings::binder::BinderSettings;

/// How GPU memory is limited.
#[derive(Args)]
#[command(next_help_heading = "GPU memory limits")]
pub(crate) struct GuardFlags {
    /// What happens to processes of sharing pods that take more GPU memory than requested: off, report or enforce. Namespace
    /// labels and pod annotations kai.scheduler/gpu-memory-enforcement can only be stricter.
    #[arg(long, value_parser = enforcement, default_value = "off", value_name = "MODE")]
    gpu_memory_enforcement: Enforcement,

    /// Write the annotations by which NVIDIA drivers r615 and later limit the memory of sharing pods.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL", action = clap::ArgAction::Set)]
    nv_fractions_enabled: bool,

    /// Image with the library that limits GPU memory [default: --image].
    #[arg(long, value_name = "IMAGE")]
    guard_image: Option<String>,

    /// When the image with the library is pulled: Always, `IfNotPresent` or Never [default: as the API server decides].
    #[arg(long, value_name = "POLICY")]
    guard_pull_policy: Option<String>,

    /// Names of Secrets in the namespaces of sharing pods with which the image is pulled, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    guard_pull_secrets: Vec<String>,
}

fn enforcement(text: &str) -> Result<Enforcement, String> {
    Enforcement::named(text).ok_or_else(|| "must be off, report or enforce".to_owned())
}

impl GuardFlags {
    /// Rules for adding the library to pods; `Config` can only make them stricter.
    pub(crate) fn rules(&self, configured: Enforcement, own_image: Option<&str>) -> GuardRules {
        GuardRules {
            enforcement: self.gpu_memory_enforcement.max(configured),
            image: self.guard_image.as_deref().or(own_image).map(str::to_owned),
            pull_policy: self.guard_pull_policy.clone(),
            pull_secrets: self.guard_pull_secrets.clone(),
        }
    }

    /// Sets enforcement in the settings of the binder.
    pub(crate) fn apply(&self, binder: &mut BinderSettings) {
        binder.enforcement = self.gpu_memory_enforcement;
        binder.nv_fractions = self.nv_fractions_enabled;
    }
}
