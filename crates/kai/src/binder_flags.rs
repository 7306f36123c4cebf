//! Flags of the binder, under KAI's names.

use clap::{Args, ValueEnum};
use kai_api::names::defaults::{IMAGE_PULL_POLICY, RESERVATION_WAIT_SECONDS};
use kai_api::names::objects::{RESERVATION, RESERVATION_IMAGE};
use kai_settings::binder::{
    BinderPlugin, BinderSettings, CdiSetting, PluginSettings, ReservationSettings,
    RuntimeClassSetting, TegraSettings,
};
use kai_settings::planner::Settings;
use kai_translate::time::seconds;
use serde_json::Value;

/// How bind requests are executed.
#[derive(Args)]
#[command(next_help_heading = "Binder")]
pub(crate) struct BinderArguments {
    /// Namespace of reservation pods.
    #[arg(long, default_value = RESERVATION, value_name = "NAME")]
    resource_reservation_namespace: String,

    /// Service account of reservation pods.
    #[arg(long, default_value = RESERVATION, value_name = "NAME")]
    resource_reservation_service_account: String,

    /// Image of reservation pods.
    #[arg(long, default_value = RESERVATION_IMAGE, value_name = "IMAGE")]
    resource_reservation_pod_image: String,

    /// How long to wait for a reservation pod to report its device, in seconds.
    #[arg(long, default_value_t = RESERVATION_WAIT_SECONDS as u32, value_name = "SECONDS")]
    resource_reservation_allocation_timeout: u32,

    /// Resource requirements of reservation pods in addition to the device, as JSON.
    #[arg(long, value_parser = object, value_name = "JSON")]
    resource_reservation_pod_resources: Option<Value>,

    /// Pod security context of reservation pods, as JSON.
    #[arg(long, value_parser = object, value_name = "JSON")]
    resource_reservation_pod_security_context: Option<Value>,

    /// Container security context of reservation pods, as JSON [default: no privileges].
    #[arg(long, value_parser = object, value_name = "JSON")]
    resource_reservation_container_security_context: Option<Value>,

    /// Runtime class of reservation pods if it exists; auto uses nvidia if it exists; empty sets none.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    runtime_class_name: String,

    /// Image pull policy of reservation pods.
    #[arg(long, default_value = IMAGE_PULL_POLICY, value_name = "POLICY", value_parser = ["IfNotPresent", "Always", "Never"])]
    resource_reservation_pull_policy: String,

    /// Settings of reservation pods on Tegra nodes (Jetson, Thor), as JSON: mode (auto, on, off), libraryPaths, devices,
    /// privileged (auto, true, false), nodeSelector.
    #[arg(long, value_parser = tegra, value_name = "JSON")]
    resource_reservation_tegra: Option<TegraSettings>,

    /// Folder with the kubelet's pod-resources socket, usually /var/lib/kubelet/pod-resources: if NVML fails,
    /// reservation pods read their device from the kubelet [default: not mounted].
    #[arg(long, value_name = "FOLDER")]
    resource_reservation_kubelet_pod_resources: Option<String>,

    /// Let reservation pods see the processes of their nodes (hostPID, root, `CAP_SYS_PTRACE`), to measure the
    /// memory that each sharing pod holds and whether its limit is enforced [default: true if the cluster limits GPU memory].
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    resource_reservation_observe_processes: Option<bool>,

    /// Name devices to containers in CDI notation; auto follows the ClusterPolicy of NVIDIA's GPU Operator.
    #[arg(long, value_enum, default_value = "auto")]
    cdi: Cdi,

    /// Same as --cdi=on, or with =false as --cdi=off.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    cdi_enabled: Option<bool>,

    /// Binder plugins by name, as JSON: enabled, priority, arguments. Plugins: volumebinding and dynamicresources
    /// (bindTimeoutSeconds), gpusharing (cdiEnabled) and hamicore.
    #[arg(long, value_parser = plugins, value_name = "JSON")]
    plugins: Option<PluginSettings>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cdi {
    Auto,
    On,
    Off,
}

/// Parses `--plugins`; invalid fields are an error.
fn plugins(text: &str) -> Result<PluginSettings, String> {
    let said = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let settings = PluginSettings::read(&said);
    if settings.problems.is_empty() { Ok(settings) } else { Err(settings.problems.join("; ")) }
}

fn tegra(text: &str) -> Result<TegraSettings, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("must be a JSON object".to_owned()),
        Err(error) => Err(format!("must be a JSON object: {error}")),
    }
}

impl BinderArguments {
    pub(crate) fn settings(&self, around: &Settings) -> BinderSettings {
        let (reservation, usual) = (ReservationSettings::default(), BinderSettings::default());
        let (rules, image) = (&around.rules, &self.resource_reservation_pod_image);
        let settings = self.plugins.clone().unwrap_or_default();
        let security = self.resource_reservation_container_security_context.clone();
        BinderSettings {
            scheduler_name: rules.scheduler_name.clone(),
            gpu_memory_reserve_mib: around.config.params.gpu_memory_reserve_mib,
            plugins: settings.plugins,
            volumes_wait: settings.timeout.unwrap_or(usual.volumes_wait),
            cdi: settings.cdi.unwrap_or(match (self.cdi_enabled, self.cdi) {
                (Some(true), _) | (None, Cdi::On) => CdiSetting::On,
                (Some(false), _) | (None, Cdi::Off) => CdiSetting::Off,
                (None, Cdi::Auto) => CdiSetting::Auto,
            }),
            reservation: ReservationSettings {
                namespace: self.resource_reservation_namespace.clone(),
                service_account: self.resource_reservation_service_account.clone(),
                app_label: rules.reservation_app.clone(),
                image: around.own_image_or(image, RESERVATION_IMAGE),
                runtime_class: match self.runtime_class_name.as_str() {
                    "" => RuntimeClassSetting::None,
                    "auto" => RuntimeClassSetting::Auto(None),
                    name => RuntimeClassSetting::Auto(Some(name.to_owned())),
                },
                pull_policy: self.resource_reservation_pull_policy.clone(),
                tegra: self.resource_reservation_tegra.clone().unwrap_or_default(),
                kubelet_pod_resources: self.resource_reservation_kubelet_pod_resources.clone(),
                observe_processes: self.resource_reservation_observe_processes,
                wait: seconds(self.resource_reservation_allocation_timeout.into()),
                resources: self.resource_reservation_pod_resources.clone(),
                pod_security: self.resource_reservation_pod_security_context.clone(),
                container_security: security.or(reservation.container_security),
            },
            scale_adjust_namespace: around.scale_adjuster.namespace.clone(),
            node_pool_label_key: around.partition.key.clone(),
            signer: usual.signer,
            enforcement: usual.enforcement,
            nv_fractions: usual.nv_fractions,
        }
    }

    /// Namespace of reservation pods.
    pub(crate) fn reservation_namespace(&self) -> &str {
        &self.resource_reservation_namespace
    }

    /// Whether `--plugins` enables HAMi-core; none without the flag.
    pub(crate) fn hami_core(&self) -> Option<bool> {
        self.plugins.as_ref().map(|settings| settings.plugins.has(BinderPlugin::HamiCore))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        binder: BinderArguments,
    }

    #[test]
    fn without_flags_the_binder_has_its_default_settings() {
        let Line { binder } = Line::parse_from(["kai"]);
        let around = kai_settings::flags::Flagged::default().settings;
        assert_eq!(binder.settings(&around), BinderSettings::default());
    }
}
