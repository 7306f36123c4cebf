//! What `Config` says, in our words. Where the command line says something else than the usual, that counts. Pure.

use std::collections::BTreeMap;

use kai_api::config::{
    Admission, Binder, ConfigSpec, Global, Image, NodeScaleAdjuster, PodGrouper, QueueController,
    ResourceReservation, Webhooks,
};
use kai_api::enforcement::Enforcement;
use kai_api::function::Function;
use kai_api::names::objects::{RESERVATION_IMAGE, SCALING_POD_IMAGE};
use kai_core::input::ObjectName;
use kai_translate::time::seconds;
use kai_workloads::config::parse_selector;
use serde::Serialize;
use serde_json::{Value, json};

use crate::binder::{
    BinderSettings, CdiSetting, PluginSettings, ReservationSettings, RuntimeClassSetting,
};
use crate::flags::Flagged;
use crate::metrics::QueueLabel;
use crate::planner::Settings;
use crate::scale_adjuster::ScaleAdjusterSettings;
use crate::sharing_mode;

/// What `Config` says about the parts of the process that are no planners. What is none is as the command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredProcess {
    pub json_log: Option<bool>,
    pub admission: ConfiguredAdmission,
}

/// What `Config` says about admission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredAdmission {
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler_name: Option<String>,
    /// Pods may share devices.
    pub gpu_sharing: Option<bool>,
    /// The memory of shared devices is limited by `HAMi`'s library.
    pub hami_core: Option<bool>,
    /// How limits of GPU memory are treated at least.
    pub enforcement: Enforcement,
    /// Containers may not reach for devices by themselves.
    pub block_visible_devices: Option<bool>,
    /// Runtime class of pods that share devices; empty: as they say.
    pub runtime_class: Option<String>,
    /// Only namespaces with this label are looked at.
    pub namespaces_with: Option<String>,
    /// Only namespaces with these labels are looked at.
    pub namespace_labels: BTreeMap<String, String>,
    /// Only pods with these labels are looked at.
    pub pod_labels: BTreeMap<String, String>,
    /// Whether the webhook checks queues.
    pub queues: Option<bool>,
    /// Pod groups are checked.
    pub pod_groups: Option<bool>,
}

/// What comes of a `Config`.
#[derive(Clone, Debug)]
pub struct Configured {
    /// How every planner is set up.
    pub settings: Settings,
    /// For the rest of the process.
    pub process: ConfiguredProcess,
    /// The config map with defaults per kind.
    pub kind_defaults: Option<ObjectName>,
    /// What makes no sense.
    pub problems: Vec<String>,
}

/// Takes a `Config` over.
pub fn configure(spec: &ConfigSpec, base: &Settings) -> Configured {
    let mut configured = Configured {
        settings: base.clone(),
        process: ConfiguredProcess::default(),
        kind_defaults: None,
        problems: Vec::new(),
    };
    let usual = Flagged::default().settings;
    let global = spec.global.clone().unwrap_or_default();
    configured.global(&global, &usual);
    configured.grouper(spec.pod_grouper.clone().unwrap_or_default());
    configured.queues(spec.queue_controller.clone().unwrap_or_default(), &usual);
    configured.binder(spec.binder.clone().unwrap_or_default());
    configured.admission(spec.admission.clone().unwrap_or_default(), &global);
    let groups = spec.pod_group_controller.as_ref().and_then(|groups| groups.webhooks.as_ref());
    configured.process.admission.pod_groups = configured.webhooks("podGroupController", groups);
    let queues = spec.queue_controller.as_ref().and_then(|queues| queues.webhooks.as_ref());
    configured.process.admission.queues = configured.webhooks("queueController", queues);
    configured.scale_adjuster(spec.node_scale_adjuster.clone().unwrap_or_default());
    configured.functions(spec);
    sharing_mode::apply(&mut configured, &global);
    configured
}

/// Takes a value over where the command line left the usual one.
fn take<T: PartialEq>(to: &mut T, usual: &T, wanted: Option<T>) {
    if let Some(wanted) = wanted.filter(|_| *to == *usual) {
        *to = wanted;
    }
}

