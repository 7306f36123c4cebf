//! The planner: a world in, a plan with reasons out. The world is left as it was found.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::actions;
use crate::config::ActionKind;
use crate::cycle::{Cycle, Decision, DecisionKind};
use crate::fairness::{Amounts, ReclaimRefusal, divide_fair_shares};
use crate::ids::{JobId, TaskId};
use crate::input::devices::Allocation;
use crate::input::{ObjectName, Text};
use crate::plugins::numa::write_zones;
use crate::plugins::reflectjoborder;
use crate::report::broken_bound::BrokenBound;
use crate::report::device_trials::DeviceTrial;
use crate::report::held_back::HeldBack;
use crate::report::job_fit::{JobError, JobFit};
use crate::report::refused_nodes::RefusedNodes;
use crate::report::remembered::{Comparison, Remembered};
use crate::report::searches::SearchReport;
use crate::report::task_fit::TaskFit;
use crate::report::victims::VictimsConsidered;
use crate::report::{explain, preemption_policy, text};
use crate::status::Status;
use crate::time::Timestamp;
use crate::world::World;
use crate::world::in_flight::Assumed;

/// What a cycle decided, and why what waits waits.
#[derive(Clone, PartialEq, Debug)]
pub struct CyclePlan {
    /// Decisions in the order they were made; evictions come in the order they are to be carried out.
    pub steps: Vec<Step>,
    /// Jobs with pods that wait, by name.
    pub waiting: Vec<Arc<JobReport>>,
    /// Jobs that started in this cycle.
    pub started: Vec<ObjectName>,
    /// Jobs that lack members, with since when; none: no longer.
    pub staleness: Vec<(ObjectName, Option<Timestamp>)>,
    /// Jobs whose reclaim disruption budgets delay, with since when.
    pub reclaim_delays: Vec<(ObjectName, Timestamp)>,
    /// Fair share per queue, by name.
    pub fair_shares: Vec<(Text, Amounts)>,
    /// Jobs in the order they would be tried, where that was asked for.
    pub job_order: Vec<OrderedJob>,
    /// The earliest moment at which time alone changes the answer.
    pub wake_at: Option<Timestamp>,
    /// What devices had left when pods were tried, where that was asked for.
    pub device_trials: Vec<DeviceTrial>,
    /// Searches for victims, in the order they were made.
    pub searches: Vec<SearchReport>,
    /// Work done: nodes tried and values saved.
    pub work_units: u64,
}

/// A decision about one pod, to be carried out in the cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The action that made it.
    pub action: ActionKind,
    /// The pod that is bound, nominated or evicted.
    pub pod: ObjectName,
    /// Its UID, as a precondition of the write.
    pub uid: Text,
    /// Pod group of the pod.
    pub group: Option<ObjectName>,
    /// The decision with its details.
    pub kind: StepKind,
}

/// What is decided for a pod.
#[derive(Clone, PartialEq, Debug)]
pub enum StepKind {
    /// Bind the pod to a node on which it fits now.
    Bind {
        /// Name of the node.
        node: Text,
        /// GPU groups of its shared devices; empty for pods that share none.
        gpu_groups: Vec<Text>,
        /// Devices decided for its claims, by claim name.
        claims: Vec<(Text, Allocation)>,
        /// NUMA zones it is expected to get, in the notation of KAI's annotation.
        numa_zones: Option<Text>,
    },
    /// It is nominated to capacity that its victims still hold.
    Nominate {
        /// Name of the node.
        node: Text,
        /// GPU groups of its shared devices; empty for pods that share none.
        gpu_groups: Vec<Text>,
        /// The job it moves for, when it is a victim that moves.
        for_job: Option<ObjectName>,
    },
    /// Evict the pod from its node.
    Evict {
        /// Job that needs its capacity; none when its gang lacks members.
        for_job: Option<ObjectName>,
        /// Number of pods that are evicted together.
        batch: u32,
        /// Why the pod is evicted, in KAI's words.
        message: Text,
        /// The disruption budget that does not allow the eviction and has delayed it long enough.
        overrides_budget: Option<ObjectName>,
    },
}

