//! The order in which jobs are served: queues compete level by level with the next job of their best leaf, the
//! winner's best job is next. Queues that lost a job or got resources compete anew each time.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::config::ActionKind;
use crate::cycle::Cycle;
use crate::cycle::members::Scope;
use crate::fairness::{self, Amounts, Contender, QueueNode, QueueTree};
use crate::ids::{JobId, QueueId};
use crate::report::job_fit::JobError;
use crate::status::Status;
use crate::world::index::JobKey;

/// What a leaf queue competes with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Top {
    /// What its next job asks for; none when victims are ordered.
    pub(crate) job: Option<Amounts>,
    /// What its victims so far and the next one hold.
    pub(crate) victims: Option<Amounts>,
}

impl Top {
    fn contender<'a>(&'a self, queue: &'a QueueNode) -> Contender<'a> {
        Contender { queue, job: self.job.as_ref(), victims: self.victims.as_ref() }
    }
}

/// How queues compete for the next job, or with `reversed` for the next victim.
pub(crate) struct Competition<'a> {
    pub(crate) tree: &'a QueueTree,
    pub(crate) total: &'a Amounts,
    /// Shares decide; false: only age does.
    pub(crate) by_shares: bool,
    /// The last comes first: victims.
    pub(crate) reversed: bool,
}

impl Competition<'_> {
    /// The leaf whose turn it is, of those that have a top; tops are by queue slot.
    pub(crate) fn winner(&self, tops: &[Option<Top>]) -> Option<QueueId> {
        // The order of queues is not transitive: which queues are compared first must not depend on slots.
        let mut roots: SmallVec<[QueueId; 8]> = self.tree.top_queues().collect();
        roots.sort_by(|left, right| self.tree.compare_names(*left, *right));
        self.best(roots.into_iter(), tops).map(|(leaf, _, _)| leaf)
    }

    fn best(
        &self,
        queues: impl Iterator<Item = QueueId>,
        tops: &[Option<Top>],
    ) -> Option<(QueueId, QueueId, Top)> {
        let mut best: Option<(QueueId, QueueId, Top)> = None;
        for queue in queues {
            let node = self.tree.node(queue);
            let entry = if node.children.is_empty() {
                tops.get(queue.index()).copied().flatten().map(|found| (queue, queue, found))
            } else {
                let below = self.best(node.children.iter().copied(), tops);
                below.map(|(leaf, _, found)| (leaf, queue, found))
            };
            let Some(entry) = entry else { continue };
            if best.as_ref().is_none_or(|current| self.beats(&entry, current)) {
                best = Some(entry);
            }
        }
        best
    }

    fn beats(&self, left: &(QueueId, QueueId, Top), right: &(QueueId, QueueId, Top)) -> bool {
        let order = self.compare(left, right);
        if self.reversed { order == Ordering::Greater } else { order == Ordering::Less }
    }

    fn compare(&self, left: &(QueueId, QueueId, Top), right: &(QueueId, QueueId, Top)) -> Ordering {
        let (left_queue, right_queue) = (self.tree.node(left.1), self.tree.node(right.1));
        if !self.by_shares {
            let age = left_queue.shares.created.cmp(&right_queue.shares.created);
            return age.then_with(|| left_queue.name.cmp(&right_queue.name));
        }
        fairness::compare(
            &left.2.contender(left_queue),
            &right.2.contender(right_queue),
            self.total,
        )
    }
}

/// Jobs of one leaf queue that an action has yet to serve.
struct LeafJobs {
    queue: QueueId,
    /// Jobs in job order; those before `next` were taken.
    jobs: Vec<JobId>,
    next: usize,
    /// Jobs that were served and want more.
    returned: BTreeSet<JobKey>,
    /// The job whose turn it is, and what it asks for.
    top: Option<(JobId, Amounts)>,
}

/// Jobs that an action has yet to serve.
pub(crate) struct JobQueue {
    /// Jobs of which only a part could be bound, the last one first: they come before all others, whatever their queue.
    half_bound: Vec<JobId>,
    leaves: Vec<LeafJobs>,
    /// Tops by queue slot, kept to be filled again.
    tops: Vec<Option<Top>>,
}

