//! What becomes of every field of `Config` and `SchedulingShard`. The tables of `docs/settings.md` say the same; a test
//! compares them with each other and with the custom resources.

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Honoured,
    /// It is accepted and changes nothing.
    Nothing,
    /// Where it is set, `Ready` is `False` and says so.
    Refused,
}

impl Fate {
    /// As the table says it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Nothing => "no meaning here",
            Self::Refused => "refused",
        }
    }
}

use Fate::{Honoured, Nothing, Refused};

const DEPLOYED: &str =
    "describes Deployments that KAI's operator makes; ours are those of `kai manifests`";
const LIMITS: &str = "the API server limits its clients itself";
const OURS: &str = "no Prometheus is installed by us";
const ROLES: &str = "the roles name the registrations";
const SCRAPED: &str = "what is scraped is said where Prometheus is installed";
const EXPORTER: &str = "flags of `kai agent numa`, and the DaemonSet around it";

/// Fields of `Config.spec`. A path stands for everything below it; `*` is any component.
pub const CONFIG: &[(&str, Fate, &str)] = &[
    ("namespace", Nothing, "`--namespace` says it, and where the manifests were applied"),
    ("global.schedulerName", Honoured, ""),
    ("global.queueLabelKey", Honoured, ""),
    ("global.nodePoolLabelKey", Honoured, ""),
    ("global.podLabelSelector", Honoured, "by grouping and admission"),
    ("global.namespaceLabelSelector", Honoured, "by grouping and admission"),
    ("global.jsonLog", Honoured, "while running"),
    ("global.gpuSharingMode", Honoured, "`Guard` is ours; see [GPU memory](gpu-memory.md)"),
    ("global.gpuMemoryEnforcement", Honoured, "ours; see [GPU memory](gpu-memory.md)"),
    ("global.gpuMemoryReserveMib", Honoured, "ours; see [GPU memory](gpu-memory.md)"),
    ("global.replicaCount", Nothing, "the value `operator.replicaCount` of the chart sets it"),
    ("global.openshift", Nothing, "the chart detects it; `kai manifests --openshift`"),
    ("global.securityContext", Nothing, "the value `global.securityContext` of the chart sets it"),
    ("global.affinity", Nothing, "the value `global.affinity` of the chart sets it"),
    ("global.nodeSelector", Nothing, "the value `global.nodeSelector` of the chart sets it"),
    ("global.tolerations", Nothing, "the value `global.tolerations` of the chart sets it"),
    (
        "global.daemonsetsTolerations",
        Nothing,
        "the value `numaPlacementExporter.tolerations` of the chart sets it",
    ),
    (
        "global.requireDefaultPodAntiAffinityTerm",
        Nothing,
        "the value of that name of the chart sets it",
    ),
    (
        "global.imagesPullSecret",
        Nothing,
        "the value `global.imagePullSecrets` of the chart sets it",
    ),
    (
        "global.additionalImagePullSecrets",
        Nothing,
        "the value `global.imagePullSecrets` of the chart sets it",
    ),
    (
        "global.priorityClassName",
        Nothing,
        "the value `global.priorityClassName` of the chart sets it",
    ),
    ("global.vpa", Nothing, DEPLOYED),
    ("*.vpa", Nothing, DEPLOYED),
    ("*.replicas", Nothing, "the value `operator.replicaCount` of the chart sets it"),
    (
        "*.service.enabled",
        Refused,
        "where it is `false`: which functions run is said with `--only`",
    ),
    (
        "nodeScaleAdjuster.service.enabled",
        Honoured,
        "`true` where one process does everything; what the command line asks for is done anyway",
    ),
    (
        "*.service.image",
        Nothing,
        "the values `global.registry` and `global.tag` of the chart set it",
    ),
    ("*.service.resources", Nothing, "the value `scheduler.resources` of the chart sets it"),
    ("*.service.affinity", Nothing, "the value `scheduler.affinity` of the chart sets it"),
    (
        "*.service.podDisruptionBudget",
        Nothing,
        "the value `scheduler.podDisruptionBudget` of the chart sets it",
    ),
    ("*.service.k8sClientConfig", Nothing, LIMITS),
    ("podGrouper.k8sClientConfig", Nothing, LIMITS),
    ("*.maxConcurrentReconciles", Nothing, "as many at once as do not hinder each other"),
    ("podGrouper.args.gangScheduleKnative", Honoured, ""),
    ("podGrouper.args.genericKartaFallback", Honoured, ""),
    (
        "podGrouper.args.defaultPrioritiesConfigMapName",
        Honoured,
        "read when the planners begin; both or none",
    ),
    ("podGrouper.args.defaultPrioritiesConfigMapNamespace", Honoured, ""),
    ("binder.volumeBindingTimeoutSeconds", Honoured, ""),
    ("binder.cdiEnabled", Honoured, "where it is left out, NVIDIA's operator is asked"),
    ("binder.metricsPort", Nothing, "`--listen-address` says it"),
    ("binder.probePort", Nothing, "`--health-probe-bind-address` says it"),
    (
        "binder.plugins",
        Honoured,
        "`enabled`, `bindTimeoutSeconds` and `cdiEnabled`; unknown names are named in the condition and left out",
    ),
    ("binder.resourceReservation.image", Honoured, ""),
    ("binder.resourceReservation.allocationTimeout", Honoured, ""),
    ("binder.resourceReservation.namespace", Honoured, "the roles must be bound there"),
    ("binder.resourceReservation.serviceAccountName", Honoured, ""),
    ("binder.resourceReservation.appLabel", Honoured, ""),
    ("binder.resourceReservation.runtimeClassName", Honoured, ""),
    ("binder.resourceReservation.podResources", Honoured, ""),
    ("binder.resourceReservation.tegra", Honoured, "what they are given on Jetsons"),
    ("binder.resourceReservation.kubeletPodResources", Honoured, "whom they ask without NVML"),
    (
        "binder.resourceReservation.observeProcesses",
        Honoured,
        "ours; see [GPU memory](gpu-memory.md)",
    ),
    ("binder.resourceReservation.reservationPodSecurityContext", Honoured, ""),
    ("binder.resourceReservation.reservationContainerSecurityContext", Honoured, ""),
    ("admission.gpuSharing", Honoured, "while running"),
    ("admission.blockNvidiaVisibleDevices", Honoured, "while running"),
    ("admission.gpuFractionRuntimeClassName", Honoured, "while running"),
    ("admission.gpuPodRuntimeClassName", Honoured, "where the other is left out"),
    ("admission.queueLabelSelector", Honoured, "while running"),
    ("admission.webhook", Nothing, "`--webhook-addr` and the Service of the manifests say it"),
    ("admission.validatingWebhookConfigurationName", Refused, ROLES),
    ("admission.mutatingWebhookConfigurationName", Refused, ROLES),
    ("queueController.webhooks.enableValidation", Honoured, "while running"),
    ("podGroupController.webhooks.enableValidation", Honoured, "while running"),
    ("queueController.webhooks.webhookConfigurationNamePrefix", Refused, ROLES),
    ("podGroupController.webhooks.webhookConfigurationNamePrefix", Refused, ROLES),
    ("queueController.controllerService", Nothing, DEPLOYED),
    ("podGroupController.controllerService", Nothing, DEPLOYED),
    ("queueController.metricsNamespace", Honoured, ""),
    ("queueController.queueLabelToMetricLabel", Honoured, ""),
    ("queueController.queueLabelToDefaultMetricValue", Honoured, ""),
    ("scheduler.GOGC", Nothing, "there is no Go runtime"),
    ("scheduler.schedulerService", Nothing, DEPLOYED),
    ("nodeScaleAdjuster.args.scalingPodImage", Honoured, ""),
    ("nodeScaleAdjuster.args.nodeScaleNamespace", Honoured, "the roles must be bound there"),
    ("nodeScaleAdjuster.args.nodeScaleServiceAccount", Honoured, ""),
    ("nodeScaleAdjuster.args.gpuMemoryToFractionRatio", Honoured, "above 0 and at most 1"),
    ("nodeScaleAdjuster.args.unschedulableGracePeriod", Honoured, "ours; seconds"),
    ("prometheus.enabled", Honoured, "as the address of past usage"),
    (
        "prometheus.externalPrometheusUrl",
        Honoured,
        "as the address of past usage, before the built-in one",
    ),
    ("prometheus.externalPrometheusHealthProbe", Nothing, "every query of past usage reports it"),
    ("prometheus.instanceName", Nothing, OURS),
    ("prometheus.retentionPeriod", Nothing, OURS),
    ("prometheus.sampleInterval", Nothing, "it never had an effect"),
    ("prometheus.enablePersistentStorage", Nothing, OURS),
    ("prometheus.storageSize", Nothing, OURS),
    ("prometheus.storageClassName", Nothing, OURS),
    (
        "prometheus.serviceMonitor",
        Nothing,
        "the value `prometheus.serviceMonitor` of the chart sets it",
    ),
    ("prometheus.accountingLabelKey", Nothing, SCRAPED),
    ("prometheus.accountingLabelValue", Nothing, SCRAPED),
    ("numaPlacementExporter.nodeSelector", Nothing, EXPORTER),
    ("numaPlacementExporter.tolerations", Nothing, EXPORTER),
    ("numaPlacementExporter.pollInterval", Nothing, EXPORTER),
    ("numaPlacementExporter.driftResyncInterval", Nothing, EXPORTER),
    ("numaPlacementExporter.podResourcesHostPath", Nothing, EXPORTER),
    ("numaPlacementExporter.podResourcesSocket", Nothing, EXPORTER),
    ("numaPlacementExporter.sysfsHostPath", Nothing, EXPORTER),
];

