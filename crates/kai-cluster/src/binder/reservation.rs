//! Reservation pods: each keeps one device of a node for a group of pods that share it, and tells which.

use kai_api::names::{env, gpu, objects, third_party};
use kai_core::input::{ObjectName, Text};
use kai_translate::view;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

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
    pub(super) trouble: Option<String>,
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
        }
    }
}

fn trouble(pod: &view::Pod) -> Option<String> {
    let status = &pod.status;
    let said = |reason: &str, message: &str| match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    if let Some(phase @ ("Failed" | "Succeeded")) = status.phase.as_deref() {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let why = said(&text(&status.reason), &text(&status.message));
        return Some(if why.is_empty() { format!("it is {phase}") } else { why });
    }
    let mut dead_ends = status.container_statuses.iter().filter_map(|one| {
        let waiting = one.state.waiting.as_ref();
        Some((one, waiting.filter(|waiting| DEAD_ENDS.contains(&waiting.reason.as_str()))?))
    });
    let (container, waiting) = dead_ends.next()?;
    // Why it ended says more than that it will be tried again.
    let last_words = container.last_state.terminated.as_ref().map(|ended| ended.message.trim());
    Some(match last_words.filter(|words| !words.is_empty()) {
        Some(words) => said(&waiting.reason, words),
        None => said(&waiting.reason, &waiting.message),
    })
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
    let hash = digest(&SHA256, text.as_bytes());
    let hex = hash
        .as_ref()
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let name = format!("{}{hex}", gpu::RESERVATION_POD_PREFIX);
    ObjectName::new(settings.namespace.as_str(), name)
}

/// A reservation pod of a device, for pods that tolerate these taints.
pub(super) fn manifest(
    name: &ObjectName,
    device: &DeviceKey,
    tolerations: &[view::Toleration],
    is_fake: bool,
    settings: &ReservationSettings,
) -> Value {
    let field = |variable: &str, path: &str| json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut container = json!({
        "name": objects::RESERVATION_CONTAINER,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        // Of our image; KAI's, which heeds flags only, is content with it.
        "args": ["agent", "reserve"],
        // What it says last is why it failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": resources(settings.resources.as_ref()),
        "env": [field(env::POD_NAME, "metadata.name"), field(env::POD_NAMESPACE, "metadata.namespace")],
    });
    if is_fake {
        container["image"] = json!("ubuntu");
        container["args"] = json!(["sleep", "infinity"]);
    }
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
    if let Some(class) = &settings.runtime_class {
        pod["spec"]["runtimeClassName"] = json!(class);
    }
    if let Some(security) = &settings.pod_security {
        pod["spec"]["securityContext"] = security.clone();
    }
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

    #[test]
    fn one_device_is_asked_for_whatever_is_configured() {
        let configured = json!({"requests": {"cpu": "1m", "nvidia.com/gpu": "4"}});
        let settings = ReservationSettings { resources: Some(configured), ..Default::default() };
        let name = name(&device(), 0, &settings);
        let pod = manifest(&name, &device(), &[], false, &settings);
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
        assert_eq!(trouble(&pod).as_deref(), Some("UnexpectedAdmissionError: no devices"));
        let text = r#"{"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}"#;
        let pod: view::Pod = serde_json::from_str(text).expect("a pod");
        assert_eq!(trouble(&pod).as_deref(), Some("ImagePullBackOff"));
        let ended = r#"{"status": {"phase": "Running", "containerStatuses": [{
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"reason": "Error", "message": "no library\n"}}}]}}"#;
        let pod: view::Pod = serde_json::from_str(ended).expect("a pod");
        assert_eq!(trouble(&pod).as_deref(), Some("CrashLoopBackOff: no library"));
        let text = text.replace("ImagePullBackOff", "ContainerCreating");
        let pod: view::Pod = serde_json::from_str(&text).expect("a pod");
        assert_eq!(trouble(&pod), None);
    }
}