/// A job in the order in which jobs are tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedJob {
    /// Namespace and name of the pod group.
    pub job: ObjectName,
    /// Name of its leaf queue.
    pub queue: Text,
    /// Priority by which it is ordered in its queue.
    pub priority: i32,
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug)]
pub struct JobReport {
    /// Namespace and name of the pod group.
    pub job: ObjectName,
    /// Name of its queue; the queue may not exist.
    pub queue: Text,
    /// Why it was not even tried; empty where it was.
    pub held_back: Vec<HeldBack>,
    /// Bounds of queues that attempts would have broken: which queue, and by how much.
    pub bounds: Vec<BrokenBound>,
    /// What attempts ended with: KAI's reason and text of each.
    pub errors: Vec<Explanation>,
    /// Why each waiting pod found no node.
    pub pods: Vec<PodReport>,
    /// Why it may not take from other queues.
    pub cannot_reclaim: Option<Text>,
    /// Victims that were looked at, per action.
    pub victims: Vec<VictimsConsidered>,
}

/// Why a pod found no node.
#[derive(Clone, PartialEq, Debug)]
pub struct PodReport {
    /// Namespace and name of the pod.
    pub pod: ObjectName,
    /// Why the pod found no node, in KAI's words.
    pub message: Text,
    /// Nodes that refused it; shared by pods with the same refusals.
    pub nodes: Arc<RefusedNodes>,
}

/// A reason and its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Explanation {
    /// Machine-readable reason, as KAI writes it.
    pub reason: Text,
    /// Text shown by default.
    pub message: Text,
    /// Text shown when details are requested.
    pub detail: Text,
}

/// Plans one cycle and leaves the world as it was found.
pub fn plan(world: &mut World, now: Timestamp) -> CyclePlan {
    plan_and_observe(world, now, |_| {})
}

/// Plans one cycle; `observe` is called with the world as it is after the plan.
pub fn plan_and_observe(
    world: &mut World,
    now: Timestamp,
    observe: impl FnOnce(&World),
) -> CyclePlan {
    run_cycle(world, now, Details::default(), observe)
}

/// The same plan, with the reasons of one job in full: every node and every running job that was looked at is named.
pub fn plan_and_explain(
    world: &mut World,
    now: Timestamp,
    asked_about: &ObjectName,
    observe: impl FnOnce(&World),
) -> CyclePlan {
    let details = Details { asked_about: world.job_named(asked_about), ..Details::default() };
    run_cycle(world, now, details, observe)
}

/// The same plan, for metrics and the log: `passed` is called when the world is ready for actions and behind every
/// action, and what devices had left is noted where `device_trials` asks for it.
pub fn plan_and_measure(
    world: &mut World,
    now: Timestamp,
    device_trials: bool,
    mut passed: impl FnMut(Milestone),
) -> CyclePlan {
    let details = Details { asked_about: None, device_trials, passed: Some(&mut passed) };
    run_cycle(world, now, details, |_| {})
}

/// Where a cycle has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Milestone {
    /// Shares are divided and the world is ready for actions.
    Opened,
    /// An action is done.
    Acted(ActionKind),
}

/// What is reported beside the plan.
#[derive(Default)]
struct Details<'a> {
    /// A job whose reasons are reported in full.
    asked_about: Option<JobId>,
    /// What devices had left is noted.
    device_trials: bool,
    /// Called at every milestone of the cycle.
    passed: Option<&'a mut dyn FnMut(Milestone)>,
}

fn run_cycle(
    world: &mut World,
    now: Timestamp,
    mut details: Details<'_>,
    observe: impl FnOnce(&World),
) -> CyclePlan {
    world.settle_ranks();
    world.settle_classes();
    world.load_shares();
    if let Some(arguments) = world.policy.proportion {
        let total = world.cluster_amounts();
        let compatibility = world.config.compatibility;
        divide_fair_shares(&mut world.tree, &total, arguments.k_value, compatibility);
    }
    world.affinity_skips.clear();
    let start = world.checkpoint();
    let mut cycle = Cycle::new(world, now, details.asked_about);
    cycle.trials = details.device_trials.then(Vec::new);
    cycle.mark_stuck_pods();
    cycle.note_missing_queues();
    let job_order = if cycle.world.policy.reflects_job_order {
        reflectjoborder::job_order(&mut cycle)
    } else {
        Vec::new()
    };
    let mut passed = |milestone: Milestone| {
        if let Some(passed) = &mut details.passed {
            passed(milestone);
        }
    };
    passed(Milestone::Opened);
    for action in cycle.world.config.actions.clone() {
        actions::run(&mut cycle, action);
        passed(Milestone::Acted(action));
    }
    let plan = CyclePlan { job_order, ..cycle.conclude() };
    observe(cycle.world);
    cycle.restore(start);
    plan
}

