//! Selectors of devices, evaluated once per expression and device, so that the planner sees sets of devices only.
//!
//! An expression that cannot be read matches no device and is complained about where it stands; one that fails on a device
//! does not match that device. The writer of a claim chooses its expressions, so that what they cost is bounded: one
//! evaluation by `cost::MOST_STEPS`, and all of them between two turns of the loop by `STEPS_PER_TURN`. What is left
//! over is evaluated in later turns, cheap expressions first.

mod cost;
mod depth;
mod device;
mod library;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cel::{Context, Env};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kai_core::input::Text;
use kai_core::input::devices::DeviceRef;

use crate::devices::{DeviceJudge, Matching};
use cost::{Costed, MOST_STEPS, Outcome};
use device::Device;

/// What all expressions together may cost between two turns of the loop; about a tenth of a second.
const STEPS_PER_TURN: u64 = 1_000_000;
/// An expression that costs more on one device waits until all others are evaluated.
const CHEAP_STEPS: u64 = 5_000;
/// Longest expression, as in Kubernetes.
const LONGEST_EXPRESSION: usize = 10 << 10;
/// Expressions that are kept although no object holds them.
const UNUSED_EXPRESSIONS: usize = 64;

/// Name of a slice, and the place of a device in it.
type Place = (Text, usize);

/// Judges devices of the slices added to it.
pub struct CelJudge {
    env: Arc<Env>,
    slices: BTreeMap<Text, Vec<Device>>,
    selectors: BTreeMap<String, Result<Selector, String>>,
    /// Expressions with devices that they were not evaluated on: cheap ones first, then by what they cost so far.
    waiting: BTreeSet<(bool, u64, String)>,
    /// Steps that are left until the next turn.
    steps_left: u64,
    /// How many expressions were in use when unused ones were last forgotten.
    in_use: usize,
}

/// An expression that can be evaluated, and the devices that satisfy it.
struct Selector {
    expression: Costed,
    /// Texts it mentions: domains it may ask for.
    mentions: Vec<String>,
    matching: BTreeSet<DeviceRef>,
    /// Devices that it was not evaluated on.
    todo: BTreeSet<Place>,
    /// What it cost so far.
    steps: u64,
    /// It cost more than [`CHEAP_STEPS`] on a device.
    is_heavy: bool,
    /// A device on which it costs more than it may; it is not evaluated any more.
    too_expensive_on: Option<DeviceRef>,
}

impl Default for CelJudge {
    fn default() -> Self {
        Self {
            env: Arc::new(library::environment()),
            slices: BTreeMap::new(),
            selectors: BTreeMap::new(),
            waiting: BTreeSet::new(),
            steps_left: STEPS_PER_TURN,
            in_use: 0,
        }
    }
}

impl CelJudge {
    /// Takes the devices of a slice over. True when some expression matches other devices now.
    pub fn set_slice(&mut self, slice: &ResourceSlice) -> bool {
        let name: Text = slice.metadata.name.as_deref().unwrap_or_default().into();
        self.replace(&name, device::of_slice(slice))
    }

    /// Forgets a slice. True when some expression matches other devices now.
    pub fn remove_slice(&mut self, name: &str) -> bool {
        let changed = self.replace(&name.into(), Vec::new());
        self.slices.remove(name);
        changed
    }

    /// Devices of a slice came in place of others: the sets of all expressions follow.
    fn replace(&mut self, name: &Text, devices: Vec<Device>) -> bool {
        let count = devices.len();
        let before = self.slices.insert(name.clone(), devices).unwrap_or_default();
        let mut taken: BTreeMap<String, BTreeSet<DeviceRef>> = BTreeMap::new();
        let first = (name.clone(), 0);
        let last = (name.clone(), usize::MAX);
        for (expression, selector) in &mut self.selectors {
            let Ok(selector) = selector else { continue };
            self.waiting.remove(&selector.priority(expression));
            let gone: Vec<Place> =
                selector.todo.range(first.clone()..=last.clone()).cloned().collect();
            for place in &gone {
                drop(selector.todo.take(place));
            }
            let was = before.iter().filter(|one| selector.matching.remove(&one.id)).map(ids);
            taken.insert(expression.clone(), was.collect());
            if selector.too_expensive_on.is_none() {
                selector.todo.extend((0..count).map(|at| (name.clone(), at)));
            }
            if !selector.todo.is_empty() {
                self.waiting.insert(selector.priority(expression));
            }
        }
        let evaluated = self.evaluate(CHEAP_STEPS);
        let is_now = |expression: &str| -> BTreeSet<DeviceRef> {
            let devices = self.slices.get(name).into_iter().flatten().map(ids);
            let selector = self.selectors.get(expression).and_then(|one| one.as_ref().ok());
            let matching = selector.map(|selector| &selector.matching);
            devices.filter(|one| matching.is_some_and(|all| all.contains(one))).collect()
        };
        let changed = taken.iter().any(|(expression, was)| *was != is_now(expression));
        // Devices of other slices may have been evaluated on the way.
        changed || evaluated.iter().any(|(slice, _)| slice != name)
    }

    /// Begins a turn: goes on with what was left over, cheap expressions first. True when some expression matches other
    /// devices now.
    pub fn begin_turn(&mut self) -> bool {
        self.steps_left = STEPS_PER_TURN;
        !self.evaluate(MOST_STEPS).is_empty()
    }

