//! Reservation pods: what keeps them from naming their device, and what is left of them.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::gpu;

use super::objects::{Container, Event, Pod, StateReason};
use super::{ClusterFacts, Expectations, device_of, is_live};
use crate::check::Check;
use crate::finding::{Finding, Severity};

/// Why an image is not there, as the node says it.
const NO_IMAGE: [&str; 4] =
    ["ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"];

pub(super) fn findings(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    let mut all = Vec::new();
    for pod in facts.reservations(expected).filter(|pod| device_of(pod).is_none()) {
        all.push(no_device(facts, pod));
    }
    for pod in facts.pods.iter().filter(|pod| concerns_us(pod, expected)) {
        all.extend(images(facts, pod));
    }
    all.extend(failed_binds(facts));
    all.extend(clashes(facts, expected));
    all.extend(orphans(facts, expected));
    all
}

fn concerns_us(pod: &Pod, expected: &Expectations) -> bool {
    [&expected.namespace, &expected.reservation_namespace].contains(&&pod.metadata.namespace)
}

fn finding(pod: &Pod, check: Check, message: String, fix: String) -> Finding {
    let object = format!("Pod {}", pod.metadata.path());
    Finding { check, severity: Severity::Error, object, message, fix }
}

/// What the pod said last: its log, and what the node keeps of its containers.
pub(super) fn words(facts: &ClusterFacts, pod: &Pod) -> String {
    let log = facts.logs.get(&pod.metadata.path()).map(String::as_str).unwrap_or_default();
    let states = pod.status.container_statuses.iter().flat_map(|one| [&one.state, &one.last_state]);
    let ended = states.filter_map(|state| state.terminated.as_ref());
    ended.fold(log.to_owned(), |text, state| format!("{text}\n{}", state.message))
}

/// The line that says it.
fn line(words: &str, what: &str) -> String {
    let found = words.lines().rev().find(|line| line.contains(what));
    found.unwrap_or_default().trim().to_owned()
}

fn no_device(facts: &ClusterFacts, pod: &Pod) -> Finding {
    let words = words(facts, pod);
    let node = &pod.spec.node_name;
    if pod.status.phase == "Failed" {
        let message = format!("{node} rejected it: {} {}", pod.status.reason, pod.status.message);
        let fix = format!(
            "kubectl describe node {node}  # Allocated resources: the pods that use its GPUs"
        );
        return finding(pod, Check::ReservationRejected, message.trim().to_owned(), fix);
    }
    if let Some((check, message, fix)) = known(facts, node, &words) {
        return finding(pod, check, message, fix);
    }
    let message = "it names no device and reports no reason".to_owned();
    let path = &pod.metadata;
    let fix = format!("kubectl logs --namespace {} {}", path.namespace, path.name);
    Finding { severity: Severity::Warning, ..finding(pod, Check::ReservationSilent, message, fix) }
}

/// What words of NVML mean.
fn known(facts: &ClusterFacts, node: &str, words: &str) -> Option<(Check, String, String)> {
    let host = || format!("sudo kai doctor node  # on {node}");
    // Tegra's libraries complain about permissions and work all the same: other words count first.
    let known = [
        ("ERROR_LIBRARY_NOT_FOUND", Check::NvmlLibraryNotFound, library_fix(facts, node)),
        ("Driver Not Loaded", Check::NvmlDriverNotLoaded, host()),
        ("Permission denied", Check::NvmlPermissionDenied, host()),
        ("Insufficient Permissions", Check::NvmlPermissionDenied, host()),
        ("devices, 1 was expected", Check::NvmlDeviceCount, count_fix(node)),
    ];
    let (text, check, fix) = known.into_iter().find(|(text, ..)| words.contains(text))?;
    Some((check, line(words, text), fix))
}

/// A reservation that came to nothing is gone soon; what is left is that a bind failed for it.
fn failed_binds(facts: &ClusterFacts) -> Vec<Finding> {
    let waits = |event: &Event| {
        let object = &event.involved_object;
        let mut pods = facts.pods.iter().filter(|pod| {
            pod.metadata.name == object.name && pod.metadata.namespace == object.namespace
        });
        pods.any(|pod| pod.spec.node_name.is_empty() && is_live(pod))
    };
    let failed = facts.events.iter().filter(|event| event.reason == "FailedBinding");
    let found = failed.filter(|event| waits(event)).filter_map(|event| {
        let (_, rest) = event.message.split_once(" to node ")?;
        let (node, why) = rest.split_once(". ")?;
        let (check, message, fix) = known(facts, node, why)?;
        let object = &event.involved_object;
        let object = format!("Pod {}/{}", object.namespace, object.name);
        Some(Finding { check, severity: Severity::Error, object, message, fix })
    });
    found.collect()
}

