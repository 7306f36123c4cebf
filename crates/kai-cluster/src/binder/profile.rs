//! What a reservation pod needs beside a device to find out which one it is. On most nodes nothing, or a runtime class. On
//! Jetsons and their like the container runtime brings neither library nor devices: they are mounted.
//!
//! What a node needs is tried rung by rung. The rung that worked is remembered on the node.

use std::collections::BTreeMap;

use kai_translate::platform::Platform;
use kai_translate::view;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::settings::{ReservationSettings, RuntimeClassSetting, TegraMode};

/// The class that NVIDIA's container toolkit and k3s install, and the one for CDI alone.
const USUAL_CLASS: &str = "nvidia";
const CDI_CLASS: &str = "nvidia-cdi";

/// What a reservation pod is given beside its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rung {
    /// Nothing.
    Plain,
    /// A runtime class.
    RuntimeClass,
    /// The folders of NVIDIA's libraries.
    Libraries,
    /// The folders, devices and the right to open them.
    Privileged,
    /// The same without a runtime class: that it exists does not mean that the node has it.
    PrivilegedWithoutRuntimeClass,
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

    fn has_class(self) -> bool {
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
pub(super) fn runtime_class<'a>(
    setting: &'a RuntimeClassSetting,
    existing: &'a std::collections::BTreeSet<String>,
    cdi: bool,
) -> Option<&'a str> {
    let exists = |name: &&str| existing.contains(*name);
    match setting {
        RuntimeClassSetting::None => None,
        RuntimeClassSetting::Auto(preferred) => preferred
            .as_deref()
            .filter(exists)
            .or(Some(USUAL_CLASS).filter(exists))
            .or(Some(CDI_CLASS).filter(exists).filter(|_| cdi)),
    }
}

/// The rungs of a node in the order in which they are tried.
pub(super) fn rungs(platform: Platform, has_class: bool, may_be_privileged: bool) -> Vec<Rung> {
    let mut rungs = match (platform, may_be_privileged) {
        (Platform::Standard, _) => vec![],
        (Platform::Tegra, true) => vec![Rung::Privileged],
        (Platform::Tegra, false) => vec![Rung::Libraries],
    };
    if has_class {
        if rungs.contains(&Rung::Privileged) {
            rungs.push(Rung::PrivilegedWithoutRuntimeClass);
        }
        rungs.push(Rung::RuntimeClass);
    }
    rungs.push(Rung::Plain);
    rungs
}

/// What is known of the rungs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ladder {
    /// The rung that worked.
    pub(super) works: Option<Rung>,
    /// Rungs that did not, and why.
    pub(super) failed: BTreeMap<Rung, String>,
}

impl Ladder {
    /// As it stands on a node.
    pub(super) fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let works = value["works"].as_str().and_then(Rung::named);
        Self { works, failed: BTreeMap::new() }
    }

    /// For people, and for us after a restart.
    pub(super) fn write(&self, platform: Platform, rungs: &[Rung]) -> String {
        let platform = match platform {
            Platform::Standard => "standard",
            Platform::Tegra => "tegra",
        };
        json!({"platform": platform, "rungs": rungs, "works": self.works, "failed": self.failed})
            .to_string()
    }

    /// The rung to try next: the one that worked, else the first that has not failed. When all have, they are tried anew.
    pub(super) fn next(&mut self, rungs: &[Rung]) -> Rung {
        if let Some(works) = self.works.filter(|works| rungs.contains(works)) {
            return works;
        }
        if rungs.iter().all(|rung| self.failed.contains_key(rung)) {
            self.failed.clear();
        }
        let untried = rungs.iter().find(|rung| !self.failed.contains_key(rung));
        untried.copied().unwrap_or(Rung::Plain)
    }

    pub(super) fn worked(&mut self, rung: Rung) {
        self.works = Some(rung);
        self.failed.clear();
    }

    /// The rung did not work, for this reason.
    pub(super) fn failed(&mut self, rung: Rung, why: &str) {
        self.works = self.works.filter(|works| *works != rung);
        self.failed.insert(rung, why.to_owned());
    }
}

/// Gives a reservation pod what the rung says.
pub(super) fn equip(
    pod: &mut Value,
    rung: Rung,
    class: Option<&str>,
    settings: &ReservationSettings,
) {
    if let Some(class) = class.filter(|_| rung.has_class()) {
        pod["spec"]["runtimeClassName"] = json!(class);
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
    pod["spec"]["volumes"] = json!(volumes);
    let container = &mut pod["spec"]["containers"][0];
    container["volumeMounts"] = json!(mounts);
    if let Some(variables) = container["env"].as_array_mut() {
        variables.push(json!({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}));
        variables.push(json!({"name": "LD_LIBRARY_PATH", "value": tegra.library_paths.join(":")}));
    }
    if rung.is_privileged() {
        container["securityContext"] = json!({"privileged": true, "runAsUser": 0});
        // The usual place lies in /dev, which is the node's here.
        container["terminationMessagePath"] = json!("/run/termination-log");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_class_is_used_where_it_exists() {
        let existing = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(ToString::to_string).collect()
        };
        let auto = RuntimeClassSetting::Auto(Some("gpu".to_owned()));
        assert_eq!(runtime_class(&auto, &existing(&["gpu", "nvidia"]), false), Some("gpu"));
        assert_eq!(runtime_class(&auto, &existing(&["nvidia"]), false), Some("nvidia"));
        assert_eq!(runtime_class(&auto, &existing(&["nvidia-cdi"]), false), None);
        assert_eq!(runtime_class(&auto, &existing(&["nvidia-cdi"]), true), Some("nvidia-cdi"));
        assert_eq!(runtime_class(&RuntimeClassSetting::None, &existing(&["nvidia"]), true), None);
    }

    #[test]
    fn only_jetsons_are_given_folders_and_privilege() {
        use Rung::{Libraries, Plain, Privileged, PrivilegedWithoutRuntimeClass, RuntimeClass};
        assert_eq!(rungs(Platform::Standard, false, true), [Plain]);
        assert_eq!(rungs(Platform::Standard, true, true), [RuntimeClass, Plain]);
        let tegra = rungs(Platform::Tegra, true, true);
        assert_eq!(tegra, [Privileged, PrivilegedWithoutRuntimeClass, RuntimeClass, Plain]);
        assert_eq!(rungs(Platform::Tegra, false, false), [Libraries, Plain]);
    }

    #[test]
    fn rungs_are_climbed_and_the_one_that_worked_is_kept() {
        let rungs = rungs(Platform::Standard, true, true);
        let mut ladder = Ladder::default();
        assert_eq!(ladder.next(&rungs), Rung::RuntimeClass);
        ladder.failed(Rung::RuntimeClass, "no such handler");
        assert_eq!(ladder.next(&rungs), Rung::Plain);
        ladder.failed(Rung::Plain, "no library");
        assert_eq!(ladder.next(&rungs), Rung::RuntimeClass);
        ladder.failed(Rung::RuntimeClass, "no such handler");
        ladder.worked(Rung::Plain);
        let text = ladder.write(Platform::Standard, &rungs);
        assert_eq!(
            text,
            r#"{"platform":"standard","rungs":["runtime-class","plain"],"works":"plain","failed":{}}"#
        );
        assert_eq!(Ladder::read(&text), ladder);
        assert_eq!(ladder.next(&rungs), Rung::Plain);
        ladder.failed(Rung::Plain, "it broke");
        assert_eq!(ladder.next(&rungs), Rung::RuntimeClass);
        assert_eq!(Ladder::read("nonsense"), Ladder::default());
    }
}
