//! What a cycle found for one job of a class, said of the others without trying them. A finding that depends on what the
//! cycle decided holds for the state of the world it was made in.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cycle::Cycle;
use crate::cycle::members::Scope;
use crate::cycle::refusals::names_the_pod;
use crate::fairness::{Amounts, CapacityViolation, ReclaimRefusal};
use crate::ids::JobId;
use crate::report::job_fit::{JobError, Progress};
use crate::report::searches::SearchReport;
use crate::report::task_fit::TaskFit;
use crate::report::victims::VictimsConsidered;
use crate::world::World;
use crate::world::alike::{Alike, AlikeId, waits_whole};

/// Findings by class.
pub(crate) type Findings = FxHashMap<AlikeId, ClassFindings>;

/// What is known of the jobs of one class.
#[derive(Default)]
pub(crate) struct ClassFindings {
    /// Enough pods exist for an attempt.
    is_ready: Option<bool>,
    /// What a job asks for.
    asked: Option<Amounts>,
    /// Nothing stands against a job that no eviction can change.
    has_hope: bool,
    failure: Option<(u64, Failure)>,
    cannot_reclaim: Option<(u64, ReclaimRefusal)>,
    /// Why no pods can be moved for a job.
    too_little_free: Option<(u64, Arc<VictimsConsidered>)>,
    /// A search of preempt that ended before anything was tried.
    no_victims: Option<(u64, FutileSearch)>,
}

/// How an attempt to allocate failed.
#[derive(Clone)]
enum Failure {
    /// The queue has no capacity left.
    Capacity(CapacityViolation),
    /// A pod found no node.
    NoNode {
        /// Position of the pod in task order.
        position: usize,
        progress: Progress,
        fit: Arc<TaskFit>,
    },
}

/// A search for victims in which none was tried.
#[derive(Clone)]
pub(crate) struct FutileSearch {
    pub(crate) victims: Arc<VictimsConsidered>,
    pub(crate) search: SearchReport,
}

/// Whether jobs of a class are treated alike in this world: no rule looks at labels, claims or zones of pods, and whole
/// GPUs have no names.
pub(super) fn compares_jobs(world: &World) -> bool {
    !world.naive
        && world.policy.numa.is_none()
        && !world.some_pod_repels()
        && !world.claims_are_in_play()
        && !world.has_replica_nodes()
}

impl Cycle<'_> {
    /// The class of a job, while every pod of it waits.
    pub(crate) fn class_of(&self, job: JobId) -> Option<AlikeId> {
        let entry = self.world.job(job);
        let Alike::Class { class, .. } = entry.alike else { return None };
        let holds = self.compares_jobs
            && waits_whole(entry)
            && self.trials.is_none()
            && self.world.terms.has_no_drawn()
            && !self.is_asked_about(Some(job));
        holds.then_some(class)
    }

    /// Enough pods of the job exist for an attempt.
    pub(crate) fn is_ready(&self, job: JobId) -> bool {
        let compute = || self.world.is_ready(job);
        let Some(class) = self.class_of(job) else { return compute() };
        *self.findings.borrow_mut().entry(class).or_default().is_ready.get_or_insert_with(compute)
    }

    /// What the next pods of the job ask of its queue.
    pub(crate) fn asked_of(&self, job: JobId) -> Amounts {
        let compute = || {
            let tasks = self.world.tasks_to_allocate(Scope::whole(job), true);
            self.requested(&tasks, self.world.smallest_gpu_mib())
        };
        let Some(class) = self.class_of(job) else { return compute() };
        *self.findings.borrow_mut().entry(class).or_default().asked.get_or_insert_with(compute)
    }

    /// Whether it is known that an eviction could help jobs like this one.
    pub(crate) fn is_known_to_have_hope(&self, job: JobId) -> bool {
        let class = self.class_of(job);
        class.is_some_and(|class| self.findings.borrow().get(&class).is_some_and(|of| of.has_hope))
    }

    pub(crate) fn remember_hope(&self, job: JobId) {
        self.remember(job, |found, _| found.has_hope = true);
    }

    /// Why jobs like this one may not reclaim, where that is known.
    pub(crate) fn known_reclaim_refusal(&self, job: JobId) -> Option<ReclaimRefusal> {
        self.recall(job, |found| found.cannot_reclaim)
    }

    pub(crate) fn remember_reclaim_refusal(&self, job: JobId, refusal: ReclaimRefusal) {
        self.remember(job, |found, state| found.cannot_reclaim = Some((state, refusal)));
    }

    /// Why no pods can be moved for jobs like this one, where that is known.
    pub(crate) fn known_lack_of_capacity(&self, job: JobId) -> Option<Arc<VictimsConsidered>> {
        self.recall(job, |found| found.too_little_free.clone())
    }

    pub(crate) fn remember_lack_of_capacity(&self, job: JobId, report: &Arc<VictimsConsidered>) {
        self.remember(job, |found, state| {
            found.too_little_free = Some((state, Arc::clone(report)));
        });
    }

    /// The search of preempt for jobs like this one, where it is known to end before anything is tried.
    pub(crate) fn known_futile_search(&self, job: JobId) -> Option<FutileSearch> {
        self.recall(job, |found| found.no_victims.clone())
    }

    pub(crate) fn remember_futile_search(&self, job: JobId, futile: FutileSearch) {
        self.remember(job, |found, state| found.no_victims = Some((state, futile)));
    }

    /// Reports of the job what an attempt for one of its class ended with; false where none failed in this state of the
    /// world.
    pub(crate) fn repeat_failure(&mut self, job: JobId) -> bool {
        let Some(failure) = self.recall(job, |found| found.failure.clone()) else { return false };
        match failure {
            Failure::Capacity(violation) => self.note(job, JobError::Capacity(violation)),
            Failure::NoNode { position, progress, fit } => {
                let task = self.world.job(job).leaves[0].tasks[position];
                self.record_refusals(job, task, fit);
                self.note_no_node(job, task, progress);
            }
        }
        true
    }

    /// Remembers what the only attempt for the job ended with, where it says the same of all jobs alike.
    pub(crate) fn remember_failure(&self, job: JobId) {
        let Some(fit) = self.fits.get(&job) else { return };
        let failure = match (&fit.errors[..], &fit.tasks[..]) {
            ([JobError::Capacity(violation)], []) => Failure::Capacity(*violation),
            ([JobError::NoNode { task, progress, fit }], [(tried, _)]) if task == tried => {
                let leaf = &self.world.job(job).leaves[0];
                let position = leaf.tasks.iter().position(|other| other == task);
                let Some(position) = position else { return };
                if fit.before_nodes.is_some() || names_the_pod(fit) {
                    return;
                }
                Failure::NoNode { position, progress: progress.clone(), fit: Arc::clone(fit) }
            }
            _ => return,
        };
        self.remember(job, |found, state| found.failure = Some((state, failure)));
    }

    /// A finding for the class of the job that holds in the present state of the world.
    fn recall<T>(
        &self,
        job: JobId,
        finding: impl FnOnce(&ClassFindings) -> Option<(u64, T)>,
    ) -> Option<T> {
        let class = self.class_of(job)?;
        let (state, found) = finding(self.findings.borrow().get(&class)?)?;
        (state == self.world.state_id()).then_some(found)
    }

    fn remember(&self, job: JobId, note: impl FnOnce(&mut ClassFindings, u64)) {
        if let Some(class) = self.class_of(job) {
            let mut findings = self.findings.borrow_mut();
            note(findings.entry(class).or_default(), self.world.state_id());
        }
    }
}
