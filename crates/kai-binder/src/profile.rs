//! What a reservation pod needs beside a device to find out which one it is. On most nodes nothing, or a runtime class. On
//! Jetsons and their like the container runtime brings neither library nor devices: they are mounted.

use std::collections::BTreeMap;

use kai_api::json;
use kai_translate::platform::Platform;
use kai_translate::view;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use kai_settings::binder::{ReservationSettings, RuntimeClassSetting, TegraMode};

/// The class that NVIDIA's container toolkit and k3s install, and the one for CDI alone.
const USUAL_CLASS: &str = "nvidia";
const CDI_CLASS: &str = "nvidia-cdi";

/// Where a reservation pod finds the kubelet's socket.
const KUBELET_FOLDER: &str = "/var/lib/kubelet/pod-resources";
const KUBELET_VOLUME: &str = "kubelet-pod-resources";

/// What a reservation pod is given beside its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rung {
    /// No special settings.
    Plain,
    RuntimeClass,
    /// The folders of NVIDIA's libraries.
    Libraries,
    /// The folders, devices and the right to open them.
    Privileged,
    /// The same without a runtime class: that it exists does not mean that the node has it.
    PrivilegedWithoutRuntimeClass,
    /// The kubelet's socket, and the user that may ask there.
    Kubelet,
}

impl Rung {
    /// As it stands in annotations.
    pub(super) fn name(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        serde_json::from_value(json!(name)).ok()
    }

    pub(super) fn has_class(self) -> bool {
        matches!(self, Self::RuntimeClass | Self::Libraries | Self::Privileged)
    }

    fn has_libraries(self) -> bool {
        matches!(self, Self::Libraries | Self::Privileged | Self::PrivilegedWithoutRuntimeClass)
    }

    fn is_privileged(self) -> bool {
        matches!(self, Self::Privileged | Self::PrivilegedWithoutRuntimeClass)
    }
}

/// The platform of a node, as it is and as it is configured.
pub(super) fn platform(node: &view::Node, settings: &ReservationSettings) -> Platform {
    let tegra = &settings.tegra;
    let labels = &node.metadata.labels;
    let selected = tegra.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let stated = kai_translate::platform::stated(node);
    match (stated, tegra.mode) {
        (Some(platform), _) => platform,
        (None, TegraMode::On) if selected => Platform::Tegra,
        (None, TegraMode::Auto) if selected => Platform::of(node),
        (None, _) => Platform::Standard,
    }
}

/// The runtime class of reservation pods: the configured one if it exists, else the usual one, else that of CDI where CDI
/// is on, else none.
///
/// `existing` are classes and the runtimes they stand for; so is the answer.
pub(super) fn runtime_class<'a>(
    setting: &RuntimeClassSetting,
    existing: &'a BTreeMap<String, String>,
    cdi: bool,
) -> Option<(&'a str, &'a str)> {
    let RuntimeClassSetting::Auto(preferred) = setting else { return None };
    let wanted = [preferred.as_deref(), Some(USUAL_CLASS), Some(CDI_CLASS).filter(|_| cdi)];
    let mut found = wanted.into_iter().flatten().filter_map(|name| existing.get_key_value(name));
    found.next().map(|(name, handler)| (name.as_str(), handler.as_str()))
}

/// What there is to give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    pub(super) runtime_class: bool,
    /// Privilege, where it is needed.
    pub(super) privilege: bool,
    /// The kubelet's socket.
    pub(super) kubelet: bool,
}

/// The rungs of a node in the order in which they are tried.
pub(super) fn rungs(platform: Platform, means: Means) -> Vec<Rung> {
    let mut rungs = match (platform, means.privilege) {
        (Platform::Standard, _) => vec![],
        (Platform::Tegra, true) => vec![Rung::Privileged],
        (Platform::Tegra, false) => vec![Rung::Libraries],
    };
    if means.runtime_class {
        if rungs.contains(&Rung::Privileged) {
            rungs.push(Rung::PrivilegedWithoutRuntimeClass);
        }
        rungs.push(Rung::RuntimeClass);
    }
    rungs.push(Rung::Plain);
    if means.kubelet {
        rungs.push(Rung::Kubelet);
    }
    rungs
}

