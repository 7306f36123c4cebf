//! Values of the chart: those of KAI's chart mean something here or are listed in the notes, and none is an error.

use std::path::Path;

use crate::chart::{CHART, NAMESPACE, Release, helm_for, shell};

/// Values of KAI's chart with its defaults.
const OF_KAI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/kai-values.yaml");

/// Values of KAI's chart that change what is installed.
const MEANINGFUL: &[&str] = &[
    "openshift=true",
    "global.registry=r.example/x",
    "global.tag=9",
    "global.imagePullPolicy=Always",
    "global.securityContext.runAsUser=7",
    "global.podSecurityContext.fsGroup=7",
    "global.imagePullSecrets[0].name=s",
    "global.imagePullSecrets[0]=s",
    "global.gpuSharing=true",
    "global.gpuSharingMode=HamiCore",
    "global.blockNvidiaVisibleDevices=true",
    "global.clusterAutoscaling=true",
    "global.nodeSelector.a=b",
    "global.affinity.nodeAffinity.x=1",
    "global.tolerations[0].key=a",
    "global.requireDefaultPodAntiAffinityTerm=true",
    "global.priorityClassName=p",
    "global.namespaceLabelSelector.a=b",
    "global.podLabelSelector.a=b",
    "global.nodePoolLabelKey=pool",
    "global.jsonLog=true",
    "global.resourceReservation.namespace=n",
    "global.resourceReservation.serviceAccount=s",
    "global.resourceReservation.appLabel=l",
    "global.resourceReservation.namespaceLabels.a=b",
    "global.resourceReservation.createNamespace=false",
    "global.resourceReservation.createServiceAccount=false",
    "operator.replicaCount=3",
    "podgrouper.enabled=false",
    "podgrouper.queueLabelKey=q",
    "podgrouper.genericKartaFallback=false",
    "podgroupcontroller.enabled=false",
    "queuecontroller.enabled=false",
    "binder.enabled=false",
    "binder.resourceReservationPodResources.limits.cpu=1",
    "binder.plugins.hamicore.enabled=true",
    "binder.cdiEnabled=true",
    "binder.runtimeClassName=x",
    "binder.resourceReservation.runtimeClassName=x",
    "scheduler.enabled=false",
    "scheduler.placementStrategy=spread",
    "scheduler.args.verbosity=4",
    "scheduler.additionalArgs[0]=--v=4",
    "scheduler.additionalArgs=--v=4",
    "scheduler.plugins.numa.enabled=true",
    "scheduler.actions.preempt.enabled=false",
    "scheduler.scenarioSearchBudgets.a=b",
    "scheduler.podDisruptionBudget.enabled=false",
    "scheduler.podDisruptionBudget.maxUnavailable=2",
    "scheduler.affinity.nodeAffinity.x=1",
    "scheduler.resources.limits.cpu=1",
    "defaultShard.enabled=false",
    "numaPlacementExporter.enabled=true",
    "admission.enabled=false",
    "admission.affinity.nodeAffinity.x=1",
    "admission.gpuFractionRuntimeClassName=x",
    "admission.gpuFractionRuntimeClassName=null,admission.gpuPodRuntimeClassName=y",
    "admission.podDisruptionBudget.enabled=false",
    "admission.resources.limits.cpu=1",
    "nodescaleadjuster.scalingPodNamespace=n",
    "nodescaleadjuster.labels.a=b",
    "kaiConfig.render=true",
    "defaultPriorityClasses.enabled=false",
    "prometheus.enabled=true",
    "prometheus.externalPrometheusUrl=http://prometheus",
    "defaultQueue.createDefaultQueue=false",
    "defaultQueue.parentName=p",
    "defaultQueue.childName=c",
    "defaultQueue.parentResources.gpu.quota=3",
    "defaultQueue.childResources.gpu.quota=3",
];

/// Values of the DaemonSet that reports NUMA zones, which is off by default.
const OF_NUMA_AGENT: &[&str] = &[
    "nodeSelector.a=b",
    "tolerations[0].key=a",
    "affinity.nodeAffinity.x=1",
    "resources.limits.cpu=1",
    "pollInterval=3s",
    "driftResyncInterval=3s",
    "podResourcesHostPath=/x",
    "podResourcesSocket=/x/y",
    "sysfsHostPath=/x",
];

