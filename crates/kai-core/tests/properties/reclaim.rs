//! No pod is evicted beyond what the rules of fairness allow, judged from the plan alone: every victim unit is taken
//! while its queue, before that unit, holds more than its fair share, and the queue that takes stays within its
//! own fair share.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::config::ActionKind;
use kai_core::fairness::{
    Amounts, QueueResource, QueueTree, Reclaimer, UNLIMITED, involved_resources, levelled_queues,
};
use kai_core::ids::{QueueId, TaskId};
use kai_core::input::ObjectName;
use kai_core::plan::{CyclePlan, Step, StepKind, plan};
use kai_core::status::Status;
use kai_core::world::World;
use kai_core::world::shape::GpuDemand;
use proptest::prelude::*;

use crate::worlds::{messy_cluster, now, show, tidy_cluster};

/// Leaves of these worlds have no more pods than this.
const MOST_WHO_STAY: usize = 4;

/// Queues as the plan changes them, step by step.
struct Replay<'w> {
    world: &'w World,
    tree: QueueTree,
    /// What each pod costs its queue by now.
    charged: BTreeMap<TaskId, Amounts>,
    /// Pods that the plan bound so far.
    bound: BTreeSet<TaskId>,
}

/// A number without the noise of sums.
fn exact(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn above(allocated: f64, bound: f64) -> bool {
    bound != UNLIMITED && exact(allocated) > exact(bound)
}

/// As [`above`], by the reference's arithmetic: fair shares and what is left of a queue are differences of sums, and
/// where devices are divided the last bits alone may put a queue above its bound.
fn above_or_noise(allocated: f64, bound: f64) -> bool {
    let is_whole = |number: f64| number.fract() == 0.0;
    above(allocated, bound)
        || !(is_whole(allocated) && is_whole(bound))
            && bound != UNLIMITED
            && exact(allocated) == exact(bound)
}

fn exceeds(allocated: &Amounts, bounds: &Amounts) -> bool {
    QueueResource::ALL.into_iter().any(|resource| above(allocated[resource], bounds[resource]))
}

/// The job that a step serves.
fn taker(step: &Step) -> Option<&ObjectName> {
    match &step.kind {
        StepKind::Bind { .. } => step.group.as_ref(),
        StepKind::Nominate { for_job, .. } => for_job.as_ref().or(step.group.as_ref()),
        StepKind::Evict { for_job, .. } => for_job.as_ref(),
    }
}

impl<'w> Replay<'w> {
    fn new(world: &'w World) -> Self {
        let mut charged = BTreeMap::new();
        for (id, task) in world.tasks() {
            let lost =
                task.state.status == Status::Unknown && !world.config().compatibility.is_kai();
            if (task.state.status.is_allocated() || lost) && task.leaf.is_some() {
                charged.insert(id, task.state.accepted.amounts());
            }
        }
        Self { world, tree: world.queue_tree().clone(), charged, bound: BTreeSet::new() }
    }

    /// Whether by the planner's arithmetic more may be allocated than the bound.
    fn may_exceed(&self, allocated: &Amounts, bounds: &Amounts) -> bool {
        let is_above =
            if self.world.config().compatibility.is_kai() { above_or_noise } else { above };
        QueueResource::ALL
            .into_iter()
            .any(|resource| is_above(allocated[resource], bounds[resource]))
    }

    fn queue_of(&self, task: TaskId) -> Option<QueueId> {
        self.world.task(task).job.and_then(|job| self.world.job(job).queue)
    }

    fn charge(&mut self, task: TaskId, amounts: Amounts, sign: f64) {
        let Some(queue) = self.queue_of(task) else { return };
        let job = self.world.task(task).job.expect("it has a queue");
        let preemptible = self.world.job(job).is_preemptible();
        for queue in self.tree.clone().chain(queue) {
            let shares = &mut self.tree.queues[queue.index()].shares;
            for resource in QueueResource::ALL {
                shares.allocated[resource] += sign * amounts[resource];
                if !preemptible {
                    shares.allocated_non_preemptible[resource] += sign * amounts[resource];
                }
            }
        }
    }

    fn carry_out(&mut self, step: &Step) {
        let task = self.world.task_named(&step.pod).expect("plans speak of pods there are");
        match &step.kind {
            StepKind::Evict { .. } => {
                let allocated = self.charged.remove(&task).unwrap_or(Amounts::ZERO);
                self.charge(task, allocated, -1.0);
                self.bound.remove(&task);
            }
            StepKind::Bind { node, .. } | StepKind::Nominate { node, .. } => {
                let node = self.world.node_named(node).expect("plans speak of nodes there are");
                let shape = self.world.shape_of(task);
                let compatibility = self.world.config().compatibility;
                let amounts = self.world.node(node).accepted(shape, compatibility).amounts();
                self.charged.insert(task, amounts);
                self.charge(task, amounts, 1.0);
                if matches!(step.kind, StepKind::Bind { .. }) {
                    self.bound.insert(task);
                }
            }
        }
    }

    /// What the pods that are nominated for their own job ask for.
    fn reclaimer(&self, steps: &[Step], queue: QueueId, preemptible: bool) -> Reclaimer {
        let memories = self.world.nodes().map(|(_, node)| node.gpus.memory_mib);
        let smallest = memories.filter(|mib| *mib > 100).min().or(Some(100));
        let (mut required, mut slices) = (Amounts::ZERO, 0);
        for step in steps {
            if let StepKind::Nominate { for_job: None, .. } = step.kind {
                let task = self.world.task_named(&step.pod).expect("it is there");
                let shape = self.world.shape_of(task);
                required += shape.queue_cost().amounts(smallest);
                if let GpuDemand::Mig { slices: more, .. } = shape.gpu {
                    slices += more;
                }
            }
        }
        let plain = required[QueueResource::Gpu] - slices as f64;
        let involved = involved_resources(&required, plain, self.world.config().compatibility);
        Reclaimer { queue, required, involved, preemptible }
    }

    /// Units of eviction, by victim job: pods beyond a leaf's minimum one by one, then the rest as one. Pods tried
    /// as victims that stay fill the minimum first; the plan does not show how many those are, `tried_and_stay` says.
    fn units(&self, steps: &[Step], tried_and_stay: usize) -> Vec<Vec<(QueueId, Amounts)>> {
        let moves = |pod: &ObjectName| {
            let is_nominated =
                |step: &Step| step.pod == *pod && matches!(step.kind, StepKind::Nominate { .. });
            self.world.config().params.allow_consolidating_reclaim && steps.iter().any(is_nominated)
        };
        let mut jobs: Vec<(ObjectName, Vec<TaskId>)> = Vec::new();
        for step in steps {
            if !matches!(step.kind, StepKind::Evict { .. }) || moves(&step.pod) {
                continue;
            }
            let job = step.group.clone().expect("victims have a group");
            let task = self.world.task_named(&step.pod).expect("it is there");
            match jobs.iter_mut().find(|(name, _)| *name == job) {
                Some((_, tasks)) => tasks.push(task),
                None => jobs.push((job, vec![task])),
            }
        }
        jobs.iter().map(|(job, tasks)| self.units_of(job, tasks, tried_and_stay)).collect()
    }

    fn units_of(
        &self,
        job: &ObjectName,
        tasks: &[TaskId],
        tried_and_stay: usize,
    ) -> Vec<(QueueId, Amounts)> {
        let job = self.world.job(self.world.job_named(job).expect("it is there"));
        let queue = job.queue.expect("victims have a queue");
        let allocated = |task: &TaskId| self.charged.get(task).copied().unwrap_or(Amounts::ZERO);
        let (mut units, mut core) = (Vec::new(), None);
        for (at, leaf) in job.leaves.iter().enumerate() {
            let of_leaf =
                tasks.iter().filter(|task| self.world.task(**task).leaf == Some(at as u32));
            let filled = tried_and_stay.min(self.staying(&leaf.tasks, tasks));
            for (position, task) in of_leaf.enumerate() {
                if filled + position < leaf.declared.min_available as usize {
                    *core.get_or_insert(Amounts::ZERO) += allocated(task);
                } else {
                    units.push((queue, allocated(task)));
                }
            }
        }
        units.extend(core.map(|core| (queue, core)));
        units
    }

    /// How many of `all` hold a place and are not evicted.
    fn staying(&self, all: &[TaskId], gone: &[TaskId]) -> usize {
        let holds = |task: &&TaskId| {
            let status = self.world.task(**task).state.status;
            let is_bound = status.is_active_allocated() || self.bound.contains(task);
            self.charged.contains_key(task) && is_bound
        };
        all.iter().filter(holds).filter(|task| !gone.contains(task)).count()
    }

    fn check_commit(&self, steps: &[Step]) -> Result<(), TestCaseError> {
        let job = taker(&steps[0]).expect("reclaim serves a job");
        let job = self.world.job(self.world.job_named(job).expect("it is there"));
        let queue = job.queue.expect("it has a queue");
        let reclaimer = self.reclaimer(steps, queue, job.is_preemptible());
        let shares = self.tree.shares(queue);
        let would_hold = shares.allocated + reclaimer.required;
        prop_assert!(
            !exceeds(&would_hold, &shares.fair_share),
            "{} takes beyond its fair share: {would_hold:?} of {:?}",
            job.spec.name,
            shares.fair_share
        );
        let is_allowed = |units: &Vec<Vec<(QueueId, Amounts)>>| {
            permutations(units.len()).iter().any(|order| {
                let units = order.iter().flat_map(|at| units[*at].iter().copied());
                self.are_allowed(&reclaimer, units)
            })
        };
        let allowed = (0..=MOST_WHO_STAY).any(|stay| is_allowed(&self.units(steps, stay)));
        let units = self.units(steps, 0);
        prop_assert!(allowed, "{} takes what is guaranteed to others: {units:?}", job.spec.name);
        Ok(())
    }

    /// What KAI may count as lost although it stays: where moving counts as loss, every victim that a search tried does
    /// (fault 26), those of queues on the reclaimer's own path too. The plan does not show them.
    fn may_count_as_lost(&self, reclaimer: QueueId) -> BTreeMap<QueueId, Amounts> {
        let mut stay = BTreeMap::new();
        let config = self.world.config();
        if !config.compatibility.is_kai() || config.params.allow_consolidating_reclaim {
            return stay;
        }
        for (task, amounts) in &self.charged {
            let job = self.world.task(*task).job.map(|job| self.world.job(job));
            let queue = job.filter(|job| job.is_preemptible()).and_then(|job| job.queue);
            for queue in queue.into_iter().filter(|queue| *queue != reclaimer) {
                for queue in self.tree.chain(queue) {
                    *stay.entry(queue).or_insert(Amounts::ZERO) += *amounts;
                }
            }
        }
        stay
    }

    /// Unit by unit, then as a whole.
    fn are_allowed(
        &self,
        reclaimer: &Reclaimer,
        units: impl Iterator<Item = (QueueId, Amounts)>,
    ) -> bool {
        let mut left = self.tree.clone();
        let mut lost: BTreeMap<QueueId, Amounts> = BTreeMap::new();
        for (queue, unit) in units {
            let (own, other) = levelled_queues(&self.tree, reclaimer.queue, queue);
            let own = self.tree.shares(own);
            let victim = left.shares(other);
            let within_quota = !exceeds(&(own.allocated + reclaimer.required), &own.deserved);
            let above_share = self.may_exceed(&victim.allocated, &victim.allocatable());
            let above_quota = self.may_exceed(&victim.allocated, &victim.deserved);
            if !(above_share || (within_quota && above_quota)) {
                return false;
            }
            for queue in self.tree.chain(queue) {
                left.queues[queue.index()].shares.allocated -= unit;
                *lost.entry(queue).or_insert(Amounts::ZERO) += unit;
            }
        }
        let stay = self.may_count_as_lost(reclaimer.queue);
        self.tree.chain(reclaimer.queue).all(|queue| {
            let siblings = lost.iter().filter(|(sibling, _)| {
                **sibling != queue && self.tree.parent(**sibling) == self.tree.parent(queue)
            });
            let fair = siblings
                .into_iter()
                .all(|(sibling, unit)| is_fair(&left, &stay, reclaimer, queue, *sibling, unit));
            let shares = self.tree.shares(queue);
            let would_hold = shares.allocated_non_preemptible + reclaimer.required;
            fair && (reclaimer.preemptible || !exceeds(&would_hold, &shares.deserved))
        })
    }
}

/// A queue above its fair share is less saturated than the sibling that lost something. What `stay` names may count as
/// lost too.
fn is_fair(
    left: &QueueTree,
    stay: &BTreeMap<QueueId, Amounts>,
    reclaimer: &Reclaimer,
    queue: QueueId,
    sibling: QueueId,
    lost: &Amounts,
) -> bool {
    let saturation = |allocated: f64, share: f64| match share {
        UNLIMITED => 0.0,
        0.0 if exact(allocated) > 0.0 => f64::INFINITY,
        0.0 => 0.0,
        share => exact(allocated / share),
    };
    QueueResource::ALL.into_iter().all(|resource| {
        if lost[resource] <= 0.0 && !reclaimer.involved.contains(resource) {
            return true;
        }
        let (own, other) = (left.shares(queue), left.shares(sibling));
        let counted = own.allocated[resource] - stay.get(&queue).map_or(0.0, |stay| stay[resource]);
        let allocated = counted + reclaimer.required[resource];
        let own = saturation(allocated, own.fair_share[resource]);
        let share = other.fair_share[resource];
        own <= 1.0 || share <= 0.0 || own < saturation(other.allocated[resource], share)
    })
}

/// Every order of a few things, one order of many.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count > 5 {
        return vec![(0..count).collect()];
    }
    let mut orders = vec![Vec::new()];
    for at in 0..count {
        let longer = |order: &Vec<usize>| -> Vec<Vec<usize>> {
            let insert = |place: usize| {
                let mut longer = order.clone();
                longer.insert(place, at);
                longer
            };
            (0..=order.len()).map(insert).collect()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

fn check(world: &World, plan: &CyclePlan) -> Result<(), TestCaseError> {
    if world.config().compatibility.is_kai() && crate::evicts_twice(plan) {
        // What a victim had is credited to its queue twice: KAI's shares are wrong from there on.
        return Ok(());
    }
    let mut replay = Replay::new(world);
    let mut rest = &plan.steps[..];
    while let Some(first) = rest.first() {
        let together = |step: &&Step| step.action == first.action && taker(step) == taker(first);
        let count = rest.iter().take_while(together).count();
        let (commit, later) = rest.split_at(count);
        rest = later;
        if first.action == ActionKind::Reclaim {
            replay
                .check_commit(commit)
                .map_err(|error| TestCaseError::fail(format!("{error}\n{}", show::steps(plan))))?;
        }
        for step in commit {
            replay.carry_out(step);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases(2_000))]

    #[test]
    fn victims_are_taken_only_as_far_as_fairness_allows(
        cluster in prop_oneof![messy_cluster().boxed(), tidy_cluster().boxed()],
    ) {
        let mut world = cluster.world();
        let plan = plan(&mut world, now());
        check(&world, &plan)?;
    }
}
