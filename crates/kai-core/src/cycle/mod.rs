//! One cycle: the actions run on the world in order, each seeing what earlier ones decided. The world is left as it
//! was found; the decisions are the plan.

pub(crate) mod alike;
pub(crate) mod attempt;
pub(crate) mod held_back;
pub(crate) mod members;
pub(crate) mod order;
pub(crate) mod protection;
pub(crate) mod refusals;
pub(crate) mod statement;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::config::ActionKind;
use crate::cycle::alike::Findings;
use crate::cycle::statement::{OperationKind, Statement};
use crate::fairness::Amounts;
use crate::ids::{JobId, NodeId, TaskId};
use crate::plugins::topology::TopologyScores;
use crate::report::device_trials::DeviceTrial;
use crate::report::job_fit::{JobError, JobFit};
use crate::report::searches::SearchReport;
use crate::report::task_fit::TaskFit;
use crate::report::victims::VictimsConsidered;
use crate::solver::ruled_out::RuledOut;
use crate::solver::single_nodes::NodeYields;
use crate::time::Timestamp;
use crate::world::World;
use crate::world::node::Groups;
use crate::world::shape::ShapeId;

/// State of one cycle: the world it changes, and what was decided and noted so far.
pub(crate) struct Cycle<'w> {
    pub(crate) world: &'w mut World,
    pub(crate) now: Timestamp,
    /// The job to be explained: its reasons are reported in full.
    asked_about: Option<JobId>,
    /// What our pods may use of the cluster.
    pub(crate) total: Amounts,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) fits: BTreeMap<JobId, Box<JobFit>>,
    /// Jobs whose pods changed, for the index to be put right in the end.
    touched: Vec<JobId>,
    /// How many of those the index knows already.
    settled: usize,
    /// Number of times a pod was tried on a node; part of the work units.
    pub(crate) tried: u64,
    /// Values that earlier cycles saved.
    written_before: u64,
    pub(crate) topology: TopologyScores,
    /// Refusals of whole-cluster searches by shape, with the state of the world they hold for.
    refusals: FxHashMap<ShapeId, (u64, Arc<TaskFit>)>,
    /// What was found for jobs alike.
    findings: RefCell<Findings>,
    /// Jobs of a class are treated alike.
    compares_jobs: bool,
    /// Waiting jobs by queue slot, as far as computed since the queue last changed.
    waiting: Vec<order::WaitingJobs>,
    /// What nodes yield to consolidation, as far as it was computed.
    pub(crate) yields: NodeYields,
    /// Pods for which consolidation cannot find victims.
    pub(crate) ruled_out: RuledOut,
    /// Last time a job was evicted in this cycle.
    pub(crate) evicted_jobs: BTreeMap<JobId, Timestamp>,
    /// Since when jobs are stale; none: no longer.
    pub(crate) staleness: BTreeMap<JobId, Option<Timestamp>>,
    /// Since when disruption budgets delay reclaimers.
    pub(crate) reclaim_delays: BTreeMap<JobId, Timestamp>,
    /// Reclaimers that disruption budgets have delayed long enough.
    pub(crate) budget_overrides: BTreeSet<JobId>,
    /// The earliest moment at which time alone changes the answer.
    pub(crate) wake_at: Option<Timestamp>,
    /// What devices had left when pods were tried, on request.
    pub(crate) trials: Option<Vec<DeviceTrial>>,
    /// Searches for victims, in the order they were made.
    pub(crate) searches: Vec<SearchReport>,
}

/// A decision of the cycle, in the order they were made.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Decision {
    pub(crate) action: ActionKind,
    pub(crate) task: TaskId,
    pub(crate) kind: DecisionKind,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum DecisionKind {
    Bind { node: NodeId, groups: Groups },
    Nominate { node: NodeId, groups: Groups, for_job: Option<JobId> },
    Evict { for_job: Option<JobId>, batch: u32 },
}

impl<'w> Cycle<'w> {
    pub(crate) fn new(world: &'w mut World, now: Timestamp, asked_about: Option<JobId>) -> Self {
        let total = world.cluster_amounts();
        let written_before = world.log.written;
        let compares_jobs = alike::compares_jobs(world);
        Self {
            world,
            now,
            asked_about,
            total,
            decisions: Vec::new(),
            fits: BTreeMap::new(),
            touched: Vec::new(),
            settled: 0,
            tried: 0,
            written_before,
            topology: TopologyScores::default(),
            refusals: FxHashMap::default(),
            findings: RefCell::default(),
            compares_jobs,
            waiting: Vec::new(),
            yields: NodeYields::default(),
            ruled_out: RuledOut::default(),
            evicted_jobs: BTreeMap::new(),
            staleness: BTreeMap::new(),
            reclaim_delays: BTreeMap::new(),
            budget_overrides: BTreeSet::new(),
            wake_at: None,
            trials: None,
            searches: Vec::new(),
        }
    }

