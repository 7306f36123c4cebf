//! The planner of `kai-core` in the runner's words.
//!
//! A cluster state is translated into the core's objects. From cycle to cycle only what changed is handed
//! over, so that every scenario of several cycles also tests the world's incremental upkeep.

mod config;
mod devices;
mod jobs;
mod nodes;
mod outcome;
mod selectors;
mod storage;

use std::collections::BTreeMap;

use kai_core::config::Config;
use kai_core::input::{Delta, Object, ObjectKey};
use kai_core::plan::{plan_and_explain, plan_and_observe};
use kai_core::time::{Span, Timestamp};
use kai_core::world::World;

use super::{Planner, PlannerError};
use crate::format::Action;
use crate::outcome::CycleOutcome;
use crate::state::{ClusterState, Job};

/// Time 0 of a scenario: some day, so that no time of a scenario is one that means "not set".
const ZERO_S: f64 = 1_767_225_600.0;

/// Drives the core's planner.
#[derive(Debug, Default)]
pub struct CorePlanner {
    known: Option<Known>,
    /// The job whose reasons are reported in full.
    asked_about: Option<String>,
}

/// The world, and the objects that were applied to it.
#[derive(Debug)]
struct Known {
    config: Config,
    world: World,
    objects: BTreeMap<ObjectKey, Object>,
}

impl CorePlanner {
    /// A planner that reports the reasons of one job in full, node by node and victim by victim.
    pub fn asked_about(job: Option<String>) -> Self {
        Self { known: None, asked_about: job }
    }

    /// Brings the core's world up to `state`.
    fn update(&mut self, state: &ClusterState) -> Result<&mut World, PlannerError> {
        let config = config::translate(&state.config);
        let known = match self.known.take() {
            Some(known) if known.config == config => known,
            _ => Known { world: World::new(config.clone()), config, objects: BTreeMap::new() },
        };
        let known = self.known.insert(known);
        let objects = objects(state);
        for delta in changes(&known.objects, &objects) {
            let problems = known.world.apply(delta).problems;
            if let Some(problem) = problems.first() {
                return Err(PlannerError(format!("the core refused an object: {problem}")));
            }
        }
        known.objects = objects;
        Ok(&mut known.world)
    }
}

impl Planner for CorePlanner {
    fn cycle(
        &mut self,
        state: &ClusterState,
        actions: &[Action],
        now_s: f64,
    ) -> Result<CycleOutcome, PlannerError> {
        let named = |job: &&Job| Some(&job.name) == self.asked_about.as_ref();
        let asked_about = state.jobs.iter().find(named).map(|job| jobs::name_of(job, &job.name));
        let world = self.update(state)?;
        if actions.is_empty() {
            let mut outcome = outcome::states(state, world);
            outcome::add_times(&mut outcome, state, now_s);
            return Ok(outcome);
        }
        let mut outcome = CycleOutcome::default();
        let observe = |world: &World| outcome = outcome::states(state, world);
        let plan = match asked_about {
            Some(job) => plan_and_explain(world, timestamp(now_s), &job, observe),
            None => plan_and_observe(world, timestamp(now_s), observe),
        };
        outcome::add_plan(&mut outcome, state, &plan, now_s);
        Ok(outcome)
    }
}

/// Everything in `state` as objects of the core.
fn objects(state: &ClusterState) -> BTreeMap<ObjectKey, Object> {
    let mut objects = BTreeMap::new();
    let parts = [
        nodes::translate(state),
        devices::translate(state),
        storage::translate(state),
        jobs::translate(state),
    ];
    objects.extend(parts.into_iter().flatten());
    objects
}

/// Settings of a scenario as configuration of the core.
pub(crate) fn core_config(settings: &crate::state::Config) -> Config {
    config::translate(settings)
}

/// The core's objects at time 0, in an order in which they can be applied, and that moment.
pub(crate) fn core_objects(state: &ClusterState) -> (Vec<Object>, Timestamp) {
    (objects(state).into_values().collect(), timestamp(0.0))
}

/// The deltas that lead from `before` to `after`. The order of keys puts
/// nodes and queues before what refers to them.
fn changes(
    before: &BTreeMap<ObjectKey, Object>,
    after: &BTreeMap<ObjectKey, Object>,
) -> Vec<Delta> {
    let gone = before.keys().filter(|key| !after.contains_key(key));
    let gone = gone.map(|key| Delta::Remove(key.clone()));
    let changed = after.iter().filter(|(key, object)| before.get(key) != Some(object));
    gone.chain(changed.map(|(_, object)| Delta::Set(object.clone()))).collect()
}

/// A time of the runner's clock on the core's.
fn timestamp(at_s: f64) -> Timestamp {
    Timestamp::from_seconds(ZERO_S + at_s)
}

/// The other way round.
fn seconds(moment: Timestamp) -> f64 {
    moment.nanos as f64 / 1e9 - ZERO_S
}

fn span(seconds: f64) -> Span {
    Span::from_seconds(seconds)
}

#[cfg(test)]
mod tests;
