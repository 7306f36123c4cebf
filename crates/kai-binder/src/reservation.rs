//! Reservation pods: each keeps one device of a node for a group of pods that share it, and names it.

use kai_api::gpu_processes::{self, PodProcesses};
use kai_api::json;
use kai_api::names::{env, gpu, objects, third_party};
use kai_client::short_hash::short_hash;
use kai_core::input::{ObjectName, Text};
use kai_translate::platform::Platform;
use kai_translate::view;
use serde_json::{Value, json};

use super::profile::{self, Rung};
use super::{DeviceKey, ReservationSettings};

/// Why a container will not start, as the node says it.
const DEAD_ENDS: [&str; 8] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

/// Those of them that have to do with the image alone.
const IMAGE_TROUBLES: [&str; 4] =
    ["ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"];

/// How a container ends that did not even run.
const NEVER_RAN: [&str; 2] = ["ContainerCannotRun", "StartError"];

/// How the program says that it cannot know its device: NVML refuses, or there is none or more than one.
const FINAL_WORDS: [&str; 2] = ["unable to ", "found "];

/// Ends the reason where a node made no container in time.
pub(super) const NEVER_CREATED: &str =
    "its container was never created: kubectl describe pod shows why";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reservation {
    pub(super) uid: Text,
    pub(super) version: String,
    /// As the API server writes it: earlier moments are smaller texts.
    pub(super) created: String,
    pub(super) leaving: bool,
    /// The device it keeps, once it has found out.
    pub(super) device: Option<Text>,
    /// MiB that processes hold of it.
    pub(super) held_mib: Option<i64>,
    /// Pods whose processes use it; none: it does not look at processes.
    pub(super) processes: Option<Vec<PodProcesses>>,
    /// Why it will never name its device.
    pub(super) trouble: Option<Trouble>,
    /// The node has not made its container yet.
    pub(super) is_being_created: bool,
    /// What it was given beside its device.
    pub(super) rung: Option<Rung>,
    /// What its node was when it was made.
    pub(super) platform: Option<Platform>,
}

/// Why a reservation pod will never name its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: String,
    /// What it was given beside its device may be to blame.
    pub(super) blames_rung: bool,
}

impl Reservation {
    pub(super) fn read(pod: &view::Pod) -> Self {
        let metadata = &pod.metadata;
        let annotation = |key: &str| metadata.annotations.get(key).map(String::as_str);
        Self {
            uid: metadata.uid.as_str().into(),
            version: metadata.resource_version.clone(),
            created: metadata.creation_timestamp.clone().unwrap_or_default(),
            leaving: metadata.is_terminating(),
            device: device(pod).map(Text::from),
            held_mib: annotation(gpu::MEMORY_HELD_MIB).and_then(|mib| mib.parse().ok()),
            processes: annotation(gpu::PROCESSES).and_then(gpu_processes::parse),
            trouble: trouble(pod),
            is_being_created: is_being_created(pod),
            rung: annotation(gpu::RESERVATION_RUNG).and_then(Rung::named),
            platform: annotation(gpu::RESERVATION_PLATFORM).and_then(Platform::named),
        }
    }
}

/// The device that a reservation pod has named.
fn device(pod: &view::Pod) -> Option<&str> {
    let annotation = pod.metadata.annotations.get(gpu::RESERVED_DEVICE);
    annotation.map(String::as_str).filter(|device| !device.is_empty())
}