impl Configured {
    fn global(&mut self, global: &Global, usual: &Settings) {
        let settings = &mut self.settings;
        take(
            &mut settings.rules.scheduler_name,
            &usual.rules.scheduler_name,
            global.scheduler_name.clone(),
        );
        take(&mut settings.partition.key, &usual.partition.key, global.node_pool_label_key.clone());
        let queue_key = global.queue_label_key.as_deref().map(Into::into);
        let params = &mut settings.config.params;
        take(&mut params.queue_label_key, &usual.config.params.queue_label_key, queue_key);
        match global.gpu_memory_reserve_mib {
            Some(mib) if mib < 0 => self.problems.push(format!(
                "spec.global.gpuMemoryReserveMib: {mib} is below 0: set a whole number of MiB, 0 or more"
            )),
            mib => take(&mut params.gpu_memory_reserve_mib, &0, mib),
        }
        settings.scale_adjuster.scheduler_name.clone_from(&settings.rules.scheduler_name);
        settings.scale_adjuster.node_pool_label_key.clone_from(&settings.partition.key);
        if let Some(binder) = &mut settings.binder {
            binder.scheduler_name.clone_from(&settings.rules.scheduler_name);
            binder.node_pool_label_key.clone_from(&settings.partition.key);
            binder.gpu_memory_reserve_mib = settings.config.params.gpu_memory_reserve_mib;
        }
        if let Some(grouper) = &mut settings.grouper {
            grouper.scheduler_name.clone_from(&settings.rules.scheduler_name);
            grouper.node_pool_label_key.clone_from(&settings.partition.key);
            grouper.queue_label_key = settings.config.params.queue_label_key.to_string();
            let labels = global.pod_label_selector.clone();
            take(&mut grouper.pod_selector, &BTreeMap::new(), labels);
            let labels = global.namespace_label_selector.clone();
            take(&mut grouper.namespace_selector, &BTreeMap::new(), labels);
        }
        self.process.json_log = global.json_log;
    }

    fn grouper(&mut self, wanted: PodGrouper) {
        let args = wanted.args.unwrap_or_default();
        if let Some(grouper) = &mut self.settings.grouper {
            take(&mut grouper.knative_gang, &true, args.gang_schedule_knative);
            take(&mut grouper.karta, &true, args.generic_karta_fallback);
        }
        let (name, namespace) = (
            args.default_priorities_config_map_name.filter(|name| !name.is_empty()),
            args.default_priorities_config_map_namespace.filter(|name| !name.is_empty()),
        );
        match (name, namespace) {
            (Some(name), Some(namespace)) => {
                self.kind_defaults = Some(ObjectName::new(namespace.as_str(), name.as_str()));
            }
            (None, None) => {}
            _ => self.problems.push(
                "spec.podGrouper.args: defaultPrioritiesConfigMapName and defaultPrioritiesConfigMapNamespace go together"
                    .to_owned(),
            ),
        }
    }

    fn queues(&mut self, wanted: QueueController, usual: &Settings) {
        let metrics = &mut self.settings.metrics;
        take(&mut metrics.namespace, &usual.metrics.namespace, wanted.metrics_namespace);
        let labels = wanted.queue_label_to_metric_label.unwrap_or_default();
        let defaults = wanted.queue_label_to_default_metric_value.unwrap_or_default();
        let (labels, bad) = parse_selector(&labels);
        let (defaults, worse) = parse_selector(&defaults);
        for part in bad.into_iter().chain(worse) {
            self.problems.push(format!("spec.queueController: {part:?} is no label=value"));
        }
        let mapped = labels.into_iter().map(|(key, label)| {
            let default = defaults.get(&key).cloned().unwrap_or_default();
            QueueLabel { key, label, default }
        });
        take(&mut metrics.queue_labels, &Vec::new(), Some(mapped.collect()));
    }

    fn binder(&mut self, wanted: Binder) {
        let said = wanted.plugins.unwrap_or_default();
        let plugins = PluginSettings::read(&said);
        let named = plugins.problems.iter().map(|problem| format!("spec.binder.plugins.{problem}"));
        self.problems.extend(named);
        self.process.admission.hami_core = said.get("hamicore").and_then(|plugin| plugin.enabled);
        let timeout = plugins.timeout.or(wanted.volume_binding_timeout_seconds.map(seconds));
        let cdi = wanted.cdi_enabled.map(|on| if on { CdiSetting::On } else { CdiSetting::Off });
        let usual = BinderSettings::default();
        if let Some(binder) = &mut self.settings.binder {
            take(&mut binder.plugins, &usual.plugins, Some(plugins.plugins));
            take(&mut binder.volumes_wait, &usual.volumes_wait, timeout);
            take(&mut binder.cdi, &usual.cdi, plugins.cdi.or(cdi));
        }
        self.reservation(wanted.resource_reservation.unwrap_or_default(), &usual.reservation);
    }