/// Which jobs an action looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Eligible {
    /// Only those that may be preempted.
    pub(crate) preemptible_only: bool,
    /// Only those that may cause evictions by now.
    pub(crate) past_delay_only: bool,
}

impl JobQueue {
    /// The jobs `action` is to serve.
    pub(crate) fn new(cycle: &mut Cycle<'_>, action: ActionKind, eligible: Eligible) -> Self {
        let depth = cycle.world.config.queue_depth.get(&action).copied().unwrap_or(usize::MAX);
        let queues: Vec<QueueId> = cycle.world.queue_ids.values().copied().collect();
        let (mut leaves, mut half_bound) = (Vec::new(), Vec::new());
        for queue in queues {
            if !cycle.world.is_live_leaf(queue) {
                continue;
            }
            let keys = cycle.world.job_index.of(queue).pending.iter();
            let candidates: Vec<JobId> = keys.map(|key| key.job).collect();
            let mut jobs = Vec::with_capacity(candidates.len());
            for job in candidates {
                if !cycle.is_eligible(job, eligible) {
                    continue;
                }
                let served =
                    if cycle.world.is_half_bound(job) { &mut half_bound } else { &mut jobs };
                served.push(job);
            }
            jobs.truncate(depth);
            if !jobs.is_empty() {
                leaves.push(LeafJobs {
                    queue,
                    jobs,
                    next: 0,
                    returned: BTreeSet::new(),
                    top: None,
                });
            }
        }
        half_bound.sort_by_cached_key(|job| cycle.world.job_key(*job));
        half_bound.reverse();
        let mut queue = Self { half_bound, leaves, tops: Vec::new() };
        queue.leaves.iter_mut().for_each(|leaf| leaf.refresh(cycle));
        queue
    }

    /// Takes the job whose turn it is. Jobs that lost pods in this cycle and have too few left are passed over; KAI
    /// serves them, short of their minimum.
    pub(crate) fn pop(&mut self, cycle: &Cycle<'_>) -> Option<JobId> {
        let as_kai = cycle.world.config.compatibility.is_kai();
        loop {
            let job = self.take(cycle)?;
            if as_kai || cycle.is_ready(job) {
                return Some(job);
            }
        }
    }

    fn take(&mut self, cycle: &Cycle<'_>) -> Option<JobId> {
        if let Some(job) = self.half_bound.pop() {
            return Some(job);
        }
        let world = &cycle.world;
        let competition = Competition {
            tree: &world.tree,
            total: &cycle.total,
            by_shares: world.policy.proportion.is_some(),
            reversed: false,
        };
        let winner = match &self.leaves[..] {
            [] => None,
            [only] => only.top.map(|_| only.queue),
            leaves => {
                self.tops.clear();
                self.tops.resize(world.tree.queues.len(), None);
                for leaf in leaves {
                    let top =
                        leaf.top.map(|(_, amounts)| Top { job: Some(amounts), victims: None });
                    self.tops[leaf.queue.index()] = top;
                }
                competition.winner(&self.tops)
            }
        }?;
        let at = self.leaves.iter().position(|leaf| leaf.queue == winner)?;
        let leaf = &mut self.leaves[at];
        let (job, _) = leaf.top?;
        leaf.drop_top(cycle);
        leaf.refresh(cycle);
        if leaf.top.is_none() {
            self.leaves.remove(at);
        }
        Some(job)
    }

    /// Puts a job back that was served and wants more.
    pub(crate) fn push(&mut self, cycle: &Cycle<'_>, job: JobId) {
        let Some(queue) = cycle.world.job(job).queue else { return };
        let at = self.leaves.iter().position(|leaf| leaf.queue == queue).unwrap_or_else(|| {
            let leaf =
                LeafJobs { queue, jobs: Vec::new(), next: 0, returned: BTreeSet::new(), top: None };
            self.leaves.push(leaf);
            self.leaves.len() - 1
        });
        self.leaves[at].returned.insert(cycle.world.job_key(job));
        self.leaves[at].refresh(cycle);
    }
}

impl LeafJobs {
    fn refresh(&mut self, cycle: &Cycle<'_>) {
        self.top = self.first(cycle).map(|job| (job, cycle.asked_of(job)));
    }