/// A reason and what is to be said of it.
fn said(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn trouble(pod: &view::Pod) -> Option<Trouble> {
    let status = &pod.status;
    if let Some(phase @ ("Failed" | "Succeeded")) = status.phase.as_deref() {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let why = said(&text(&status.reason), &text(&status.message));
        let reason = if why.is_empty() { format!("it is {phase}") } else { why };
        return Some(Trouble { reason, blames_rung: false });
    }
    let containers = &status.container_statuses;
    // What was once in the way is over where it has named its device.
    let mut silent = containers.iter().filter(|_| device(pod).is_none());
    containers.iter().find_map(stuck).or_else(|| silent.find_map(gave_up))
}

/// The node does not start the container, or not any more.
fn stuck(container: &view::ContainerStatus) -> Option<Trouble> {
    let waiting = container.state.waiting.as_ref();
    let waiting = waiting.filter(|waiting| DEAD_ENDS.contains(&waiting.reason.as_str()))?;
    // What the program said last is worth more than that it is started again and again.
    let ended = container.last_state.terminated.as_ref().map(|ended| ended.message.trim());
    let last = ended.and_then(|log| last_words(log).or(Some(log).filter(|log| !log.is_empty())));
    let message = last.unwrap_or(&waiting.message);
    let blames_rung = !IMAGE_TROUBLES.contains(&waiting.reason.as_str());
    Some(Trouble { reason: said(&waiting.reason, message), blames_rung })
}

/// The container ended in a way that starting it again does not help. Others may have passed by then: whether the API
/// server answered, for one.
fn gave_up(container: &view::ContainerStatus) -> Option<Trouble> {
    let states = [&container.state, &container.last_state];
    states.into_iter().filter_map(|state| state.terminated.as_ref()).find_map(|ended| {
        let reason = if NEVER_RAN.contains(&ended.reason.as_str()) {
            said(&ended.reason, ended.message.trim())
        } else {
            let words = last_words(&ended.message)?;
            FINAL_WORDS.iter().any(|begin| words.starts_with(begin)).then(|| words.to_owned())?
        };
        Some(Trouble { reason, blames_rung: true })
    })
}

/// The node has not made the container yet.
fn is_being_created(pod: &view::Pod) -> bool {
    let mut waiting = pod.status.container_statuses.iter().filter_map(|one| {
        let is_first = one.last_state.terminated.is_none();
        one.state.waiting.as_ref().filter(|_| is_first)
    });
    waiting.any(|waiting| waiting.reason == "ContainerCreating")
}

/// Why the program in a reservation pod ended, out of the end of its log.
fn last_words(log: &str) -> Option<&str> {
    let lines = log.lines().map(str::trim);
    lines.rev().find_map(|line| line.strip_prefix("Error while running the app: "))
}

/// The name of the reservation of a device: the same for everybody who asks for it. Where others are tried beside the
/// first, they are numbered.
pub(super) fn name(
    device: &DeviceKey,
    number: usize,
    settings: &ReservationSettings,
) -> ObjectName {
    let number = if number == 0 { String::new() } else { format!("#{number}") };
    let text = format!("{}/{}{number}", device.node, device.group);
    let name = format!("{}{}", gpu::RESERVATION_POD_PREFIX, short_hash(&text));
    ObjectName::new(settings.namespace.as_str(), name)
}

/// A reservation pod that is to be made.
#[derive(Clone, Copy)]
pub(super) struct Blueprint<'a> {
    pub(super) name: &'a ObjectName,
    pub(super) device: &'a DeviceKey,
    /// Taints that those who need it tolerate.
    pub(super) tolerations: &'a [view::Toleration],
    /// The node's devices are only claimed to be there.
    pub(super) is_fake: bool,
    pub(super) rung: Rung,
    /// What the node is.
    pub(super) platform: Platform,
    /// The runtime class, where the rung has one.
    pub(super) class: Option<&'a str>,
    /// It sees the processes of its node.
    pub(super) observes_processes: bool,
}

pub(super) fn manifest(blueprint: Blueprint<'_>, settings: &ReservationSettings) -> Value {
    let Blueprint { name, device, tolerations, rung, platform, class, .. } = blueprint;
    let field = |variable: &str, path: &str| json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut container = json!({
        "name": objects::RESERVATION_CONTAINER,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        // Of our image; KAI's, which reads flags only, is content with it.
        "args": ["agent", "reserve"],
        // What it says last is why it failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": resources(settings.resources.as_ref()),
        "env": [field(env::POD_NAME, "metadata.name"), field(env::POD_NAMESPACE, "metadata.namespace")],
    });
    if let Some(security) = &settings.container_security {
        json::set(&mut container, &["securityContext"], security.clone());
    }
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": &*name.name,
            "namespace": &*name.namespace,
            "labels": {objects::APP: settings.app_label, gpu::GROUP: &*device.group},
            "annotations": {third_party::KARPENTER_DO_NOT_DISRUPT: "true"},
        },
        "spec": {
            "nodeName": &*device.node,
            "serviceAccountName": settings.service_account,
            "tolerations": tolerations,
            "containers": [container],
        },
    });
    if let Some(security) = &settings.pod_security {
        json::set(&mut pod, &["spec", "securityContext"], security.clone());
    }
    if blueprint.is_fake {
        // The program that simulates such nodes writes the device on the pod.
        if let Some(container) = pod.pointer_mut("/spec/containers/0") {
            json::set(container, &["image"], "ubuntu");
            json::set(container, &["args"], json!(["sleep", "infinity"]));
        }
        return pod;
    }
    json::set(&mut pod, &["metadata", "annotations", gpu::RESERVATION_RUNG], json!(rung.name()));
    json::set(
        &mut pod,
        &["metadata", "annotations", gpu::RESERVATION_PLATFORM],
        json!(platform.name()),
    );
    profile::equip(&mut pod, rung, class, settings);
    if blueprint.observes_processes {
        profile::let_observe_processes(&mut pod);
    }
    pod
}