/// Fields of `SchedulingShard.spec`.
pub const SHARD: &[(&str, Fate, &str)] = &[
    ("partitionLabelValue", Honoured, ""),
    ("args", Honoured, "flags of a planner; flags of the process are ignored and named in `Ready`"),
    (
        "placementStrategy",
        Honoured,
        "other values than `binpack` and `spread` are named in `Ready`",
    ),
    ("queueDepthPerAction", Honoured, "keys that are no enabled action are named in `Ready`"),
    ("minRuntime", Honoured, "as arguments of `minruntime`"),
    ("kValue", Honoured, "as an argument of `proportion`"),
    (
        "usageDBConfig",
        Honoured,
        "see [past usage](#past-usage); what makes no sense is named in `Ready`",
    ),
    (
        "scenarioSearchBudgets",
        Honoured,
        "as work: one second is a million steps; bad keys and values are named in `Ready`",
    ),
    ("plugins", Honoured, "unknown names are named in `Ready` and left out"),
    ("actions", Honoured, "unknown names are named in `Ready` and left out"),
    ("goMemLimitRatio", Nothing, "there is no Go runtime"),
    ("goMemLimit", Nothing, "there is no Go runtime"),
];

/// A row of a table.
pub fn row((path, fate, note): &(&str, Fate, &str)) -> String {
    let colon = if note.is_empty() { "" } else { ": " };
    format!("| `{path}` | {}{colon}{note} |", fate.words())
}