    /// Whether the reasons of the job are to be reported in full.
    pub(crate) fn is_asked_about(&self, job: Option<JobId>) -> bool {
        self.asked_about.is_some() && self.asked_about == job
    }

    /// An empty report of the victims considered for `job`.
    pub(crate) fn victims_report(&self, action: ActionKind, job: JobId) -> VictimsConsidered {
        let report = VictimsConsidered::new(action);
        if self.is_asked_about(Some(job)) { report.naming_every_job() } else { report }
    }

    /// Work done so far, in units: nodes tried and values saved.
    pub(crate) fn work(&self) -> u64 {
        self.tried + (self.world.log.written - self.written_before)
    }

    /// Time alone changes the answer at `moment`, if it lies ahead.
    pub(crate) fn wake_at(&mut self, moment: Timestamp) {
        if moment > self.now && self.wake_at.is_none_or(|earliest| moment < earliest) {
            self.wake_at = Some(moment);
        }
    }

    pub(crate) fn note(&mut self, job: JobId, error: JobError) {
        self.fits.entry(job).or_default().add_error(error);
    }

    /// Notes why a job was not tried, unless an earlier attempt noted an error.
    pub(crate) fn note_first_error(&mut self, job: JobId, error: JobError) {
        let fit = self.fits.entry(job).or_default();
        if fit.errors.is_empty() {
            fit.add_error(error);
        }
    }

    /// Makes the standing decisions of a statement part of the plan. `for_job` is the job they serve.
    pub(crate) fn commit(
        &mut self,
        action: ActionKind,
        statement: &Statement,
        for_job: Option<JobId>,
    ) {
        let evictions = statement
            .standing()
            .filter(|operation| matches!(operation.kind, OperationKind::Evict { .. }))
            .count() as u32;
        let standing: Vec<(TaskId, OperationKind)> =
            statement.standing().map(|operation| (operation.task, operation.kind)).collect();
        for (task, kind) in standing {
            let kind = match kind {
                OperationKind::Evict { .. } => {
                    self.world.mark_decided(task);
                    if let Some(job) = self.world.task(task).job {
                        self.evicted_jobs.insert(job, self.now);
                    }
                    DecisionKind::Evict { for_job, batch: evictions }
                }
                OperationKind::Nominate { node } => {
                    let groups = self.world.task(task).state.groups.clone();
                    DecisionKind::Nominate { node, groups, for_job }
                }
                OperationKind::Allocate { node } => {
                    self.world.mark_binding(task);
                    let groups = self.world.task(task).state.groups.clone();
                    DecisionKind::Bind { node, groups }
                }
            };
            self.decisions.push(Decision { action, task, kind });
            self.touch(task);
        }
        self.world.log.commit();
        self.settle_index();
    }

    /// Remembers that pods of the task's job changed for good.
    pub(crate) fn touch(&mut self, task: TaskId) {
        if let Some(job) = self.world.task(task).job {
            self.touched.push(job);
        }
    }

    /// Brings the index of jobs up to date after a commit.
    pub(crate) fn settle_index(&mut self) {
        let mut jobs: Vec<JobId> = self.touched[self.settled..].to_vec();
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            self.world.reindex_job(job);
            if let Some(queue) = self.world.job(job).queue {
                self.forget_waiting(queue);
            }
        }
        self.settled = self.touched.len();
    }

    /// Leaves the world as it was found.
    pub(crate) fn restore(&mut self, start: crate::world::Checkpoint) {
        self.world.rollback(start);
        self.world.log.shrink();
        let mut jobs = std::mem::take(&mut self.touched);
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            self.world.reindex_job(job);
        }
    }

    /// Refusals of a search over all nodes, reused while the world has not changed.
    pub(crate) fn known_refusals(&self, shape: ShapeId) -> Option<Arc<TaskFit>> {
        let (state, fit) = self.refusals.get(&shape)?;
        (!self.world.naive && *state == self.world.state_id()).then(|| Arc::clone(fit))
    }

    pub(crate) fn remember_refusals(&mut self, shape: ShapeId, fit: &Arc<TaskFit>) {
        self.refusals.insert(shape, (self.world.state_id(), Arc::clone(fit)));
    }
}