    fn reservation(&mut self, wanted: ResourceReservation, usual: &ReservationSettings) {
        let rules = &mut self.settings.rules;
        take(&mut rules.reservation_app, &usual.app_label, wanted.app_label);
        let app = rules.reservation_app.clone();
        let own = self.settings.own_image.as_ref().unwrap_or(&usual.image).clone();
        let Some(binder) = &mut self.settings.binder else { return };
        let to = &mut binder.reservation;
        to.app_label = app;
        take(&mut to.namespace, &usual.namespace, wanted.namespace);
        rules.trust_reservations_in(&to.namespace);
        take(&mut to.service_account, &usual.service_account, wanted.service_account_name);
        let wanted_image = wanted.image.as_ref().map(|parts| image(parts, RESERVATION_IMAGE));
        take(&mut to.image, &own, wanted_image);
        let class = wanted.runtime_class_name.filter(|class| !class.is_empty());
        let class = class.map(|class| RuntimeClassSetting::Auto(Some(class)));
        take(&mut to.runtime_class, &usual.runtime_class, class);
        let pulled = wanted.image.as_ref().and_then(|image| image.pull_policy.clone());
        take(&mut to.pull_policy, &usual.pull_policy, pulled);
        take(&mut to.wait, &usual.wait, wanted.allocation_timeout.map(seconds));
        take(&mut to.resources, &usual.resources, Some(value(wanted.pod_resources.as_ref())));
        let pod = value(wanted.reservation_pod_security_context.as_ref());
        take(&mut to.pod_security, &usual.pod_security, Some(pod));
        if let container @ Some(_) = value(wanted.reservation_container_security_context.as_ref()) {
            take(&mut to.container_security, &usual.container_security, Some(container));
        }
        let kubelet = wanted.kubelet_pod_resources.filter(|folder| !folder.is_empty());
        take(&mut to.kubelet_pod_resources, &usual.kubelet_pod_resources, Some(kubelet));
        let observe = wanted.observe_processes.map(Some);
        take(&mut to.observe_processes, &usual.observe_processes, observe);
        match wanted.tegra.map(|tegra| serde_json::from_value(json!(tegra))).transpose() {
            Ok(tegra) => take(&mut to.tegra, &usual.tegra, tegra),
            Err(error) => {
                self.problems.push(format!("spec.binder.resourceReservation.tegra: {error}"));
            }
        }
    }

    fn scale_adjuster(&mut self, wanted: NodeScaleAdjuster) {
        let args = wanted.args.unwrap_or_default();
        let usual = ScaleAdjusterSettings::default();
        let own = self.settings.own_image.as_ref().unwrap_or(&usual.image).clone();
        if let Some(binder) = &mut self.settings.binder {
            let namespace = args.node_scale_namespace.clone();
            take(&mut binder.scale_adjust_namespace, &usual.namespace, namespace);
        }
        let to = &mut self.settings.scale_adjuster;
        take(&mut to.namespace, &usual.namespace, args.node_scale_namespace);
        take(&mut to.service_account, &usual.service_account, args.node_scale_service_account);
        let parts = args.scaling_pod_image;
        let wanted_image = parts.as_ref().map(|parts| image(parts, SCALING_POD_IMAGE));
        take(&mut to.image, &own, wanted_image);
        let pulled = parts.and_then(|parts| parts.pull_policy);
        take(&mut to.pull_policy, &usual.pull_policy, pulled);
        take(&mut to.grace, &usual.grace, args.unschedulable_grace_period.map(seconds));
        match args.gpu_memory_to_fraction_ratio {
            Some(ratio) if !(ratio > 0.0 && ratio <= 1.0) => self.problems.push(format!(
                "spec.nodeScaleAdjuster.args.gpuMemoryToFractionRatio: must be above 0 and at most 1, is {ratio}"
            )),
            ratio => take(&mut to.memory_ratio, &usual.memory_ratio, ratio),
        }
        // A process that runs a single function does not gain another.
        let does_all = Function::USUAL.iter().all(|one| self.settings.functions.contains(one));
        let function = Function::NodeScaleAdjuster;
        match wanted.service.and_then(|service| service.enabled) {
            Some(true) if does_all => {
                self.settings.functions.insert(function);
            }
            Some(false) if self.settings.functions.contains(&function) => self.problems.push(
                "spec.nodeScaleAdjuster.service.enabled: the command line asks for it".to_owned(),
            ),
            Some(_) | None => {}
        }
    }

