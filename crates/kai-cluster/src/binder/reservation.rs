//! Reservation pods: each keeps one device of a node for a group of pods that share it, and tells which.

use kai_api::names::{env, gpu, objects, third_party};
use kai_core::input::{ObjectName, Text};
use kai_translate::view;
use serde_json::{Value, json};

use super::profile::{self, Rung};
use super::{DeviceKey, ReservationSettings};
use crate::short_hash::short_hash;

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

/// A reservation pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reservation {
    pub(super) uid: Text,
    pub(super) version: String,
    /// As the API server writes it: earlier moments are smaller texts.
    pub(super) created: String,
    pub(super) leaving: bool,
    /// The device it keeps, once it has found out.
    pub(super) device: Option<Text>,
    /// Why it will never tell.
    pub(super) trouble: Option<Trouble>,
    /// What it was given beside its device.
    pub(super) rung: Option<Rung>,
}

/// Why a reservation pod will never tell its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: String,
    /// What it was given beside its device may be to blame.
    pub(super) blames_rung: bool,
}

impl Reservation {
    pub(super) fn read(pod: &view::Pod) -> Self {
        let metadata = &pod.metadata;
        let device = metadata.annotations.get(gpu::RESERVED_DEVICE);
        Self {
            uid: metadata.uid.as_str().into(),
            version: metadata.resource_version.clone(),
            created: metadata.creation_timestamp.clone().unwrap_or_default(),
            leaving: metadata.is_terminating(),
            device: device.filter(|text| !text.is_empty()).map(|text| text.as_str().into()),
            trouble: trouble(pod),
            rung: metadata
                .annotations
                .get(gpu::RESERVATION_RUNG)
                .and_then(|name| Rung::named(name)),
        }
    }
}

fn trouble(pod: &view::Pod) -> Option<Trouble> {
    let status = &pod.status;
    let said = |reason: &str, message: &str| match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    if let Some(phase @ ("Failed" | "Succeeded")) = status.phase.as_deref() {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let why = said(&text(&status.reason), &text(&status.message));
        let reason = if why.is_empty() { format!("it is {phase}") } else { why };
        return Some(Trouble { reason, blames_rung: false });
    }
    let mut stuck = status.container_statuses.iter().filter_map(|one| {
        let waiting = one.state.waiting.as_ref()?;
        DEAD_ENDS.contains(&waiting.reason.as_str()).then_some((one, waiting))
    });
    let (container, waiting) = stuck.next()?;
    // What the program said last is worth more than that it is started again and again.
    let ended = container.last_state.terminated.as_ref().map(|ended| ended.message.trim());
    let last = ended.and_then(|log| last_words(log).or(Some(log).filter(|log| !log.is_empty())));
    let message = last.unwrap_or(&waiting.message);
    let blames_rung = !IMAGE_TROUBLES.contains(&waiting.reason.as_str());
    Some(Trouble { reason: said(&waiting.reason, message), blames_rung })
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
    /// The runtime class, where the rung has one.
    pub(super) class: Option<&'a str>,
}

/// The reservation pod.
pub(super) fn manifest(blueprint: Blueprint<'_>, settings: &ReservationSettings) -> Value {
    let Blueprint { name, device, tolerations, is_fake, rung, class } = blueprint;
    let field = |variable: &str, path: &str| json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut container = json!({
        "name": objects::RESERVATION_CONTAINER,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        // Of our image; KAI's, which heeds flags only, is content with it.
        "args": ["agent", "reserve"],
        // What it says last is why it failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": resources(settings.resources.as_ref()),
        "env": [field(env::POD_NAME, "metadata.name"), field(env::POD_NAMESPACE, "metadata.namespace")],
    });
    if let Some(security) = &settings.container_security {
        container["securityContext"] = security.clone();
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
        pod["spec"]["securityContext"] = security.clone();
    }
    if is_fake {
        // Whoever makes such nodes up writes the device on the pod.
        let container = &mut pod["spec"]["containers"][0];
        container["image"] = json!("ubuntu");
        container["args"] = json!(["sleep", "infinity"]);
        return pod;
    }
    pod["metadata"]["annotations"][gpu::RESERVATION_RUNG] = json!(rung.name());
    profile::equip(&mut pod, rung, class, settings);
    pod
}

/// One device beside what is configured; devices in the configuration do not count.
fn resources(configured: Option<&Value>) -> Value {
    let mut resources = configured.filter(|value| value.is_object()).cloned().unwrap_or(json!({}));
    for part in ["requests", "limits"] {
        if !resources[part].is_object() {
            resources[part] = json!({});
        }
        resources[part][gpu::NVIDIA] = json!("1");
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
        Blueprint { name, device, tolerations: &[], is_fake: false, rung, class: Some("nvidia") }
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
    fn trouble_is_told_in_the_words_of_the_node() {
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
    }
}
