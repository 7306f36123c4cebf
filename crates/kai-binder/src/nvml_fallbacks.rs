//! What a node's reservation pods need is tried rung by rung. The rung that worked is remembered on the node, together with
//! the platform that the node was: on another one it says nothing.

use std::collections::BTreeMap;

use kai_api::names::node as names;
use kai_core::input::Text;
use kai_translate::platform::Platform;
use serde_json::{Value, json};

use super::facts::NodeFacts;
use super::profile::{self, Means, Rung};
use super::reservation::{NEVER_CREATED, Reservation};
use super::{Binder, Item, Privilege, RuntimeClassSetting};

/// What is known of the rungs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NvmlFallbacks {
    /// What the node was; none: nothing is known yet.
    platform: Option<Platform>,
    /// The rung that worked.
    works: Option<Rung>,
    /// Rungs that did not, and why.
    failed: BTreeMap<Rung, String>,
}

impl NvmlFallbacks {
    /// As it stands on a node.
    fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let platform = value["platform"].as_str().and_then(Platform::named);
        let works = value["works"].as_str().and_then(Rung::named);
        Self { platform, works, failed: BTreeMap::new() }
    }

    /// For people, and for us after a restart.
    pub(super) fn write(&self, rungs: &[Rung]) -> String {
        let platform = self.platform.map(Platform::name);
        json!({"platform": platform, "rungs": rungs, "works": self.works, "failed": self.failed})
            .to_string()
    }

    /// The node is this now: what is known of something else is forgotten.
    fn fit(&mut self, platform: Platform) {
        if self.platform != Some(platform) {
            *self = Self { platform: Some(platform), ..Self::default() };
        }
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

    /// No container was ever made with the runtime class: the node does not have its runtime.
    fn lacks_runtime(&self) -> bool {
        let mut failed = self.failed.iter();
        failed.any(|(rung, why)| rung.has_class() && why.ends_with(NEVER_CREATED))
    }

    /// Whether one of the fallbacks works.
    pub(super) fn works(&self) -> bool {
        self.works.is_some()
    }

    /// What failed, in words; none: nothing did.
    pub(super) fn failures(&self) -> Option<String> {
        let said = |(rung, why): (&Rung, &String)| format!("{}: {why}", rung.name());
        let all: Vec<String> = self.failed.iter().map(said).collect();
        (!all.is_empty()).then(|| all.join("; "))
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

/// What reservation pods of a node may be given.
pub(super) struct AllowedRungs<'a> {
    pub(super) platform: Platform,
    /// In the order in which they are tried.
    pub(super) rungs: Vec<Rung>,
    /// Their runtime class, where a rung has one.
    pub(super) class: Option<&'a str>,
    pub(super) runtime: RuntimeState,
}

/// Whether a node's reservation pods can have a runtime of NVIDIA's by way of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuntimeState {
    /// No fault is known.
    Usable,
    /// The settings do not ask for one.
    Unwanted,
    /// No such class exists.
    NoClass,
    /// A class exists, and the node does not have its runtime.
    NotOnNode,
}