/// One device beside what is configured; devices in the configuration do not count.
fn resources(configured: Option<&Value>) -> Value {
    let mut resources = configured.filter(|value| value.is_object()).cloned().unwrap_or(json!({}));
    for part in ["requests", "limits"] {
        json::set(&mut resources, &[part, gpu::NVIDIA], json!("1"));
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DeviceKey {
        DeviceKey { node: "node-1".into(), group: "group".into() }
    }

    #[test]
    fn the_name_is_that_of_the_reference() {
        // printf node-1/group | sha256sum
        let name = name(&device(), 0, &ReservationSettings::default());
        assert_eq!(&*name.namespace, "kai-resource-reservation");
        assert_eq!(&*name.name, "gpu-reservation-10945180ad8b04f1");
    }

    fn blueprint<'a>(name: &'a ObjectName, device: &'a DeviceKey, rung: Rung) -> Blueprint<'a> {
        let (platform, class) = (Platform::Standard, Some("nvidia"));
        let (tolerations, is_fake, observes_processes) = (&[], false, false);
        Blueprint { name, device, tolerations, is_fake, rung, platform, class, observes_processes }
    }

    /// The fields that Pod Security asks for at its level `restricted`; host paths and privilege are for Jetsons only.
    #[test]
    fn reservation_pods_pass_the_restricted_standard() {
        let settings = ReservationSettings::default();
        let (device, name) = (device(), ObjectName::new("r", "p"));
        for rung in [Rung::Plain, Rung::RuntimeClass] {
            let pod = manifest(blueprint(&name, &device, rung), &settings);
            let security = &pod["spec"]["containers"][0]["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["runAsNonRoot"], true);
            assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
            assert_eq!(security["seccompProfile"], json!({"type": "RuntimeDefault"}));
            assert!(security["privileged"].is_null() && pod["spec"]["volumes"].is_null());
        }
        let jetson = manifest(blueprint(&name, &device, Rung::Privileged), &settings);
        assert_eq!(jetson["spec"]["containers"][0]["securityContext"]["privileged"], true);
    }

    #[test]
    fn reservation_pods_see_processes_of_the_node_only_where_that_is_set() {
        let (device, name) = (device(), ObjectName::new("r", "p"));
        let settings = ReservationSettings::default();
        let made = |observes_processes, rung| {
            let blueprint = Blueprint { observes_processes, ..blueprint(&name, &device, rung) };
            manifest(blueprint, &settings)
        };
        let blind = made(false, Rung::Plain);
        assert!(blind["spec"]["hostPID"].is_null());
        assert_eq!(blind["spec"]["containers"][0]["args"], json!(["agent", "reserve"]));
        let observing = made(true, Rung::RuntimeClass);
        let container = &observing["spec"]["containers"][0];
        assert_eq!(observing["spec"]["hostPID"], true);
        assert_eq!(container["args"], json!(["agent", "reserve", "--observe-processes"]));
        let security = &container["securityContext"];
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"], "add": ["SYS_PTRACE"]}));
        assert_eq!(
            (&security["runAsUser"], &security["allowPrivilegeEscalation"]),
            (&json!(0), &json!(false))
        );
        assert!(security["privileged"].is_null() && observing["spec"]["volumes"].is_null());
        let jetson = made(true, Rung::Privileged);
        let security = &jetson["spec"]["containers"][0]["securityContext"];
        assert_eq!(*security, json!({"privileged": true, "runAsUser": 0}));
    }

    #[test]
    fn a_jetson_gets_what_was_found_to_work_and_other_nodes_nothing_of_it() {
        let settings = ReservationSettings::default();
        let (device, name) = (device(), ObjectName::new("r", "p"));
        let plain = manifest(blueprint(&name, &device, Rung::Plain), &settings);
        let spec = &plain["spec"];
        assert!(spec["runtimeClassName"].is_null() && spec["volumes"].is_null(), "{spec:#}");
        assert_eq!(spec["containers"][0]["env"].as_array().map(Vec::len), Some(2));
        assert_eq!(spec["containers"][0]["securityContext"]["runAsUser"], 10_000);
        let class = manifest(blueprint(&name, &device, Rung::RuntimeClass), &settings);
        assert_eq!(class["spec"]["runtimeClassName"], "nvidia");
        assert!(class["spec"]["volumes"].is_null());
        let jetson = manifest(blueprint(&name, &device, Rung::Privileged), &settings);
        let (spec, container) = (&jetson["spec"], &jetson["spec"]["containers"][0]);
        assert_eq!(spec["runtimeClassName"], "nvidia");
        assert_eq!(
            spec["volumes"],
            json!([
                {"name": "nvidia-libs", "hostPath": {"path": "/usr/lib/aarch64-linux-gnu/nvidia", "type": "Directory"}},
                {"name": "dev-nvidia", "hostPath": {"path": "/dev", "type": "Directory"}},
            ])
        );
        assert_eq!(
            container["volumeMounts"],
            json!([
                {"name": "nvidia-libs", "mountPath": "/usr/lib/aarch64-linux-gnu/nvidia", "readOnly": true},
                {"name": "dev-nvidia", "mountPath": "/dev"},
            ])
        );
        assert_eq!(container["securityContext"], json!({"privileged": true, "runAsUser": 0}));
        assert_eq!(
            container["env"][2],
            json!({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"})
        );
        assert_eq!(
            container["env"][3],
            json!({"name": "LD_LIBRARY_PATH", "value": "/usr/lib/aarch64-linux-gnu/nvidia"})
        );
    }

    #[test]
    fn devices_that_are_named_are_mounted_one_by_one() {
        let mut settings = ReservationSettings::default();
        settings.tegra.devices = vec!["/dev/nvidiactl".to_owned(), "/dev/nvmap".to_owned()];
        let (device, name) = (device(), ObjectName::new("r", "p"));
        let pod =
            manifest(blueprint(&name, &device, Rung::PrivilegedWithoutRuntimeClass), &settings);
        assert!(pod["spec"]["runtimeClassName"].is_null());
        let volumes = pod["spec"]["volumes"].as_array().expect("volumes");
        assert_eq!(volumes[1]["hostPath"], json!({"path": "/dev/nvidiactl", "type": "CharDevice"}));
        assert_eq!(volumes.len(), 3);
    }

    #[test]
    fn who_asks_the_kubelet_is_root_and_may_do_nothing_else() {
        let folder = Some("/var/lib/k0s/kubelet/pod-resources".to_owned());
        let settings =
            ReservationSettings { kubelet_pod_resources: folder, ..ReservationSettings::default() };
        let (device, name) = (device(), ObjectName::new("r", "p"));
        let pod = manifest(blueprint(&name, &device, Rung::Kubelet), &settings);
        let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
        assert!(spec["runtimeClassName"].is_null());
        let folder = json!({"path": "/var/lib/k0s/kubelet/pod-resources", "type": "Directory"});
        assert_eq!(spec["volumes"], json!([{"name": "kubelet-pod-resources", "hostPath": folder}]));
        assert_eq!(
            container["volumeMounts"],
            json!([{"name": "kubelet-pod-resources", "mountPath": "/var/lib/kubelet/pod-resources", "readOnly": true}])
        );
        assert_eq!(
            container["securityContext"],
            json!({"allowPrivilegeEscalation": false, "runAsNonRoot": false, "runAsUser": 0, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}})
        );
        let plain = manifest(blueprint(&name, &device, Rung::Plain), &settings);
        assert!(plain["spec"]["volumes"].is_null(), "only where nothing else works");
    }

    #[test]
    fn one_device_is_asked_for_whatever_is_configured() {
        let configured = json!({"requests": {"cpu": "1m", "nvidia.com/gpu": "4"}});
        let settings = ReservationSettings { resources: Some(configured), ..Default::default() };
        let name = name(&device(), 0, &settings);
        let pod = manifest(blueprint(&name, &device(), Rung::Plain), &settings);
        let resources = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(
            *resources,
            json!({"requests": {"cpu": "1m", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}})
        );
        assert_eq!(pod["spec"]["nodeName"], "node-1");
    }

    #[test]
    fn trouble_is_reported_in_the_words_of_the_node() {
        let mut pod = view::Pod::default();
        assert_eq!(trouble(&pod), None);
        pod.status.phase = Some("Failed".to_owned());
        pod.status.reason = Some("UnexpectedAdmissionError".to_owned());
        pod.status.message = Some("no devices".to_owned());
        let reason = |pod: &view::Pod| trouble(pod).map(|trouble| trouble.reason);
        assert_eq!(reason(&pod).as_deref(), Some("UnexpectedAdmissionError: no devices"));
        let text = r#"{"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}"#;
        let pod: view::Pod = serde_json::from_str(text).expect("a pod");
        assert_eq!(reason(&pod).as_deref(), Some("ImagePullBackOff"));
        assert!(trouble(&pod).is_some_and(|trouble| !trouble.blames_rung));
        let text = r#"{"status": {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"message": "INFO x\nError while running the app: unable to initialize NVML: Driver Not Loaded\n"}}}]}}"#;
        let pod: view::Pod = serde_json::from_str(text).expect("a pod");
        let said = "CrashLoopBackOff: unable to initialize NVML: Driver Not Loaded";
        assert_eq!(reason(&pod).as_deref(), Some(said));
        assert!(trouble(&pod).is_some_and(|trouble| trouble.blames_rung));
        let text = r#"{"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}"#;
        let ended = r#"{"status": {"phase": "Running", "containerStatuses": [{
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"reason": "Error", "message": "no library\n"}}}]}}"#;
        let pod: view::Pod = serde_json::from_str(ended).expect("a pod");
        assert_eq!(reason(&pod).as_deref(), Some("CrashLoopBackOff: no library"));
        let text = text.replace("ImagePullBackOff", "ContainerCreating");
        let pod: view::Pod = serde_json::from_str(&text).expect("a pod");
        assert_eq!(trouble(&pod), None);
        assert!(is_being_created(&pod));
    }

    #[test]
    fn lasting_trouble_is_reported_at_once_and_passing_trouble_is_not() {
        let ended = |state: &str, words: &str| -> view::Pod {
            let ended = json!({"reason": "Error", "message": format!("INFO x\nError while running the app: {words}\n")});
            let status =
                json!({"containerStatuses": [{state: {"terminated": ended}}], "phase": "Running"});
            serde_json::from_value(json!({"status": status})).expect("a pod")
        };
        let reason = |pod: &view::Pod| trouble(pod).map(|trouble| trouble.reason);
        let words = "unable to initialize NVML: Driver Not Loaded. Check";
        let mut pod = ended("state", words);
        assert_eq!(reason(&pod).as_deref(), Some(words));
        // It may run again by the time we see it.
        assert_eq!(reason(&ended("lastState", words)).as_deref(), Some(words));
        let words = "found 0 devices, 1 was expected. The container";
        assert_eq!(reason(&ended("lastState", words)).as_deref(), Some(words));
        assert_eq!(reason(&ended("lastState", "could not patch pod. error: timeout")), None);
        pod.metadata.annotations.insert(gpu::RESERVED_DEVICE.to_owned(), "GPU-1".to_owned());
        assert_eq!(trouble(&pod), None, "it named its device later");
        let text = r#"{"status": {"containerStatuses": [{"lastState": {"terminated": {"reason": "StartError", "message": "no such runtime"}}}]}}"#;
        let pod: view::Pod = serde_json::from_str(text).expect("a pod");
        assert_eq!(reason(&pod).as_deref(), Some("StartError: no such runtime"));
        assert!(trouble(&pod).is_some_and(|trouble| trouble.blames_rung));
    }
}