    fn first(&self, cycle: &Cycle<'_>) -> Option<JobId> {
        let fresh = self.jobs.get(self.next).copied();
        match (fresh, self.returned.first()) {
            (None, None) => None,
            (Some(job), None) => Some(job),
            (None, Some(returned)) => Some(returned.job),
            (Some(job), Some(returned)) => {
                if cycle.world.job_key(job) < *returned {
                    Some(job)
                } else {
                    Some(returned.job)
                }
            }
        }
    }

    fn drop_top(&mut self, _: &Cycle<'_>) {
        let Some((job, _)) = self.top.take() else { return };
        if self.jobs.get(self.next) == Some(&job) {
            self.next += 1;
        } else {
            self.returned.retain(|key| key.job != job);
        }
    }
}

/// Waiting jobs of one queue in job order, as far as it was computed.
#[derive(Debug, Default)]
pub(crate) struct WaitingJobs {
    /// With what they ask for, where that was computed while it was as decided.
    entries: Vec<(JobKey, Option<Amounts>)>,
    complete: bool,
}

impl Cycle<'_> {
    /// The first waiting job of `queue` from `position` in job order on that is not `concerned`, with its position and
    /// what it asks for. A set of victims being tried changes what jobs concerned ask for, but neither the others nor
    /// the order, so that what is kept holds for all sets.
    pub(crate) fn bystander(
        &mut self,
        queue: QueueId,
        position: usize,
        concerned: &FxHashSet<JobId>,
    ) -> Option<(usize, JobKey, Amounts)> {
        let mut position = position;
        loop {
            let (key, known) = self.waiting_job(queue, position)?;
            if concerned.contains(&key.job) {
                position += 1;
                continue;
            }
            let (key, known) = (key.clone(), *known);
            let asked = known.unwrap_or_else(|| {
                let tasks = self.world.tasks_to_allocate(Scope::whole(key.job), true);
                self.requested(&tasks, self.world.smallest_gpu_mib())
            });
            self.waiting[queue.index()].entries[position].1 = Some(asked);
            return Some((position, key, asked));
        }
    }

    /// The waiting job at `position` in the job order of `queue`.
    fn waiting_job(
        &mut self,
        queue: QueueId,
        position: usize,
    ) -> Option<&(JobKey, Option<Amounts>)> {
        if self.waiting.len() <= queue.index() {
            self.waiting.resize_with(queue.index() + 1, WaitingJobs::default);
        }
        let waiting = &mut self.waiting[queue.index()];
        while waiting.entries.len() <= position {
            if waiting.complete {
                return None;
            }
            let pending = &self.world.job_index.of(queue).pending;
            let next = match waiting.entries.last() {
                None => pending.first(),
                Some((last, _)) => pending.range((Excluded(last), Unbounded)).next(),
            };
            match next {
                Some(key) => waiting.entries.push((key.clone(), None)),
                None => waiting.complete = true,
            }
        }
        waiting.entries.get(position)
    }

    /// Jobs of the queue changed: what was looked at is out of date.
    pub(crate) fn forget_waiting(&mut self, queue: QueueId) {
        if let Some(waiting) = self.waiting.get_mut(queue.index()) {
            waiting.entries.clear();
            waiting.complete = false;
        }
    }

    fn is_eligible(&mut self, job: JobId, eligible: Eligible) -> bool {
        let entry = self.world.job(job);
        if !entry.spec.schedulable
            || entry.spec.denied.is_some()
            || entry.counts.of(Status::Pending) == 0
            || (eligible.preemptible_only && !self.world.asks_beyond_quota(job, &[]))
            || !self.is_ready(job)
        {
            return false;
        }
        if eligible.past_delay_only
            && entry.spec.never_preempts
            && !self.world.config.compatibility.is_kai()
        {
            return false;
        }
        !(eligible.past_delay_only && self.is_within_preemption_delay(job))
    }

    /// The job may not evict others yet; that is noted once.
    fn is_within_preemption_delay(&mut self, job: JobId) -> bool {
        let entry = self.world.job(job);
        let Some(delay) = entry.spec.preemption_delay.filter(|delay| delay.nanos > 0) else {
            return false;
        };
        let evicted = self.evicted_jobs.get(&job).copied().or(entry.spec.last_eviction);
        let start = evicted.map_or(entry.spec.created, |evicted| evicted.max(entry.spec.created));
        let until = start.plus(delay);
        if self.now >= until {
            return false;
        }
        self.wake_at(until);
        let noted = self.fits.get(&job).is_some_and(|fit| {
            fit.errors.iter().any(|error| matches!(error, JobError::PreemptionDelay { .. }))
        });
        if !noted {
            self.note(job, JobError::PreemptionDelay { delay, until });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use crate::compatibility::Compatibility;
    use crate::cycle::Cycle;
    use crate::cycle::statement::Statement;
    use crate::fairness::{Amounts, QueueResource};
    use crate::ids::JobId;
    use crate::input::{Object, PodGroupSpec};
    use crate::plan::{StepKind, plan};
    use crate::plugins::testing::{
        group, named, node, one_leaf, pod, queue, running, set, task_id, world,
    };
    use crate::time::Timestamp;

    /// Which job gets the last GPU: the rest of a gang, one of whose pods runs or not, or a job that is more urgent.
    fn last_gpu(half_bound: bool, runs: bool) -> String {
        let mut world = world(Compatibility::Right, &[]);
        set(&mut world, Object::Node(Box::new(node("node", 2, &[]))));
        set(&mut world, Object::Queue(queue("queue")));
        let gang = PodGroupSpec { half_bound, ..group("gang", one_leaf(1, None)) };
        let urgent = PodGroupSpec { priority: 90, ..group("urgent", one_leaf(1, None)) };
        for job in [gang, urgent] {
            set(&mut world, Object::PodGroup(Box::new(job)));
        }
        let first = pod("first", if runs { "gang" } else { "no-group" }, 1);
        for pod in [running(first, "node"), pod("second", "gang", 1), pod("rival", "urgent", 1)] {
            set(&mut world, Object::Pod(Box::new(pod)));
        }
        let made = plan(&mut world, Timestamp::default());
        let binds = made.steps.iter().filter(|step| matches!(step.kind, StepKind::Bind { .. }));
        binds.map(|step| &*step.pod.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_rest_of_a_gang_that_is_half_bound_comes_before_all_others() {
        assert_eq!(last_gpu(true, true), "second");
        assert_eq!(last_gpu(false, true), "rival", "a gang whose binds went well waits its turn");
        assert_eq!(last_gpu(true, false), "rival", "one of which nothing is bound does, too");
    }

    /// GPUs that the first bystander of the only queue asks for.
    fn gpus_asked(cycle: &mut Cycle<'_>, concerned: &[JobId]) -> Option<f64> {
        let queue = *cycle.world.queue_ids.get("queue").expect("the queue exists");
        let concerned: FxHashSet<JobId> = concerned.iter().copied().collect();
        let asked = |(_, _, asked): (_, _, Amounts)| asked[QueueResource::Gpu];
        cycle.bystander(queue, 0, &concerned).map(asked)
    }

    #[test]
    fn what_a_job_asks_for_is_not_remembered_from_a_set_of_victims_with_its_pods() {
        let mut world = world(Compatibility::Right, &[]);
        set(&mut world, Object::Node(Box::new(node("node", 2, &[]))));
        set(&mut world, Object::Queue(queue("queue")));
        set(&mut world, Object::PodGroup(Box::new(group("gang", one_leaf(2, None)))));
        for pod in [running(pod("runs", "gang", 2), "node"), pod("waits", "gang", 1)] {
            set(&mut world, Object::Pod(Box::new(pod)));
        }
        let gang = world.job_named(&named("gang")).expect("the job exists");
        let victim = task_id(&world, "runs");
        let mut cycle = Cycle::new(&mut world, Timestamp::default(), None);
        let mut statement = Statement::begin(cycle.world);
        statement.evict(cycle.world, victim);
        assert_eq!(gpus_asked(&mut cycle, &[gang]), None, "it is concerned");
        statement.discard(cycle.world);
        assert_eq!(gpus_asked(&mut cycle, &[]), Some(1.0));
    }
}