impl Binder {
    /// What reservation pods of the node may be given.
    pub(super) fn allowed_rungs(&self, node: &NodeFacts) -> AllowedRungs<'_> {
        let settings = &self.settings.reservation;
        let platform = profile::platform(&node.view, settings);
        let cdi = self.uses_cdi(node);
        let class = profile::runtime_class(&settings.runtime_class, &self.facts.classes, cdi);
        let (class, runtime) = match class {
            Some((_, handler)) if !node.may_have_runtime(handler) => {
                (None, RuntimeState::NotOnNode)
            }
            Some((name, _)) => {
                let failed = self.nvml_fallbacks.get(&*node.view.metadata.name);
                let is_missing = failed.is_some_and(NvmlFallbacks::lacks_runtime);
                let state = if is_missing { RuntimeState::NotOnNode } else { RuntimeState::Usable };
                (Some(name), state)
            }
            None if settings.runtime_class == RuntimeClassSetting::None => {
                (None, RuntimeState::Unwanted)
            }
            None => (None, RuntimeState::NoClass),
        };
        let means = Means {
            runtime_class: class.is_some(),
            privilege: settings.tegra.privileged != Privilege::No,
            kubelet: settings.kubelet_pod_resources.is_some(),
        };
        AllowedRungs { platform, rungs: profile::rungs(platform, means), class, runtime }
    }

    /// What is known of the rungs of a node as it is now; none: there is no such node.
    pub(super) fn fallbacks_of(&mut self, node: &Text) -> Option<&mut NvmlFallbacks> {
        let facts = self.facts.node(node)?;
        let platform = self.allowed_rungs(facts).platform;
        let written = facts.view.metadata.annotations.get(names::LADDER).cloned();
        let read = || written.map(|text| NvmlFallbacks::read(&text)).unwrap_or_default();
        let fallbacks = self.nvml_fallbacks.entry(node.clone()).or_insert_with(read);
        fallbacks.fit(platform);
        Some(fallbacks)
    }

    /// What the next reservation pod of the node is given; none: there is no such node.
    pub(super) fn next_rung(&mut self, node: &Text) -> Option<Rung> {
        let rungs = self.allowed_rungs(self.facts.node(node)?).rungs;
        Some(self.fallbacks_of(node)?.next(&rungs))
    }

    /// Reservation pods of the node that are given the same find their device.
    pub(super) fn rung_worked(&mut self, node: &Text, one: &Reservation) {
        let Some((rung, fallbacks)) = self.rung_of(node, one) else { return };
        if fallbacks.works != Some(rung) {
            fallbacks.worked(rung);
            self.due.insert(Item::Node(node.clone()));
        }
    }

    pub(super) fn rung_failed(&mut self, node: &Text, one: &Reservation, why: &str) {
        let Some((rung, fallbacks)) = self.rung_of(node, one) else { return };
        fallbacks.failed(rung, why);
        self.due.insert(Item::Node(node.clone()));
    }

    /// A reservation pod of this rung may not even be made.
    pub(super) fn rung_refused(&mut self, node: &Text, rung: Rung, why: &str) {
        let Some(fallbacks) = self.fallbacks_of(node) else { return };
        fallbacks.failed(rung, why);
        self.due.insert(Item::Node(node.clone()));
    }

    /// The rung of a reservation, unless the node was another one when it was made.
    fn rung_of(&mut self, node: &Text, one: &Reservation) -> Option<(Rung, &mut NvmlFallbacks)> {
        let (rung, platform) = (one.rung?, one.platform);
        let fallbacks = self.fallbacks_of(node)?;
        (platform.is_none() || platform == fallbacks.platform).then_some((rung, fallbacks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_tried_in_order_and_the_one_that_worked_is_kept() {
        let rungs = [Rung::RuntimeClass, Rung::Plain];
        let mut fallbacks = NvmlFallbacks::default();
        fallbacks.fit(Platform::Standard);
        assert_eq!(fallbacks.next(&rungs), Rung::RuntimeClass);
        fallbacks.failed(Rung::RuntimeClass, "no such handler");
        assert_eq!(fallbacks.next(&rungs), Rung::Plain);
        fallbacks.failed(Rung::Plain, "no library");
        assert_eq!(fallbacks.next(&rungs), Rung::RuntimeClass);
        fallbacks.failed(Rung::RuntimeClass, "no such handler");
        fallbacks.worked(Rung::Plain);
        let text = fallbacks.write(&rungs);
        assert_eq!(
            text,
            r#"{"platform":"standard","rungs":["runtime-class","plain"],"works":"plain","failed":{}}"#
        );
        assert_eq!(NvmlFallbacks::read(&text), fallbacks);
        assert_eq!(fallbacks.next(&rungs), Rung::Plain);
        fallbacks.failed(Rung::Plain, "it broke");
        assert_eq!(fallbacks.next(&rungs), Rung::RuntimeClass);
        assert_eq!(NvmlFallbacks::read("nonsense"), NvmlFallbacks::default());
    }

    #[test]
    fn what_worked_on_another_platform_says_nothing() {
        let rungs = [Rung::Privileged, Rung::Plain];
        let text = r#"{"platform":"standard","works":"plain"}"#;
        let mut fallbacks = NvmlFallbacks::read(text);
        fallbacks.fit(Platform::Standard);
        assert_eq!(fallbacks.next(&rungs), Rung::Plain);
        fallbacks.fit(Platform::Tegra);
        assert_eq!(fallbacks.next(&rungs), Rung::Privileged);
    }
}
