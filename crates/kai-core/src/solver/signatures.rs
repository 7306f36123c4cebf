//! The shortcut for jobs alike: once one failed, jobs with the same constraints that ask for no less are not tried
//! again in the same action. KAI's signature leaves out labels, namespaces and claims and can skip jobs that would
//! run (fault 27); by default they are part of it.

use rustc_hash::FxHashMap;

use crate::cycle::Cycle;
use crate::ids::{JobId, QueueId, TaskId};
use crate::resources::{CPU, FIXED_SLOTS, GPU, MEMORY, PODS, ResourceVector};
use crate::status::Status;
use crate::world::World;
use crate::world::alike::{Alike, AlikeId};
use crate::world::constraint_signature::signature;

/// Failures of one action.
pub(crate) struct Signatures {
    enabled: bool,
    failures: FxHashMap<(Option<QueueId>, u64), Footprint>,
    /// Whether jobs of a class with this signature are worth trying, since the last failure.
    known: FxHashMap<(Option<QueueId>, u64, AlikeId), bool>,
}

/// What a job's pending pods ask for, smallest first.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Footprint(Vec<ResourceVector>);

impl Signatures {
    pub(crate) fn new(cycle: &Cycle<'_>) -> Self {
        let enabled = cycle.world.config.params.use_scheduling_signatures;
        Self { enabled, failures: FxHashMap::default(), known: FxHashMap::default() }
    }

    /// No job alike failed, or this one is easier.
    pub(crate) fn is_worth_trying(
        &mut self,
        cycle: &Cycle<'_>,
        job: JobId,
        queue: Option<QueueId>,
    ) -> bool {
        if !self.enabled || self.failures.is_empty() {
            return true;
        }
        let worth_trying = |signature: u64| {
            let failed = self.failures.get(&(queue, signature));
            failed.is_none_or(|failed| footprint(cycle.world, job).is_easier_than(failed))
        };
        match (cycle.class_of(job), cycle.world.job(job).alike) {
            (Some(class), Alike::Class { signature, .. }) => {
                let known = self.known.entry((queue, signature, class));
                *known.or_insert_with(|| worth_trying(signature))
            }
            _ => worth_trying(signature(cycle.world, job)),
        }
    }

    /// Remembers a failure, the easiest of those alike.
    pub(crate) fn failed(&mut self, cycle: &Cycle<'_>, job: JobId, queue: Option<QueueId>) {
        if !self.enabled {
            return;
        }
        self.known.clear();
        let footprint = footprint(cycle.world, job);
        let entry = self.failures.entry((queue, signature(cycle.world, job)));
        let known = entry.or_insert_with(|| footprint.clone());
        if footprint.is_no_larger_than(known) {
            *known = footprint;
        }
    }
}

impl Footprint {
    fn is_easier_than(&self, other: &Self) -> bool {
        if self.0.is_empty() || other.0.is_empty() {
            return false;
        }
        if other.0.len() > self.0.len() {
            return true;
        }
        self.0.iter().zip(&other.0).any(|(mine, theirs)| is_at_most(mine, theirs) && mine != theirs)
    }

    fn is_no_larger_than(&self, other: &Self) -> bool {
        self.0.len() <= other.0.len()
            && self.0.iter().zip(&other.0).all(|(mine, theirs)| is_at_most(mine, theirs))
    }
}

fn is_at_most(left: &ResourceVector, right: &ResourceVector) -> bool {
    !crate::placement::fit::exceeds(left, right)
}

fn waiting(world: &World, job: JobId) -> impl Iterator<Item = TaskId> + '_ {
    let tasks = world.job(job).tasks();
    tasks.filter(|task| world.task(*task).state.status == Status::Pending)
}

fn footprint(world: &World, job: JobId) -> Footprint {
    let mut requests: Vec<ResourceVector> = waiting(world, job)
        .map(|task| {
            let shape = world.shape_of(task);
            let mut request = shape.request.clone();
            // GPU fractions are compared in the same unit as whole ones.
            request.set(GPU, shape.quota_centi());
            request
        })
        .collect();
    // Slots beyond the fixed ones are given in the order in which objects came, which must not show.
    let key = |vector: &ResourceVector| {
        let fixed = [GPU, CPU, MEMORY, PODS].map(|slot| vector.get(slot));
        let named =
            world.names.by_name(vector).into_iter().filter(|(slot, _)| *slot >= FIXED_SLOTS);
        let named: Vec<_> = named.map(|(slot, amount)| (world.names.name(slot), amount)).collect();
        (fixed, named)
    };
    requests.sort_by_cached_key(key);
    Footprint(requests)
}