/// Every pull policy of KAI's chart beside the global one.
const PULL_POLICIES: &[&str] = &[
    "operator.image",
    "podgrouper.image",
    "podgroupcontroller.image",
    "queuecontroller.image",
    "binder.image",
    "binder.resourceReservationImage",
    "scheduler.image",
    "numaPlacementExporter.image",
    "admission.image",
    "nodescaleadjuster.image",
    "nodescaleadjuster.scalingPodImage",
    "crdupgrader.image",
    "kaiConfigDeployer.image",
    "topologyMigration.image",
    "postCleanup.image",
];

/// Values of KAI's chart that change nothing, and what the notes list.
const IGNORED: &[(&str, &str)] = &[
    ("global.fipsMode=on", "global.fipsMode"),
    ("global.leaderElection=true", "global.leaderElection"),
    ("global.vpa.enabled=true", "global.vpa"),
    ("operator.affinity.a=b", "operator.affinity"),
    ("operator.image.name=o", "operator.image.name"),
    ("operator.image.tag=o", "operator.image.tag"),
    ("operator.metricsBindAddress=:1", "operator.metricsBindAddress"),
    ("operator.probeBindAddress=:1", "operator.probeBindAddress"),
    ("operator.qps=1", "operator.qps"),
    ("operator.burst=1", "operator.burst"),
    ("operator.logLevel=debug", "operator.logLevel"),
    ("operator.resources.limits.cpu=1", "operator.resources"),
    ("podgrouper.image.name=o", "podgrouper.image.name"),
    ("podgrouper.affinity.a=b", "podgrouper.affinity"),
    ("podgrouper.podDisruptionBudget.enabled=false", "podgrouper.podDisruptionBudget"),
    ("podgrouper.resources.limits.cpu=1", "podgrouper.resources"),
    ("podgroupcontroller.image.name=o", "podgroupcontroller.image.name"),
    ("podgroupcontroller.affinity.a=b", "podgroupcontroller.affinity"),
    ("podgroupcontroller.resources.limits.cpu=1", "podgroupcontroller.resources"),
    ("queuecontroller.image.name=o", "queuecontroller.image.name"),
    ("queuecontroller.affinity.a=b", "queuecontroller.affinity"),
    ("queuecontroller.resources.limits.cpu=1", "queuecontroller.resources"),
    ("binder.name=x", "binder.name"),
    ("binder.image.name=o", "binder.image.name"),
    ("binder.affinity.a=b", "binder.affinity"),
    ("binder.ports.metricsPort=1", "binder.ports"),
    ("binder.resourceReservationImage.name=x", "binder.resourceReservationImage.name"),
    ("binder.resources.limits.cpu=1", "binder.resources"),
    ("scheduler.image.name=o", "scheduler.image.name"),
    ("scheduler.ports.metricsPort=1", "scheduler.ports"),
    ("scheduler.goMemLimitRatio=0.5", "scheduler.goMemLimitRatio"),
    ("scheduler.goMemLimit=1Gi", "scheduler.goMemLimit"),
    ("admission.name=x", "admission.name"),
    ("admission.cdi=true", "admission.cdi"),
    ("admission.image.name=o", "admission.image.name"),
    ("admission.ports.webhookPort=1", "admission.ports"),
    ("nodescaleadjuster.image.name=o", "nodescaleadjuster.image.name"),
    ("nodescaleadjuster.scalingPodImage.name=o", "nodescaleadjuster.scalingPodImage.name"),
    ("nodescaleadjuster.affinity.a=b", "nodescaleadjuster.affinity"),
    ("nodescaleadjuster.resources.limits.cpu=1", "nodescaleadjuster.resources"),
    ("numaPlacementExporter.image.name=o", "numaPlacementExporter.image.name"),
    ("crdupgrader.image.name=o", "crdupgrader.image.name"),
    ("crdupgrader.image.registry=o", "crdupgrader.image.registry"),
    ("crdupgrader.resources.limits.cpu=1", "crdupgrader.resources"),
    ("kaiConfigDeployer.enabled=false", "kaiConfigDeployer"),
    ("topologyMigration.enabled=false", "topologyMigration"),
    ("postCleanup.enabled=false", "postCleanup"),
];