    fn admission(&mut self, wanted: Admission, global: &Global) {
        let Admission { gpu_fraction_runtime_class_name, gpu_pod_runtime_class_name, .. } = wanted;
        for (field, name) in [
            ("validatingWebhookConfigurationName", wanted.validating_webhook_configuration_name),
            ("mutatingWebhookConfigurationName", wanted.mutating_webhook_configuration_name),
        ] {
            if name.is_some() {
                self.problems.push(format!("spec.admission.{field}: the name is fixed"));
            }
        }
        let to = &mut self.process.admission;
        to.scheduler_name.clone_from(&global.scheduler_name);
        to.gpu_sharing = wanted.gpu_sharing;
        to.block_visible_devices = wanted.block_nvidia_visible_devices;
        to.runtime_class = gpu_fraction_runtime_class_name.or(gpu_pod_runtime_class_name);
        let key = &self.settings.config.params.queue_label_key;
        let only = wanted.queue_label_selector.unwrap_or(false);
        to.namespaces_with = only.then(|| key.to_string());
        to.namespace_labels = global.namespace_label_selector.clone().unwrap_or_default();
        to.pod_labels = global.pod_label_selector.clone().unwrap_or_default();
    }

    /// Whether objects are checked.
    fn webhooks(&mut self, component: &str, wanted: Option<&Webhooks>) -> Option<bool> {
        let wanted = wanted?;
        if wanted.webhook_configuration_name_prefix.is_some() {
            self.problems.push(format!(
                "spec.{component}.webhooks.webhookConfigurationNamePrefix: the name is fixed"
            ));
        }
        wanted.enable_validation
    }

    /// Components that are turned off.
    fn functions(&mut self, spec: &ConfigSpec) {
        let off = [
            ("podGrouper", spec.pod_grouper.as_ref().and_then(|one| one.service.as_ref())),
            ("binder", spec.binder.as_ref().and_then(|one| one.service.as_ref())),
            ("admission", spec.admission.as_ref().and_then(|one| one.service.as_ref())),
            ("scheduler", spec.scheduler.as_ref().and_then(|one| one.service.as_ref())),
            (
                "queueController",
                spec.queue_controller.as_ref().and_then(|one| one.service.as_ref()),
            ),
            (
                "podGroupController",
                spec.pod_group_controller.as_ref().and_then(|one| one.service.as_ref()),
            ),
        ];
        for (component, service) in off {
            if service.is_some_and(|service| service.enabled == Some(false)) {
                self.problems.push(format!(
                    "spec.{component}.service.enabled: which functions run is said with --only"
                ));
            }
        }
    }
}

fn value(of: Option<&impl Serialize>) -> Option<Value> {
    of.and_then(|of| serde_json::to_value(of).ok())
}