/// Gives a reservation pod what the rung says.
pub(super) fn equip(
    pod: &mut Value,
    rung: Rung,
    class: Option<&str>,
    settings: &ReservationSettings,
) {
    if let Some(class) = class.filter(|_| rung.has_class()) {
        json::set(pod, &["spec", "runtimeClassName"], json!(class));
    }
    if let Some(folder) = settings.kubelet_pod_resources.as_ref().filter(|_| rung == Rung::Kubelet)
    {
        let volume =
            json!({"name": KUBELET_VOLUME, "hostPath": {"path": folder, "type": "Directory"}});
        json::set(pod, &["spec", "volumes"], json!([volume]));
        let Some(container) = pod.pointer_mut("/spec/containers/0") else { return };
        let mount = json!({"name": KUBELET_VOLUME, "mountPath": KUBELET_FOLDER, "readOnly": true});
        json::set(container, &["volumeMounts"], json!([mount]));
        // The socket is root's. Nothing else is needed: what is forbidden otherwise stays forbidden.
        json::set(container, &["securityContext", "runAsUser"], json!(0));
        json::set(container, &["securityContext", "runAsNonRoot"], json!(false));
    }
    if !rung.has_libraries() {
        return;
    }
    let tegra = &settings.tegra;
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    for (number, folder) in tegra.library_paths.iter().enumerate() {
        let name =
            if number == 0 { "nvidia-libs".to_owned() } else { format!("nvidia-libs-{number}") };
        volumes.push(json!({"name": name, "hostPath": {"path": folder, "type": "Directory"}}));
        mounts.push(json!({"name": name, "mountPath": folder, "readOnly": true}));
    }
    if rung.is_privileged() {
        if tegra.devices.is_empty() {
            volumes.push(
                json!({"name": "dev-nvidia", "hostPath": {"path": "/dev", "type": "Directory"}}),
            );
            mounts.push(json!({"name": "dev-nvidia", "mountPath": "/dev"}));
        }
        for (number, device) in tegra.devices.iter().enumerate() {
            let name = format!("dev-nvidia-{number}");
            volumes.push(json!({"name": name, "hostPath": {"path": device, "type": "CharDevice"}}));
            mounts.push(json!({"name": name, "mountPath": device}));
        }
    }
    json::set(pod, &["spec", "volumes"], json!(volumes));
    let Some(container) = pod.pointer_mut("/spec/containers/0") else { return };
    json::set(container, &["volumeMounts"], json!(mounts));
    if let Some(variables) = container.pointer_mut("/env").and_then(Value::as_array_mut) {
        variables.push(json!({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}));
        variables.push(json!({"name": "LD_LIBRARY_PATH", "value": tegra.library_paths.join(":")}));
    }
    if rung.is_privileged() {
        json::set(container, &["securityContext"], json!({"privileged": true, "runAsUser": 0}));
        // The usual place lies in /dev, which is the node's here.
        json::set(container, &["terminationMessagePath"], json!("/run/termination-log"));
    }
}

/// Lets a reservation pod see the processes of its node and what is mapped into them. What it was given otherwise stays.
pub(super) fn let_observe_processes(pod: &mut Value) {
    json::set(pod, &["spec", "hostPID"], json!(true));
    let Some(container) = pod.pointer_mut("/spec/containers/0") else { return };
    if let Some(arguments) = container.pointer_mut("/args").and_then(Value::as_array_mut) {
        arguments.push(json!("--observe-processes"));
    }
    let is_privileged = container.pointer("/securityContext/privileged") == Some(&json!(true));
    if !is_privileged {
        for (key, value) in [
            ("runAsUser", json!(0)),
            ("runAsNonRoot", json!(false)),
            ("capabilities", json!({"drop": ["ALL"], "add": ["SYS_PTRACE"]})),
        ] {
            json::set(container, &["securityContext", key], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_used_where_it_exists() {
        let class = |setting: &RuntimeClassSetting, names: &[&str], cdi| {
            let existing = names.iter().map(|name| ((*name).to_owned(), format!("{name}-runtime")));
            let existing: BTreeMap<String, String> = existing.collect();
            let class = runtime_class(setting, &existing, cdi);
            class.map(|(name, handler)| format!("{name} {handler}"))
        };
        let auto = RuntimeClassSetting::Auto(Some("gpu".to_owned()));
        let found = |names, cdi| class(&auto, names, cdi);
        assert_eq!(found(&["gpu", "nvidia"], false).as_deref(), Some("gpu gpu-runtime"));
        assert_eq!(found(&["nvidia"], false).as_deref(), Some("nvidia nvidia-runtime"));
        assert_eq!(found(&["nvidia-cdi"], false), None);
        assert_eq!(found(&["nvidia-cdi"], true).as_deref(), Some("nvidia-cdi nvidia-cdi-runtime"));
        assert_eq!(class(&RuntimeClassSetting::None, &["nvidia"], true), None);
    }

    #[test]
    fn only_jetsons_are_given_folders_and_privilege() {
        use Platform::{Standard, Tegra};
        use Rung::{Libraries, Plain, Privileged, PrivilegedWithoutRuntimeClass, RuntimeClass};
        let class = Means { runtime_class: true, privilege: true, kubelet: false };
        let no_class = Means { runtime_class: false, ..class };
        assert_eq!(rungs(Standard, no_class), [Plain]);
        assert_eq!(rungs(Standard, class), [RuntimeClass, Plain]);
        let tegra = rungs(Tegra, class);
        assert_eq!(tegra, [Privileged, PrivilegedWithoutRuntimeClass, RuntimeClass, Plain]);
        let unprivileged = Means { privilege: false, ..no_class };
        assert_eq!(rungs(Tegra, unprivileged), [Libraries, Plain]);
        let asking = Means { kubelet: true, ..no_class };
        assert_eq!(rungs(Standard, asking), [Plain, Rung::Kubelet]);
    }
}