/// What a chart renders with these flags.
fn rendered(helm: &Path, chart: &str, flags: &str) -> String {
    let command = format!("helm template kai-scheduler {chart} -n {NAMESPACE} {flags} 2>/dev/null");
    shell(helm, None, &command)
}

/// The flags that set all ignored values.
fn all_ignored() -> String {
    let values: Vec<&str> = IGNORED.iter().map(|(value, _)| *value).collect();
    format!("--set {}", values.join(","))
}

#[test]
fn values_of_kai_mean_something() {
    let Some(helm) = helm_for("values_of_kai_mean_something") else { return };
    let render = |flags: &str| rendered(&helm, CHART, flags);
    let usual = render("");
    for value in MEANINGFUL {
        assert_ne!(render(&format!("--set '{value}'")), usual, "{value} changes nothing");
    }
    let is_on = "--set numaPlacementExporter.enabled=true";
    let agent = render(is_on);
    for value in OF_NUMA_AGENT {
        let value = format!("--set 'numaPlacementExporter.{value}'");
        assert_ne!(render(&format!("{is_on} {value}")), agent, "{value} changes nothing");
    }
    assert!(render(&all_ignored()) == usual, "an ignored value changes something");
    let off = render("--set-string global.gpuSharing=false");
    assert!(off == usual, "the text false is not true");
}

#[test]
fn any_pull_policy_of_kai_reaches_every_container() {
    let Some(helm) = helm_for("any_pull_policy_of_kai_reaches_every_container") else { return };
    let usual = "--set numaPlacementExporter.enabled=true";
    for image in PULL_POLICIES {
        let values = format!("-f {OF_KAI} {usual} --set {image}.pullPolicy=Never");
        let text = rendered(&helm, CHART, &values);
        assert!(!text.contains("IfNotPresent"), "{image}: {text}");
        let mut policies = text.lines().filter(|line| line.contains("imagePullPolicy:"));
        assert_eq!(policies.clone().count(), 3, "scheduler, admission and NUMA agent");
        assert!(policies.all(|line| line.ends_with(": Never")), "{image}: {text}");
        assert!(text.contains("--resource-reservation-pull-policy=Never"), "{image}: {text}");
    }
    let text = rendered(
        &helm,
        CHART,
        "--set global.imagePullPolicy=Always --set crdupgrader.image.pullPolicy=Never",
    );
    assert!(!text.contains("Never"), "the global policy wins where it is set: {text}");
}

/// `--reuse-values` puts the values of the earlier chart into the place of the new chart's defaults.
#[test]
fn values_of_an_earlier_chart_take_the_place_of_the_defaults() {
    let test = "values_of_an_earlier_chart_take_the_place_of_the_defaults";
    let Some(helm) = helm_for(test) else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let chart = folder.display().to_string();
    let copy = |values: &str| {
        let command =
            format!("rm -rf {chart} && cp -rL {CHART} {chart} && cp {values} {chart}/values.yaml");
        shell(&helm, None, &command);
        rendered(&helm, &chart, "")
    };
    assert_eq!(copy("/dev/null"), rendered(&helm, CHART, ""), "no value");
    let given = rendered(&helm, CHART, &format!("-f {OF_KAI}"));
    assert_eq!(copy(OF_KAI).lines().collect::<Vec<_>>(), given.lines().collect::<Vec<_>>());
}

#[tokio::test]
async fn values_without_meaning_are_listed_and_are_no_error() {
    let Some(release) = Release::new("ignored-values").await else { return };
    let install = format!(
        "helm upgrade -i kai-scheduler -n {NAMESPACE} --create-namespace {}",
        release.archive
    );
    let notes = release.shell(&format!("{install} {}", all_ignored()));
    for (_, value) in IGNORED {
        assert!(notes.contains(&format!("  {value}\n")), "{value} is not listed:\n{notes}");
    }
    assert!(notes.contains("--set global.gpuSharing=true"), "{notes}");
    let notes = release.shell(&format!("{install} --reset-values"));
    assert!(!notes.contains("change nothing"), "a value that was not set is listed:\n{notes}");
}
