//! Tegra: Jetson and Thor. Reservation pods need more there than elsewhere.

use kai_api::names::node as names;
use kai_translate::platform::{Platform, stated};
use kai_translate::view;

use super::objects::{Config, Node, Pod};
use super::{ClusterFacts, Expectations, device_of};
use crate::check::Check;
use crate::finding::{Finding, Severity};

/// The folder with NVML's library.
const LIBRARIES: &str = "/usr/lib/aarch64-linux-gnu/nvidia";
const SECURITY: &str = "pod-security.kubernetes.io/enforce";
/// What `OpenShift` says of a pod that it forbids.
const FORBIDDEN: &str = "unable to validate against any security context constraint";

/// The node as the binder reads it to configure reservation pods.
fn view(node: &Node) -> view::Node {
    let info = &node.status.node_info;
    let mut viewed = view::Node::default();
    viewed.metadata.labels.clone_from(&node.metadata.labels);
    viewed.metadata.annotations.clone_from(&node.metadata.annotations);
    viewed.status.node_info.architecture.clone_from(&info.architecture);
    viewed.status.node_info.kernel_version.clone_from(&info.kernel_version);
    viewed
}

fn is_tegra(node: &Node) -> bool {
    Platform::of(&view(node)) == Platform::Tegra
}

/// The Tegra profile may help there: the node looks like Tegra, or a setting turned the profile off.
pub(super) fn needs_profile(node: &Node) -> bool {
    looks_like_tegra(node) || stated(&view(node)) == Some(Platform::Standard)
}

/// Everything speaks for Tegra but perhaps a label or annotation of the node.
fn looks_like_tegra(node: &Node) -> bool {
    let mut viewed = view(node);
    viewed.metadata.labels.remove(names::TEGRA);
    viewed.metadata.annotations.remove(names::TEGRA);
    Platform::of(&viewed) == Platform::Tegra
}

pub(super) fn findings(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    let mut all = Vec::new();
    for pod in facts.reservations(expected).filter(|pod| device_of(pod).is_none()) {
        let node = facts.node(&pod.spec.node_name);
        if node.is_some_and(|node| is_tegra(node) || looks_like_tegra(node)) {
            all.extend(lacking(facts, pod));
        }
    }
    if facts.nodes.iter().any(is_tegra) {
        let why = "reservation pods on Tegra are privileged";
        all.extend(pod_security(facts, expected, why));
    } else if facts.configs.iter().any(asks_kubelet) {
        let why = "reservation pods that ask the kubelet mount its folder";
        all.extend(pod_security(facts, expected, why));
    }
    all.extend(forbidden(facts));
    all
}

fn mounts(pod: &Pod, path: &str) -> bool {
    let volumes = pod.spec.volumes.iter().filter(|volume| {
        volume.host_path.as_ref().is_some_and(|host| host.path.trim_end_matches('/') == path)
    });
    let names: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    let mounted = pod.spec.containers.iter().flat_map(|container| &container.volume_mounts);
    mounted.into_iter().any(|mount| names.contains(&mount.name.as_str()))
}

/// What a reservation pod that found nothing should have had.
fn lacking(facts: &ClusterFacts, pod: &Pod) -> Vec<Finding> {
    let node = &pod.spec.node_name;
    let words = super::reservations::words(facts, pod);
    let finding = |check: Check, message: String| Finding {
        check,
        severity: Severity::Error,
        object: format!("Pod {}", pod.metadata.path()),
        message,
        fix: format!("kubectl label node {node} kai.scheduler/tegra=on --overwrite"),
    };
    let mut all = Vec::new();
    let path_is_set = pod.spec.containers.iter().any(|container| {
        let paths = container.env.iter().filter(|variable| variable.name == "LD_LIBRARY_PATH");
        paths.into_iter().any(|variable| variable.value.split(':').any(|one| one == LIBRARIES))
    });
    if words.contains("ERROR_LIBRARY_NOT_FOUND") && !(mounts(pod, LIBRARIES) && path_is_set) {
        let message = format!(
            "{node} is Tegra, where NVML's library is in {LIBRARIES}: the pod has neither that folder nor LD_LIBRARY_PATH"
        );
        all.push(finding(Check::TegraLibraryMount, message));
    }
    let without_devices =
        words.contains("Driver Not Loaded") || words.contains("Permission denied");
    if without_devices && !mounts(pod, "/dev") {
        let message =
            format!("{node} is Tegra, and the pod has no device files: /dev is not mounted");
        all.push(finding(Check::TegraDeviceMount, message));
    }
    let privileged = pod.spec.containers.iter().all(|one| one.security_context.privileged);
    if without_devices && !privileged {
        let message = format!(
            "{node} is Tegra, and the pod may not open its device files: it is not privileged"
        );
        all.push(finding(Check::TegraPrivileged, message));
    }
    all
}

fn asks_kubelet(config: &Config) -> bool {
    !config.spec.binder.resource_reservation.kubelet_pod_resources.is_empty()
}

fn pod_security(facts: &ClusterFacts, expected: &Expectations, why: &str) -> Option<Finding> {
    let name = &expected.reservation_namespace;
    let namespace = facts.namespaces.iter().find(|one| one.metadata.name == *name)?;
    let level = namespace.metadata.labels.get(SECURITY).filter(|level| *level != "privileged")?;
    Some(Finding {
        check: Check::PodSecurity,
        severity: Severity::Error,
        object: format!("Namespace {name}"),
        message: format!("it admits only {level} pods, and {why}"),
        fix: format!("kubectl label namespace {name} {SECURITY}=privileged --overwrite"),
    })
}

fn forbidden(facts: &ClusterFacts) -> Vec<Finding> {
    let forbidden = facts
        .events
        .iter()
        .filter(|event| event.reason == "FailedCreate" && event.message.contains(FORBIDDEN));
    forbidden
        .map(|event| {
            let object = &event.involved_object;
            Finding {
                check: Check::OpenShiftScc,
                severity: Severity::Error,
                object: format!("{} {}/{}", object.kind, object.namespace, object.name),
                message: "OpenShift forbids its pods: no security context constraint allows them"
                    .to_owned(),
                fix: format!(
                    "oc adm policy add-scc-to-user anyuid --serviceaccount default --namespace {}",
                    object.namespace
                ),
            }
        })
        .collect()
}
