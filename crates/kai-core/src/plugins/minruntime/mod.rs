//! minruntime: a victim that started a short while ago is left alone.
//!
//! Rules: a job is protected until its last start plus the minimum runtime that holds for it. Preemption takes the
//! minimum of the victim's queue or the nearest queue above that has one. Reclaim, by the method `queue`, does the
//! same with its own minimum; by the method `lca` it starts at the queue just below the lowest queue that is above
//! both jobs, on the victim's side, and looks upwards from there; jobs under different tops use the victim's top
//! alone. The configured default holds where no queue says anything.
//!
//! A protected job is no victim, unless it is elastic: then it may lose pods down to what each leaf needs.

mod duration;

pub use duration::parse_duration;

use crate::config::PluginSpec;
use crate::ids::{JobId, QueueId, TaskId};
use crate::plugins::Policy;
use crate::status::Status;
use crate::time::{Span, Timestamp};
use crate::world::World;
use crate::world::job::{Job, Leaf};

/// Arguments of the plugin.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments {
    /// Minimum runtime before preemption where no queue says anything.
    pub default_preempt: Span,
    /// Minimum runtime before reclaim where no queue says anything.
    pub default_reclaim: Span,
    /// Where reclaim looks for the minimum.
    pub method: ResolveMethod,
}

/// Where reclaim looks for the minimum runtime of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolveMethod {
    /// From just below the lowest queue above both jobs upwards.
    LowestCommonAncestor,
    /// From the victim's queue upwards.
    Queue,
}

/// Why a job would be evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A job of the same queue with a higher priority wants its place.
    Preempt,
    /// Another queue wants its share back.
    Reclaim,
}

pub(super) fn register(policy: &mut Policy, plugin: &PluginSpec) {
    let span = |key: &str| {
        let given = plugin.argument(key).and_then(parse_duration);
        given.filter(|span| *span > Span::ZERO).unwrap_or(Span::ZERO)
    };
    let method = match plugin.argument("reclaimResolveMethod") {
        Some("queue") => ResolveMethod::Queue,
        _ => ResolveMethod::LowestCommonAncestor,
    };
    policy.min_runtime = Some(Arguments {
        default_preempt: span("defaultPreemptMinRuntime"),
        default_reclaim: span("defaultReclaimMinRuntime"),
        method,
    });
}

impl Arguments {
    /// Jobs are protected even where their queues say nothing.
    pub(crate) fn has_defaults(&self) -> bool {
        self.default_preempt > Span::ZERO || self.default_reclaim > Span::ZERO
    }
}

/// How long `victim` must have run before `taker` may evict it; none without the plugin.
pub(crate) fn min_runtime(
    world: &World,
    cause: Cause,
    taker: JobId,
    victim: JobId,
) -> Option<Span> {
    let arguments = world.policy.min_runtime.as_ref()?;
    let victim_queue = world.job(victim).queue;
    let found = match cause {
        Cause::Preempt => victim_queue.and_then(|queue| nearest(world, cause, queue)),
        Cause::Reclaim => match (world.job(taker).queue, victim_queue) {
            (Some(taker), Some(victim)) => reclaim_min_runtime(world, arguments, taker, victim),
            _ => None,
        },
    };
    Some(found.unwrap_or(match cause {
        Cause::Preempt => arguments.default_preempt,
        Cause::Reclaim => arguments.default_reclaim,
    }))
}

fn reclaim_min_runtime(
    world: &World,
    arguments: &Arguments,
    taker: QueueId,
    victim: QueueId,
) -> Option<Span> {
    if arguments.method == ResolveMethod::Queue {
        return nearest(world, Cause::Reclaim, victim);
    }
    let taker_path = path_from_top(world, taker);
    let victim_path = path_from_top(world, victim);
    let shared =
        taker_path.iter().zip(&victim_path).take_while(|(left, right)| left == right).count();
    // Without a common top the tops are siblings, and only the victim's top speaks for it.
    let below_common = victim_path.get(shared).or(victim_path.last())?;
    if shared == 0 {
        return own(world, Cause::Reclaim, *below_common);
    }
    nearest(world, Cause::Reclaim, *below_common)
}

