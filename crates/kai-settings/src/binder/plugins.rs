//! The parts of a bind under the names that KAI's binder has for them, and what can be said about each: with `--plugins`,
//! or in `spec.binder.plugins` of `Config`. Their order is fixed, and is that of KAI's default priorities.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::shard::PluginConfig;
use kai_core::time::Span;
use kai_translate::time::seconds;

use super::CdiSetting;

const TIMEOUT: &str = "bindTimeoutSeconds";
const CDI: &str = "cdiEnabled";
/// KAI's default priorities of those two whose order matters to it.
const SHARING_PRIORITY: i64 = 100;
const HAMI_CORE_PRIORITY: i64 = 50;

/// A part of a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BinderPlugin {
    /// Volumes that waited for the pod's node are bound.
    VolumeBinding,
    /// Claims of devices get theirs.
    DynamicResources,
    /// Containers receive their shared devices as environment variables.
    GpuSharing,
    /// Containers receive their memory limit on them, for the library of `HAMi`.
    HamiCore,
}

impl BinderPlugin {
    const ALL: [Self; 4] =
        [Self::VolumeBinding, Self::DynamicResources, Self::GpuSharing, Self::HamiCore];

    /// KAI's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::VolumeBinding => "volumebinding",
            Self::DynamicResources => "dynamicresources",
            Self::GpuSharing => "gpusharing",
            Self::HamiCore => "hamicore",
        }
    }
}

/// Which parts of a bind are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinderPlugins(BTreeSet<BinderPlugin>);

impl Default for BinderPlugins {
    fn default() -> Self {
        use BinderPlugin::{DynamicResources, GpuSharing, VolumeBinding};
        Self([VolumeBinding, DynamicResources, GpuSharing].into())
    }
}

impl BinderPlugins {
    /// This part is done.
    pub fn has(&self, plugin: BinderPlugin) -> bool {
        self.0.contains(&plugin)
    }

    /// Turns a part on or off.
    pub(crate) fn switch(&mut self, plugin: BinderPlugin, on: bool) {
        if on {
            self.0.insert(plugin);
        } else {
            self.0.remove(&plugin);
        }
    }
}

/// What is said about the plugins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginSettings {
    /// Which are to run.
    pub plugins: BinderPlugins,
    /// How long volumes and claims may take.
    pub timeout: Option<Span>,
    /// How containers name their devices.
    pub cdi: Option<CdiSetting>,
    /// What makes no sense, by plugin.
    pub problems: Vec<String>,
}

impl PluginSettings {
    /// Reads what is said. What is left out is as usual.
    pub fn read(said: &BTreeMap<String, PluginConfig>) -> Self {
        let mut settings = Self::default();
        for (name, config) in said {
            let Some(plugin) = BinderPlugin::ALL.into_iter().find(|one| one.name() == name) else {
                settings.problems.push(format!("{name}: there is no such plugin"));
                continue;
            };
            if let Some(on) = config.enabled {
                settings.plugins.switch(plugin, on);
            }
            for (key, value) in &config.arguments {
                settings.read_argument(plugin, key, value);
            }
        }
        settings.check_hami_core(said);
        settings
    }

    fn read_argument(&mut self, plugin: BinderPlugin, key: &str, value: &str) {
        let name = plugin.name();
        let understood = match (plugin, key) {
            (BinderPlugin::VolumeBinding | BinderPlugin::DynamicResources, TIMEOUT) => {
                let timeout = value.parse().ok().filter(|wanted| *wanted > 0);
                self.timeout = timeout.map(seconds).or(self.timeout);
                timeout.is_some()
            }
            (BinderPlugin::GpuSharing, CDI) => {
                let cdi = boolean(value);
                let setting = cdi.map(|on| if on { CdiSetting::On } else { CdiSetting::Off });
                self.cdi = setting.or(self.cdi);
                cdi.is_some()
            }
            _ => {
                self.problems.push(format!("{name}: there is no argument {key}"));
                return;
            }
        };
        if !understood {
            self.problems.push(format!("{name}: invalid argument {key:?}={value:?}"));
        }
    }

    /// It writes into what gpusharing makes.
    fn check_hami_core(&mut self, said: &BTreeMap<String, PluginConfig>) {
        if !self.plugins.has(BinderPlugin::HamiCore) {
            return;
        }
        let (own, needed) = (BinderPlugin::HamiCore.name(), BinderPlugin::GpuSharing.name());
        let priority = |name: &str, usual: i64| {
            said.get(name).and_then(|plugin| plugin.priority).unwrap_or(usual)
        };
        if !self.plugins.has(BinderPlugin::GpuSharing) {
            let problem = format!("{own}: {own:?} plugin requires {needed:?} plugin to be enabled");
            self.problems.push(problem);
        } else if priority(needed, SHARING_PRIORITY) <= priority(own, HAMI_CORE_PRIORITY) {
            self.problems.push(format!("{own}: its priority must be below that of {needed}"));
        }
    }
}

/// A truth value in one of Go's spellings.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(said: Value) -> PluginSettings {
        PluginSettings::read(&serde_json::from_value(said).expect("plugins"))
    }

    #[test]
    fn what_kais_operator_says_is_understood() {
        let settings = read(json!({
            "volumebinding": {"enabled": true, "priority": 300, "arguments": {"bindTimeoutSeconds": "7"}},
            "dynamicresources": {"enabled": false, "priority": 200, "arguments": {"bindTimeoutSeconds": "7"}},
            "gpusharing": {"enabled": true, "priority": 100, "arguments": {"cdiEnabled": "True"}},
            "hamicore": {"enabled": true, "priority": 50},
        }));
        assert_eq!(settings.problems, Vec::<String>::new());
        assert_eq!((settings.timeout, settings.cdi), (Some(seconds(7)), Some(CdiSetting::On)));
        let without_claims =
            [BinderPlugin::VolumeBinding, BinderPlugin::GpuSharing, BinderPlugin::HamiCore];
        assert_eq!(settings.plugins, BinderPlugins(without_claims.into()));
        assert_eq!(read(json!({})), PluginSettings::default());
        assert_eq!(read(json!({"hamicore": {}})).plugins, BinderPlugins::default());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let settings = read(json!({
            "magic": {},
            "gpusharing": {"arguments": {"cdiEnabled": "maybe", "typo": "1"}},
            "volumebinding": {"arguments": {"bindTimeoutSeconds": "soon"}},
        }));
        let named = [
            "gpusharing: invalid argument \"cdiEnabled\"=\"maybe\"",
            "gpusharing: there is no argument typo",
            "magic: there is no such plugin",
            "volumebinding: invalid argument \"bindTimeoutSeconds\"=\"soon\"",
        ];
        assert_eq!(settings.problems, named);
        let alone = read(json!({"hamicore": {"enabled": true}, "gpusharing": {"enabled": false}}));
        let lacking = "hamicore: \"hamicore\" plugin requires \"gpusharing\" plugin to be enabled";
        assert_eq!(alone.problems, [lacking]);
        let early = read(json!({"hamicore": {"enabled": true, "priority": 100}}));
        assert_eq!(early.problems, ["hamicore: its priority must be below that of gpusharing"]);
    }
}