    /// Are there devices on which an expression was not evaluated?
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Forgets expressions that no object holds any more, once there are many of them. `used` lists those in use.
    pub fn forget_unused<'a, I: IntoIterator<Item = &'a str>>(&mut self, used: impl FnOnce() -> I) {
        if self.selectors.len() <= 2 * self.in_use + UNUSED_EXPRESSIONS {
            return;
        }
        let used: BTreeSet<&str> = used().into_iter().collect();
        self.selectors.retain(|expression, _| used.contains(expression.as_str()));
        self.waiting.retain(|(_, _, expression)| used.contains(expression.as_str()));
        self.in_use = self.selectors.len();
    }

    /// How many expressions are remembered.
    pub fn expression_count(&self) -> usize {
        self.selectors.len()
    }

    fn selector(&mut self, expression: &str) -> &Result<Selector, String> {
        if !self.selectors.contains_key(expression) {
            let made = self.read(expression);
            if let Ok(selector) = &made
                && !selector.todo.is_empty()
            {
                self.waiting.insert(selector.priority(expression));
            }
            self.selectors.insert(expression.to_owned(), made);
            self.evaluate(CHEAP_STEPS);
        }
        &self.selectors[expression]
    }

    fn read(&self, expression: &str) -> Result<Selector, String> {
        if expression.len() > LONGEST_EXPRESSION {
            return Err(format!("it is longer than {LONGEST_EXPRESSION} bytes"));
        }
        let read = depth::read(&self.env, expression)?;
        let places = |(name, devices): (&Text, &Vec<Device>)| {
            let name = name.clone();
            (0..devices.len()).map(move |at| (name.clone(), at))
        };
        Ok(Selector {
            expression: Costed::new(&read),
            mentions: mentions(expression),
            matching: BTreeSet::new(),
            todo: self.slices.iter().flat_map(places).collect(),
            steps: 0,
            is_heavy: false,
            too_expensive_on: None,
        })
    }

    /// Evaluates what waits, with at most so many steps on one device and as many as are left until the next turn. The
    /// devices that changed what there is to say about an expression.
    fn evaluate(&mut self, most: u64) -> Vec<Place> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        // Without a thread what waits waits for the next turn.
        depth::on_deep_stack(|| self.evaluate_waiting(most)).unwrap_or_default()
    }

    fn evaluate_waiting(&mut self, most: u64) -> Vec<Place> {
        let mut changed = Vec::new();
        while let Some((is_heavy, _, expression)) = self.waiting.first().cloned() {
            if self.steps_left == 0 || (is_heavy && most < MOST_STEPS) {
                break;
            }
            self.waiting.pop_first();
            let Some(Ok(selector)) = self.selectors.get_mut(&expression) else { continue };
            let budget = if is_heavy { MOST_STEPS } else { CHEAP_STEPS };
            let (place, steps) = selector.evaluate_next(&self.env, &self.slices, budget);
            changed.extend(place);
            self.steps_left = self.steps_left.saturating_sub(steps);
            if !selector.todo.is_empty() {
                self.waiting.insert(selector.priority(&expression));
            }
        }
        changed
    }
}

impl DeviceJudge for CelJudge {
    fn matching(&mut self, expressions: &[&str]) -> Result<Matching, String> {
        let mut in_all: Option<BTreeSet<DeviceRef>> = None;
        let mut notices = Vec::new();
        for expression in expressions {
            let selector = self.selector(expression).as_ref().map_err(Clone::clone)?;
            notices.extend(selector.notice());
            in_all = Some(match in_all {
                None => selector.matching.clone(),
                Some(found) => found.intersection(&selector.matching).cloned().collect(),
            });
        }
        let devices = in_all.unwrap_or_default().into_iter().collect();
        Ok(Matching { devices, notices })
    }
}

impl Selector {
    /// Its place among expressions that wait.
    fn priority(&self, expression: &str) -> (bool, u64, String) {
        (self.is_heavy, self.steps, expression.to_owned())
    }

    /// Evaluates it on one more device, where it may cost so much. The device if it matches or was the last, and what it
    /// cost.
    fn evaluate_next(
        &mut self,
        env: &Arc<Env>,
        slices: &BTreeMap<Text, Vec<Device>>,
        budget: u64,
    ) -> (Option<Place>, u64) {
        let Some(place) = self.todo.pop_first() else { return (None, 0) };
        let device = slices.get(&place.0).and_then(|devices| devices.get(place.1));
        let Some(device) = device else { return (None, 0) };
        let mut context = Context::with_env(Arc::clone(env));
        library::add_functions(&mut context);
        context.add_variable_from_value("device", device.value(&self.mentions));
        let Outcome { is_true, is_over_budget, steps } = self.expression.evaluate(context, budget);
        self.steps = self.steps.saturating_add(steps);
        if is_over_budget && budget < MOST_STEPS {
            self.is_heavy = true;
            self.todo.insert(place);
            return (None, steps);
        }
        if is_over_budget {
            self.too_expensive_on = Some(device.id.clone());
            self.todo.clear();
        }
        if is_true {
            self.matching.insert(device.id.clone());
        }
        ((is_true || is_over_budget).then_some(place), steps)
    }

    /// What the author of the expression should know.
    fn notice(&self) -> Option<String> {
        let DeviceRef { driver, pool, device } = self.too_expensive_on.as_ref()?;
        Some(format!(
            "the expression exceeds the cost limit of {MOST_STEPS} on device {driver}/{pool}/{device}; it is not evaluated on other devices"
        ))
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
