//! How pods share GPUs, and how limits of their memory are treated: `global.gpuSharingMode` of KAI 0.18 and our
//! `global.gpuMemoryEnforcement`.

use kai_api::config::Global;
use kai_api::enforcement::{Enforcement, GpuSharingMode};

use crate::binder::BinderPlugin;
use crate::config::Configured;

/// Takes both fields over. The strictest enforcement holds, whichever field or flag asks for it.
pub(crate) fn apply(configured: &mut Configured, global: &Global) {
    let Configured { settings, process, problems, .. } = configured;
    let mode = named(global.gpu_sharing_mode.as_deref(), GpuSharingMode::named);
    let mode = mode.unwrap_or_else(|text| {
        let names = GpuSharingMode::ALL.map(GpuSharingMode::name).join(", ");
        problems.push(format!("spec.global.gpuSharingMode: {text:?} is none of {names}"));
        None
    });
    let least = named(global.gpu_memory_enforcement.as_deref(), Enforcement::named);
    let least = least.unwrap_or_else(|text| {
        let names = Enforcement::ALL.map(Enforcement::name).join(", ");
        problems.push(format!("spec.global.gpuMemoryEnforcement: {text:?} is none of {names}"));
        None
    });
    let enforcement = least.max(mode.map(GpuSharingMode::enforcement)).unwrap_or_default();
    let admission = &mut process.admission;
    admission.enforcement = enforcement;
    if let Some(mode) = mode {
        admission.gpu_sharing = Some(mode != GpuSharingMode::Disabled);
    }
    if mode == Some(GpuSharingMode::HamiCore) {
        admission.hami_core = Some(true);
    }
    if let Some(binder) = &mut settings.binder {
        binder.enforcement = binder.enforcement.max(enforcement);
        binder.nv_fractions |= mode == Some(GpuSharingMode::NvFractions);
        if mode == Some(GpuSharingMode::HamiCore) {
            binder.plugins.switch(BinderPlugin::HamiCore, true);
        }
    }
}

/// The value of a field; the text where it has no meaning.
fn named<T>(text: Option<&str>, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, String> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => read(text).map(Some).ok_or_else(|| text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::binder::{BinderPlugin, BinderSettings};
    use crate::config::{ConfiguredAdmission, configure};
    use crate::flags::Flagged;

    use super::*;

    fn configured(global: &Value) -> (ConfiguredAdmission, BinderSettings, Vec<String>) {
        let spec = serde_json::from_value(json!({"global": global})).expect("a Config");
        let Configured { settings, process, problems, .. } =
            configure(&spec, &Flagged::default().settings);
        (process.admission, settings.binder.expect("a binder"), problems)
    }

    #[test]
    fn every_sharing_mode_of_kai_and_our_own_is_understood() {
        let of = |mode: &str| {
            let (admission, binder, problems) = configured(&json!({"gpuSharingMode": mode}));
            assert_eq!(problems, Vec::<String>::new(), "{mode}");
            assert_eq!(admission.enforcement, binder.enforcement, "{mode}");
            let hami = (admission.hami_core, binder.plugins.has(BinderPlugin::HamiCore));
            (admission.gpu_sharing, hami, binder.nv_fractions, binder.enforcement)
        };
        let (no, off) = ((None, false), Enforcement::Off);
        assert_eq!(of(""), (None, no, false, off));
        assert_eq!(of("Disabled"), (Some(false), no, false, off));
        assert_eq!(of("NonMemoryEnforced"), (Some(true), no, false, off));
        assert_eq!(of("HamiCore"), (Some(true), (Some(true), true), false, off));
        assert_eq!(of("NvFractions"), (Some(true), no, true, off));
        assert_eq!(of("Guard"), (Some(true), no, false, Enforcement::Enforce));
    }

    #[test]
    fn the_strictest_enforcement_holds() {
        let both = |mode: &str, least: &str| {
            configured(&json!({"gpuSharingMode": mode, "gpuMemoryEnforcement": least}))
                .0
                .enforcement
        };
        assert_eq!(both("Guard", "report"), Enforcement::Enforce);
        assert_eq!(both("NonMemoryEnforced", "report"), Enforcement::Report);
        assert_eq!(both("", ""), Enforcement::Off);
    }

    #[test]
    fn values_without_meaning_are_named() {
        let (_, _, problems) =
            configured(&json!({"gpuSharingMode": "Some", "gpuMemoryEnforcement": "on"}));
        assert_eq!(
            problems,
            [
                "spec.global.gpuSharingMode: \"Some\" is none of Disabled, NonMemoryEnforced, HamiCore, NvFractions, Guard",
                "spec.global.gpuMemoryEnforcement: \"on\" is none of off, report, enforce",
            ]
        );
    }
}