/// The minimum of `queue` or the nearest queue above that has one.
fn nearest(world: &World, cause: Cause, queue: QueueId) -> Option<Span> {
    own(world, cause, queue)
        .or_else(|| world.tree.chain(queue).find_map(|queue| own(world, cause, queue)))
}

/// The minimum that `queue` itself has; queues made up by the planner have none.
fn own(world: &World, cause: Cause, queue: QueueId) -> Option<Span> {
    let spec = world.queue_specs.get(queue.index())?;
    match cause {
        Cause::Preempt => spec.preempt_min_runtime,
        Cause::Reclaim => spec.reclaim_min_runtime,
    }
}

/// `queue` and the queues above it, the top first. A queue that reaches no top is its own.
fn path_from_top(world: &World, queue: QueueId) -> Vec<QueueId> {
    let mut path: Vec<QueueId> = world.tree.chain(queue).collect();
    if path.is_empty() {
        path.push(queue);
    }
    path.reverse();
    path
}

/// Until when `victim` is protected from `taker`: at that moment time alone changes the answer. None when it never
/// started or nothing protects it.
pub(crate) fn protected_until(
    world: &World,
    cause: Cause,
    taker: JobId,
    victim: JobId,
) -> Option<Timestamp> {
    let started = world.job(victim).last_start?;
    let span = min_runtime(world, cause, taker, victim)?;
    (span > Span::ZERO).then(|| started.plus(span))
}

/// Whether `victim` is protected from `taker` at `now`.
pub(crate) fn is_protected(
    world: &World,
    now: Timestamp,
    cause: Cause,
    taker: JobId,
    victim: JobId,
) -> bool {
    protected_until(world, cause, taker, victim).is_some_and(|until| now < until)
}

/// Whether `victim` may be considered at all; what an elastic job keeps is decided per scenario.
pub(crate) fn may_be_victim(
    world: &World,
    now: Timestamp,
    cause: Cause,
    taker: JobId,
    victim: JobId,
) -> bool {
    is_elastic(world.job(victim)) || !is_protected(world, now, cause, taker, victim)
}

/// Whether a simulated scenario leaves `victim` what it is protected to keep. `tasks` are its pods among the
/// scenario's victims; the world is as the simulation left it.
pub(crate) fn allows_victims(
    world: &World,
    now: Timestamp,
    cause: Cause,
    taker: JobId,
    victim: JobId,
    tasks: &[TaskId],
) -> bool {
    let job = world.job(victim);
    if !is_elastic(job) || !is_protected(world, now, cause, taker, victim) {
        return true;
    }
    let mut leaves = job.leaves.iter().enumerate();
    leaves.all(|(at, leaf)| {
        let of_leaf = |task: &&TaskId| world.task(**task).leaf == Some(at as u32);
        keeps_enough(world, leaf, tasks.iter().filter(of_leaf))
    })
}

/// KAI counts every victim of the scenario as lost, also one that found another place or stayed (fault 26), and
/// pods that are releasing anyway as kept. Really lost are the pods that are releasing when the simulation ends.
fn keeps_enough<'a>(
    world: &World,
    leaf: &Leaf,
    victims: impl Iterator<Item = &'a TaskId> + Clone,
) -> bool {
    let needed = i64::from(leaf.declared.min_available);
    if world.config.compatibility.is_kai() {
        let named = victims.count() as i64;
        return named == 0 || needed <= i64::from(leaf.counts.active_used()) - named;
    }
    let loses = |task: &TaskId| world.task(*task).state.status == Status::Releasing;
    !victims.clone().any(loses) || needed <= i64::from(leaf.counts.active_allocated())
}

/// Some leaf has more pods than it needs.
fn is_elastic(job: &Job) -> bool {
    job.leaves.iter().any(|leaf| (leaf.declared.min_available as usize) < leaf.tasks.len())
}

#[cfg(test)]
mod tests;