/// On Tegra the profile mounts the library; elsewhere NVIDIA's runtime does.
fn library_fix(facts: &ClusterFacts, node: &str) -> String {
    if facts.node(node).is_some_and(super::tegra::needs_profile) {
        return format!("kubectl label node {node} kai.scheduler/tegra=on --overwrite");
    }
    format!(
        "sudo nvidia-ctk runtime configure --runtime=containerd && sudo systemctl restart containerd  # on {node}; then kai run --runtime-class-name=nvidia"
    )
}

fn count_fix(node: &str) -> String {
    format!(
        "kubectl get configmaps --all-namespaces | grep device-plugin  # deviceListStrategy must be envvar where containers of {node} are privileged"
    )
}

fn images(facts: &ClusterFacts, pod: &Pod) -> Vec<Finding> {
    let mut all = Vec::new();
    for status in &pod.status.container_statuses {
        let Some(waiting) = &status.state.waiting else { continue };
        let container = pod.spec.containers.iter().find(|one| one.name == status.name);
        let Some(container) = container.filter(|_| NO_IMAGE.contains(&waiting.reason.as_str()))
        else {
            continue;
        };
        all.push(image_missing(facts, pod, container, waiting));
        if container.image_pull_policy == "Always" {
            all.push(pulled_anyway(pod, container));
        }
    }
    all
}

fn image_missing(
    facts: &ClusterFacts,
    pod: &Pod,
    container: &Container,
    state: &StateReason,
) -> Finding {
    let node = &pod.spec.node_name;
    let k3s =
        facts.node(node).is_some_and(|node| node.status.node_info.kubelet_version.contains("k3s"));
    let import = if k3s { "k3s ctr images import" } else { "ctr -n k8s.io images import" };
    let image = &container.image;
    let message = format!("{node} has no image {image}: {} {}", state.reason, state.message);
    let fix = format!("docker save {image} | sudo {import} -  # on {node}");
    finding(pod, Check::ImageMissing, message.trim().to_owned(), fix)
}

fn pulled_anyway(pod: &Pod, container: &Container) -> Finding {
    let message = format!(
        "imagePullPolicy of {} is Always: an image that was imported on the node is not used",
        container.name
    );
    let namespace = &pod.metadata.namespace;
    let fix = format!(
        "kubectl --namespace {namespace} patch deployment NAME --type=json -p '[{{\"op\":\"replace\",\"path\":\"/spec/template/spec/containers/0/imagePullPolicy\",\"value\":\"Never\"}}]'"
    );
    finding(pod, Check::PullPolicy, message, fix)
}

/// GPU groups of a pod: one for each of its devices.
fn groups(pod: &Pod) -> BTreeSet<&str> {
    let labels = &pod.metadata.labels;
    let several = labels.keys().filter_map(|key| key.strip_prefix(gpu::MULTI_GROUP_PREFIX));
    labels.get(gpu::GROUP).map(String::as_str).into_iter().chain(several).collect()
}

fn clashes(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    let mut holders: BTreeMap<(&str, &str), Vec<&Pod>> = BTreeMap::new();
    for pod in facts.reservations(expected).filter(|pod| is_live(pod)) {
        if let Some(device) = device_of(pod) {
            holders.entry((&pod.spec.node_name, device)).or_default().push(pod);
        }
    }
    let several = holders.into_iter().filter(|(_, pods)| pods.len() > 1);
    several
        .map(|((node, device), pods)| {
            let names: Vec<&str> = pods.iter().map(|pod| pod.metadata.name.as_str()).collect();
            let group =
                pods.last().and_then(|pod| groups(pod).into_iter().next()).unwrap_or_default();
            Finding {
                check: Check::ReservationClash,
                severity: Severity::Error,
                object: format!("Node {node}"),
                message: format!("device {device} is kept by several groups: {}", names.join(", ")),
                fix: format!(
                    "kubectl delete pods --all-namespaces --selector {}={group}",
                    gpu::GROUP
                ),
            }
        })
        .collect()
}

fn orphans(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    if !facts.was_read("bindRequests") {
        return Vec::new();
    }
    let used: BTreeSet<&str> = facts
        .pods
        .iter()
        .filter(|pod| pod.metadata.namespace != expected.reservation_namespace && is_live(pod))
        .flat_map(groups)
        .collect();
    let requests: String = facts.bind_requests.iter().map(ToString::to_string).collect();
    // One that has not named its device is being made for a pod, which names its group only then.
    let orphans = facts.reservations(expected).filter(|pod| {
        device_of(pod).is_some()
            && pod.metadata.deletion_timestamp.is_none()
            && groups(pod).iter().all(|group| !used.contains(group) && !requests.contains(*group))
    });
    orphans
        .map(|pod| {
            let message =
                "no pod and no bind request names its group: it keeps a GPU that no pod uses"
                    .to_owned();
            let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
            let fix = format!("kubectl delete pod --namespace {namespace} {name}");
            Finding {
                severity: Severity::Warning,
                ..finding(pod, Check::ReservationOrphan, message, fix)
            }
        })
        .collect()
}
