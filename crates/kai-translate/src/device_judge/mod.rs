//! Selectors of devices, evaluated once per expression and device, so that the planner sees sets of devices only.
//!
//! An expression that cannot be read matches no device and is complained about where it stands; one that fails on a device
//! does not match that device.

mod device;
mod library;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cel::{Context, Env, Program, Value};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kai_core::input::Text;
use kai_core::input::devices::DeviceRef;

use crate::devices::DeviceJudge;
use device::Device;

/// Judges devices of the slices it was told of.
pub struct CelJudge {
    env: Arc<Env>,
    slices: BTreeMap<Text, Vec<Device>>,
    selectors: BTreeMap<String, Result<Selector, String>>,
}

/// An expression that can be evaluated, and the devices that satisfy it.
struct Selector {
    program: Program,
    /// Texts it mentions: domains it may ask for.
    mentions: Vec<String>,
    matching: BTreeSet<DeviceRef>,
}

impl Default for CelJudge {
    fn default() -> Self {
        let env = Arc::new(library::environment());
        Self { env, slices: BTreeMap::new(), selectors: BTreeMap::new() }
    }
}

impl CelJudge {
    /// Takes the devices of a slice over. True when some expression matches other devices now.
    pub fn set_slice(&mut self, slice: &ResourceSlice) -> bool {
        let name: Text = slice.metadata.name.as_deref().unwrap_or_default().into();
        let devices = device::of_slice(slice);
        let before = self.slices.insert(name, devices).unwrap_or_default();
        self.replace(&before, slice)
    }

    /// Forgets a slice. True when some expression matches other devices now.
    pub fn remove_slice(&mut self, name: &str) -> bool {
        let before = self.slices.remove(name).unwrap_or_default();
        self.replace(&before, &ResourceSlice::default())
    }

    /// Devices of a slice came in place of others: the sets of all expressions follow.
    fn replace(&mut self, before: &[Device], now: &ResourceSlice) -> bool {
        let name = now.metadata.name.as_deref().unwrap_or_default();
        let devices = self.slices.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut changed = false;
        for selector in self.selectors.values_mut().flatten() {
            let was: BTreeSet<DeviceRef> =
                before.iter().filter(|one| selector.matching.remove(&one.id)).map(ids).collect();
            let is: BTreeSet<DeviceRef> =
                devices.iter().filter(|one| selector.accepts(&self.env, one)).map(ids).collect();
            changed |= was != is;
            selector.matching.extend(is);
        }
        changed
    }

    fn selector(&mut self, expression: &str) -> &Result<Selector, String> {
        if !self.selectors.contains_key(expression) {
            let made = self.evaluate(expression);
            self.selectors.insert(expression.to_owned(), made);
        }
        &self.selectors[expression]
    }

    fn evaluate(&self, expression: &str) -> Result<Selector, String> {
        let program = self.env.compile(expression).map_err(|errors| errors.to_string())?;
        let mentions = mentions(expression);
        let mut selector = Selector { program, mentions, matching: BTreeSet::new() };
        let devices = self.slices.values().flatten();
        let matching = devices.filter(|one| selector.accepts(&self.env, one)).map(ids).collect();
        selector.matching = matching;
        Ok(selector)
    }
}

impl DeviceJudge for CelJudge {
    fn matching(&mut self, expressions: &[&str]) -> Result<Vec<DeviceRef>, String> {
        let mut in_all: Option<BTreeSet<DeviceRef>> = None;
        for expression in expressions {
            let selector = self.selector(expression).as_ref().map_err(Clone::clone)?;
            in_all = Some(match in_all {
                None => selector.matching.clone(),
                Some(found) => found.intersection(&selector.matching).cloned().collect(),
            });
        }
        Ok(in_all.unwrap_or_default().into_iter().collect())
    }
}

impl Selector {
    fn accepts(&self, env: &Arc<Env>, device: &Device) -> bool {
        let mut context = Context::with_env(Arc::clone(env));
        library::add_functions(&mut context);
        context.add_variable_from_value("device", device.value(&self.mentions));
        self.program.execute(&context) == Ok(Value::Bool(true))
    }
}

fn ids(device: &Device) -> DeviceRef {
    device.id.clone()
}

/// Texts in quotes.
fn mentions(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(['"', '\'']) {
        let (quote, after) = rest[start..].split_at(1);
        let Some(end) = after.find(quote) else { break };
        found.push(after[..end].to_owned());
        rest = &after[end + 1..];
    }
    found
}

#[cfg(test)]
mod tests;