/// Notes the decisions of a plan as in flight, until the cluster confirms or refutes them.
pub fn assume(world: &mut World, plan: &CyclePlan) {
    for step in &plan.steps {
        if let Some(assumed) = Assumed::of(step, world.assumed.get(&step.pod)) {
            world.assumed.insert(step.pod.clone(), assumed);
            world.refresh_bound_pod(&step.pod);
        }
    }
}

impl Cycle<'_> {
    /// Marks pods that were evicted too long ago as stuck: they are not expected to end soon.
    fn mark_stuck_pods(&mut self) {
        let due = self.world.releasing_pods();
        for (moment, task) in due {
            if moment <= self.now {
                self.world.turn(task, Status::StuckInReleasing, false);
                self.touch(task);
            } else {
                self.wake_at(moment);
            }
        }
        self.settle_index();
    }

    fn note_missing_queues(&mut self) {
        for job in self.world.jobs_without_queue() {
            let queue = self.world.job(job).spec.queue.clone();
            self.note(job, JobError::QueueDoesNotExist(queue));
        }
    }

    fn conclude(&mut self) -> CyclePlan {
        // Reasons of jobs that no longer wait are dropped before the plan is written, which takes as much memory.
        let waiting = self.waiting_reports();
        self.fits.clear();
        let steps = self.decisions.iter().map(|decision| self.step(decision)).collect();
        let mut started: Vec<ObjectName> = Vec::new();
        for decision in &self.decisions {
            if let (DecisionKind::Bind { .. }, Some(job)) =
                (&decision.kind, self.world.task(decision.task).job)
            {
                let entry = self.world.job(job);
                if entry.last_start != entry.spec.last_start {
                    started.push(entry.spec.name.clone());
                }
            }
        }
        started.sort();
        started.dedup();
        let tree = &self.world.tree;
        let fair_shares = self
            .world
            .queue_ids
            .iter()
            .map(|(name, id)| (name.clone(), tree.shares(*id).fair_share))
            .collect();
        let name = |job: &JobId| self.world.job(*job).spec.name.clone();
        let mut staleness: Vec<_> =
            self.staleness.iter().map(|(job, since)| (name(job), *since)).collect();
        staleness.sort();
        let delays = self.reclaim_delays.iter();
        let mut reclaim_delays: Vec<_> = delays.map(|(job, since)| (name(job), *since)).collect();
        reclaim_delays.sort();
        CyclePlan {
            steps,
            waiting,
            started,
            staleness,
            reclaim_delays,
            fair_shares,
            job_order: Vec::new(),
            device_trials: self.trials.take().unwrap_or_default(),
            searches: std::mem::take(&mut self.searches),
            wake_at: self.wake_at,
            work_units: self.work(),
        }
    }

    fn step(&self, decision: &Decision) -> Step {
        let task = self.world.task(decision.task);
        let job_name = |job: &JobId| self.world.job(*job).spec.name.clone();
        let groups = |groups: &crate::world::node::Groups| -> Vec<Text> {
            groups.iter().map(|group| self.world.group_name(*group).clone()).collect()
        };
        let kind = match &decision.kind {
            DecisionKind::Bind { node, groups: ids } => StepKind::Bind {
                node: self.world.node(*node).name().clone(),
                gpu_groups: groups(ids),
                claims: self.world.claim_allocations(decision.task),
                numa_zones: write_zones(&self.world.predicted_zones(decision.task)),
            },
            DecisionKind::Nominate { node, groups: ids, for_job } => StepKind::Nominate {
                node: self.world.node(*node).name().clone(),
                gpu_groups: groups(ids),
                for_job: for_job.filter(|job| task.job != Some(*job)).as_ref().map(job_name),
            },
            DecisionKind::Evict { for_job, batch } => {
                let overrides_budget = self.overridden_budget(decision.task, *for_job);
                let why = text::eviction(self.world, decision.action, decision.task, *for_job);
                let message = match &overrides_budget {
                    None => why.into(),
                    Some(budget) => text::overridden(&why, budget).into(),
                };
                let for_job = for_job.as_ref().map(job_name);
                StepKind::Evict { for_job, batch: *batch, message, overrides_budget }
            }
        };
        Step {
            action: decision.action,
            pod: task.spec.name.clone(),
            uid: Arc::clone(&task.spec.uid),
            group: task.job.as_ref().map(job_name),
            kind,
        }
    }

    /// Reports of all jobs with pods that wait. What attempts noted is used up.
    fn waiting_reports(&mut self) -> Vec<Arc<JobReport>> {
        let mut remembered = std::mem::take(&mut self.world.reports);
        let mut texts = RenderedTexts::default();
        let mut comparison = Comparison::default();
        let mut jobs = self.waiting_jobs();
        // Nearly in the order of names, which makes sorting by them cheap.
        jobs.sort_by_key(|job| remembered.position(*job));
        let mut reports = Vec::with_capacity(jobs.len());
        for job in jobs {
            let held_back = self.held_back(job);
            let fit = self.fits.remove(&job).map(|fit| *fit).unwrap_or_default();
            if self.class_of(job).is_none() {
                remembered.forget(job);
                reports.push((job, Arc::new(self.report(job, &fit, held_back, &mut texts))));
                continue;
            }
            let known = remembered.find(job, &fit, &held_back, &mut comparison);
            let report = known.unwrap_or_else(|| {
                let report = Arc::new(self.report(job, &fit, held_back.clone(), &mut texts));
                let made = Arc::clone(&report);
                remembered.keep(job, Remembered { fit, held_back, report, position: 0 });
                made
            });
            reports.push((job, report));
        }
        reports.sort_by(|(_, left), (_, right)| left.job.cmp(&right.job));
        for (position, (job, _)) in reports.iter().enumerate() {
            remembered.set_position(*job, position);
        }
        self.world.reports = remembered;
        reports.into_iter().map(|(_, report)| report).collect()
    }

    fn report(
        &self,
        job: JobId,
        fit: &JobFit,
        held_back: Vec<HeldBack>,
        texts: &mut RenderedTexts,
    ) -> JobReport {
        let entry = self.world.job(job);
        let bounds = self.broken_bounds(entry.queue, fit);
        let explain_error = |error: &JobError| match error {
            JobError::NoNode { task, progress, fit } => {
                let (cause, _) = texts.of_refusals(self.world, fit);
                text::explain_no_node(self.world, *task, progress, &cause)
            }
            other => text::explain(self.world, other),
        };
        let errors = fit.errors.iter().map(explain_error).collect();
        let mut pod_report = |task: &TaskId, fit: &Arc<TaskFit>| {
            let (message, nodes) = texts.of_refusals(self.world, fit);
            PodReport { pod: self.world.task(*task).spec.name.clone(), message, nodes }
        };
        let mut pods: Vec<PodReport> = fit
            .tasks
            .iter()
            .filter(|(task, _)| self.world.task(*task).state.status == Status::Pending)
            .map(|(task, fit)| pod_report(task, fit))
            .collect();
        pods.sort_by(|left, right| left.pod.cmp(&right.pod));
        let refusal =
            fit.cannot_reclaim.map(|refusal| texts.of_reclaim_refusal(self.world, refusal));
        let cannot_reclaim = preemption_policy::never_preempts(self.world, job).or(refusal);
        JobReport {
            job: entry.spec.name.clone(),
            queue: entry.spec.queue.clone(),
            held_back,
            bounds,
            errors,
            pods,
            cannot_reclaim,
            victims: fit
                .victims
                .iter()
                .map(|victims| self.with_rendered_refusal(victims))
                .collect(),
        }
    }

    /// Victims with their last refusal as text: slots of queues mean nothing outside the world.
    fn with_rendered_refusal(&self, victims: &VictimsConsidered) -> VictimsConsidered {
        let refusal = victims.refusal.as_ref();
        let words = refusal.map(|refusal| explain::reclaim_refusal(self.world, refusal).into());
        VictimsConsidered { last_refusal: words, refusal: None, ..victims.clone() }
    }
}

/// Texts of refusals, rendered once for all pods that share a refusal.
#[derive(Default)]
struct RenderedTexts {
    /// By where the shared refusals are kept; never in the order of results.
    known: FxHashMap<*const TaskFit, (Text, Arc<RefusedNodes>)>,
    /// Why the job before may not take from other queues: jobs of one queue with the same request get the same text.
    last_refusal: Option<(ReclaimRefusal, Text)>,
}

impl RenderedTexts {
    fn of_reclaim_refusal(&mut self, world: &World, refusal: ReclaimRefusal) -> Text {
        match &self.last_refusal {
            Some((last, text)) if *last == refusal => text.clone(),
            _ => {
                let text: Text = explain::reclaim_refusal(world, &refusal).into();
                self.last_refusal = Some((refusal, text.clone()));
                text
            }
        }
    }

    fn of_refusals(&mut self, world: &World, fit: &Arc<TaskFit>) -> (Text, Arc<RefusedNodes>) {
        let words = || (text::task_fit(world, fit).into(), Arc::new(RefusedNodes::of(world, fit)));
        self.known.entry(Arc::as_ptr(fit)).or_insert_with(words).clone()
    }
}