/// `repository/name:tag`; parts that are left out are the usual ones.
fn image(wanted: &Image, usual: &str) -> String {
    let (repository, name) = usual.rsplit_once('/').unwrap_or_default();
    let repository = wanted.repository.as_deref().unwrap_or(repository);
    let name = wanted.name.as_deref().unwrap_or(name);
    match &wanted.tag {
        Some(tag) => format!("{repository}/{name}:{tag}"),
        None => format!("{repository}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binder::{BinderPlugin, TegraMode, TegraSettings};

    fn configured(spec: Value) -> Configured {
        let spec: ConfigSpec = serde_json::from_value(spec).expect("a Config");
        configure(&spec, &Flagged::default().settings)
    }

    #[test]
    fn an_empty_config_changes_nothing() {
        let configured = configured(json!({}));
        assert_eq!(configured.settings, Flagged::default().settings);
        assert_eq!(configured.process, ConfiguredProcess::default());
        assert_eq!((configured.kind_defaults, configured.problems), (None, Vec::new()));
    }

    #[test]
    fn everything_that_is_honoured_arrives() {
        let configured = configured(json!({
            "global": {"schedulerName": "s", "queueLabelKey": "q", "nodePoolLabelKey": "n", "jsonLog": true, "gpuMemoryReserveMib": 450,
                "podLabelSelector": {"a": "b"}, "namespaceLabelSelector": {"c": "d"}},
            "podGrouper": {"args": {"gangScheduleKnative": false, "genericKartaFallback": false,
                "defaultPrioritiesConfigMapName": "map", "defaultPrioritiesConfigMapNamespace": "space"}},
            "queueController": {"metricsNamespace": "m", "queueLabelToMetricLabel": "team=crew",
                "queueLabelToDefaultMetricValue": "team=none", "webhooks": {"enableValidation": false}},
            "binder": {"volumeBindingTimeoutSeconds": 7, "cdiEnabled": true, "plugins": {"hamicore": {"enabled": true}},
                "resourceReservation": {"image": {"repository": "here", "tag": "1"}, "allocationTimeout": 9,
                    "namespace": "r", "appLabel": "app", "podResources": {"requests": {"cpu": "1"}}, "kubeletPodResources": "/k", "observeProcesses": true,
                    "tegra": {"mode": "on", "devices": ["/dev/nvmap"], "nodeSelector": {"edge": "yes"}}}},
            "admission": {"gpuSharing": true, "gpuPodRuntimeClassName": "old", "queueLabelSelector": true},
            "nodeScaleAdjuster": {"service": {"enabled": true}, "args": {
                "scalingPodImage": {"repository": "here", "pullPolicy": "Always"}, "nodeScaleNamespace": "scale",
                "nodeScaleServiceAccount": "account", "gpuMemoryToFractionRatio": 0.5, "unschedulableGracePeriod": 30}},
        }));
        assert_eq!(configured.problems, Vec::<String>::new());
        assert!(configured.settings.functions.contains(&Function::NodeScaleAdjuster));
        assert_eq!(
            configured.settings.scale_adjuster,
            ScaleAdjusterSettings {
                scheduler_name: "s".to_owned(),
                node_pool_label_key: "n".to_owned(),
                namespace: "scale".to_owned(),
                service_account: "account".to_owned(),
                image: "here/scalingpod".to_owned(),
                pull_policy: "Always".to_owned(),
                memory_ratio: 0.5,
                grace: seconds(30),
                ..ScaleAdjusterSettings::default()
            }
        );
        let Settings { rules, partition, metrics, grouper, binder, config, .. } =
            configured.settings;
        assert_eq!((rules.scheduler_name.as_str(), partition.key.as_str()), ("s", "n"));
        let label = QueueLabel { key: "team".into(), label: "crew".into(), default: "none".into() };
        assert_eq!((metrics.namespace.as_str(), metrics.queue_labels), ("m", vec![label]));
        let grouper = grouper.expect("a grouper");
        assert_eq!((grouper.queue_label_key.as_str(), grouper.knative_gang), ("q", false));
        assert_eq!(
            (grouper.pod_selector["a"].as_str(), grouper.namespace_selector["c"].as_str()),
            ("b", "d")
        );
        let binder = binder.expect("a binder");
        assert_eq!((binder.volumes_wait, binder.cdi), (seconds(7), CdiSetting::On));
        assert_eq!(binder.scale_adjust_namespace, "scale");
        assert!(binder.plugins.has(BinderPlugin::HamiCore));
        assert_eq!(binder.reservation.image, "here/resource-reservation:1");
        assert_eq!(binder.reservation.resources, Some(json!({"requests": {"cpu": "1"}})));
        assert_eq!(
            (binder.reservation.app_label.as_str(), rules.reservation_app.as_str()),
            ("app", "app")
        );
        let tegra = TegraSettings {
            mode: TegraMode::On,
            devices: vec!["/dev/nvmap".to_owned()],
            node_selector: [("edge".to_owned(), "yes".to_owned())].into(),
            ..TegraSettings::default()
        };
        assert_eq!(binder.reservation.tegra, tegra);
        assert_eq!(binder.reservation.kubelet_pod_resources.as_deref(), Some("/k"));
        assert_eq!(binder.reservation.observe_processes, Some(true));
        assert_eq!(
            (config.params.gpu_memory_reserve_mib, binder.gpu_memory_reserve_mib),
            (450, 450)
        );
        assert_eq!(configured.kind_defaults, Some(ObjectName::new("space", "map")));
        let ConfiguredProcess { json_log, admission } = configured.process;
        assert_eq!(
            (json_log, admission.gpu_sharing, admission.queues),
            (Some(true), Some(true), Some(false))
        );
        assert_eq!(
            (admission.runtime_class.as_deref(), admission.hami_core),
            (Some("old"), Some(true))
        );
        assert_eq!(admission.namespaces_with.as_deref(), Some("q"));
    }

    #[test]
    fn what_is_refused_is_named_and_the_rest_counts() {
        let configured = configured(json!({
            "global": {"schedulerName": "s", "gpuMemoryReserveMib": -1},
            "podGrouper": {"args": {"defaultPrioritiesConfigMapName": "map"}, "service": {"enabled": false}},
            "queueController": {"queueLabelToMetricLabel": "team", "webhooks": {"webhookConfigurationNamePrefix": "x"}},
            "binder": {"plugins": {"magic": {}, "gpusharing": {"enabled": false, "arguments": {"typo": "1"}}}},
            "admission": {"validatingWebhookConfigurationName": "x"},
            "nodeScaleAdjuster": {"args": {"gpuMemoryToFractionRatio": 2.0}},
        }));
        assert_eq!(configured.settings.rules.scheduler_name, "s");
        assert_eq!(
            configured.problems,
            [
                "spec.global.gpuMemoryReserveMib: -1 is below 0: set a whole number of MiB, 0 or more",
                "spec.podGrouper.args: defaultPrioritiesConfigMapName and defaultPrioritiesConfigMapNamespace go together",
                "spec.queueController: \"team\" is no label=value",
                "spec.binder.plugins.gpusharing: there is no argument typo",
                "spec.binder.plugins.magic: there is no such plugin",
                "spec.admission.validatingWebhookConfigurationName: the name is fixed",
                "spec.queueController.webhooks.webhookConfigurationNamePrefix: the name is fixed",
                "spec.nodeScaleAdjuster.args.gpuMemoryToFractionRatio: must be above 0 and at most 1, is 2",
                "spec.podGrouper.service.enabled: which functions run is said with --only",
            ]
        );
    }

    #[test]
    fn nodes_are_asked_for_where_settings_say_so() {
        let asks = |functions: &[Function], enabled: bool| {
            let spec = json!({"nodeScaleAdjuster": {"service": {"enabled": enabled}}});
            let spec: ConfigSpec = serde_json::from_value(spec).expect("a Config");
            let functions = functions.iter().copied().collect();
            let configured =
                configure(&spec, &Settings { functions, ..Flagged::default().settings });
            (
                configured.settings.functions.contains(&Function::NodeScaleAdjuster),
                configured.problems.len(),
            )
        };
        assert_eq!(asks(&Function::USUAL, true), (true, 0));
        assert_eq!(asks(&Function::USUAL, false), (false, 0));
        assert_eq!(asks(&[Function::Scheduler], true), (false, 0), "another process does it");
        assert_eq!(asks(&Function::FOLLOWING, false), (true, 1), "the command line counts more");
    }

    #[test]
    fn our_own_image_is_what_config_replaces() {
        let mut base = Flagged::default().settings;
        base.own_image = Some("kai:1".to_owned());
        base.scale_adjuster.image = "kai:1".to_owned();
        base.binder.iter_mut().for_each(|binder| binder.reservation.image = "kai:1".to_owned());
        let images = |spec: Value| {
            let spec: ConfigSpec = serde_json::from_value(spec).expect("a Config");
            let Settings { binder, scale_adjuster, .. } = configure(&spec, &base).settings;
            (binder.expect("a binder").reservation.image, scale_adjuster.image)
        };
        assert_eq!(images(json!({})), ("kai:1".to_owned(), "kai:1".to_owned()));
        let named = json!({"repository": "r", "name": "n", "tag": "t"});
        let spec = json!({"binder": {"resourceReservation": {"image": named}}, "nodeScaleAdjuster": {"args": {"scalingPodImage": named}}});
        assert_eq!(images(spec), ("r/n:t".to_owned(), "r/n:t".to_owned()));
    }

    #[test]
    fn the_command_line_counts_more() {
        let mut base = Flagged::default().settings;
        base.rules.scheduler_name = "mine".to_owned();
        let spec = json!({"global": {"schedulerName": "theirs"}});
        let spec: ConfigSpec = serde_json::from_value(spec).expect("a Config");
        assert_eq!(configure(&spec, &base).settings.rules.scheduler_name, "mine");
    }
}