#[cfg(test)]
mod tests {
    use kai_api::crds::CRDS;
    use serde_json::Value;

    use super::*;

    const DOCS: &str = include_str!("../../../docs/settings.md");

    /// Paths of what has no fields below it.
    fn leaves(node: &Value, path: &str, found: &mut Vec<String>) {
        match node["properties"].as_object().filter(|fields| !fields.is_empty()) {
            None => found.push(path.to_owned()),
            Some(fields) => {
                for (name, field) in fields {
                    let path =
                        if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    leaves(field, &path, found);
                }
            }
        }
    }

    fn covers(pattern: &str, path: &str) -> bool {
        let mut parts = path.split('.');
        pattern
            .split('.')
            .all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
    }

    fn check(plural: &str, table: &[(&str, Fate, &str)]) {
        let definition = CRDS.iter().find(|(name, _)| name.contains(plural)).expect("a file").1;
        let definition: Value = serde_saphyr::from_str(definition).expect("YAML");
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut fields = Vec::new();
        leaves(&schema["properties"]["spec"], "", &mut fields);
        assert!(fields.len() > 20, "{fields:?}");
        for field in &fields {
            assert!(
                table.iter().any(|(path, ..)| covers(path, field)),
                "{plural}: nothing is said of {field}"
            );
        }
        for (path, ..) in table {
            assert!(fields.iter().any(|field| covers(path, field)), "{plural}: there is no {path}");
        }
        let rows: Vec<String> = table.iter().map(row).collect();
        assert!(DOCS.contains(&rows.join("\n")), "docs/settings.md must say:\n{}", rows.join("\n"));
    }

    #[test]
    fn every_field_has_a_fate_and_the_document_says_it() {
        check("configs", CONFIG);
        check("schedulingshards", SHARD);
    }
}
