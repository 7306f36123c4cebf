//! Reports of waiting jobs, kept from cycle to cycle: a job of which there is nothing new to say gets the report it had.
//! A report follows from what attempts noted, from the job and its pods, and from names of queues; when one of the latter
//! changes, the report is forgotten.

use std::sync::Arc;

use crate::ids::JobId;
use crate::plan::JobReport;
use crate::report::held_back::HeldBack;
use crate::report::job_fit::{JobError, JobFit};
use crate::report::task_fit::TaskFit;
use crate::report::victims::VictimsConsidered;

/// At most this many reports are kept: each takes about a kilobyte.
const MOST_REPORTS: usize = 10_000;

/// Reports by job.
#[derive(Clone, Debug, Default)]
pub(crate) struct RememberedReports {
    by_job: Vec<Option<Box<Remembered>>>,
    kept: usize,
}

/// A report, and what it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) fit: JobFit,
    pub(crate) held_back: Vec<HeldBack>,
    pub(crate) report: Arc<JobReport>,
    /// Where it was among all reports, which are sorted by name.
    pub(crate) position: usize,
}

impl RememberedReports {
    /// The report of the job, if that was made from the same.
    pub(crate) fn find(
        &self,
        job: JobId,
        fit: &JobFit,
        held_back: &[HeldBack],
        comparison: &mut Comparison,
    ) -> Option<Arc<JobReport>> {
        let known = self.by_job.get(job.index())?.as_ref()?;
        let same = known.held_back == held_back && comparison.are_same(&known.fit, fit);
        same.then(|| Arc::clone(&known.report))
    }

    pub(crate) fn keep(&mut self, job: JobId, remembered: Remembered) {
        self.forget(job);
        if self.kept >= MOST_REPORTS {
            return;
        }
        if self.by_job.len() <= job.index() {
            self.by_job.resize_with(job.index() + 1, || None);
        }
        self.by_job[job.index()] = Some(Box::new(remembered));
        self.kept += 1;
    }

    /// The job changed.
    pub(crate) fn forget(&mut self, job: JobId) {
        if self.by_job.get_mut(job.index()).is_some_and(|known| known.take().is_some()) {
            self.kept -= 1;
        }
    }

    /// Queues changed.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Where the report of the job was among all reports; jobs without come last.
    pub(crate) fn position(&self, job: JobId) -> usize {
        let known = self.by_job.get(job.index()).and_then(Option::as_ref);
        known.map_or(usize::MAX, |known| known.position)
    }

    pub(crate) fn set_position(&mut self, job: JobId, position: usize) {
        if let Some(known) = self.by_job.get_mut(job.index()).and_then(Option::as_mut) {
            known.position = position;
        }
    }
}

/// Compares what attempts noted. Many jobs share their refusals: the same two are compared once.
#[derive(Default)]
pub(crate) struct Comparison {
    refusals: LastCompared<TaskFit>,
    victims: [LastCompared<VictimsConsidered>; 2],
}

impl Comparison {
    fn are_same(&mut self, known: &JobFit, new: &JobFit) -> bool {
        known.cannot_reclaim == new.cannot_reclaim
            && known.errors.len() == new.errors.len()
            && known.tasks.len() == new.tasks.len()
            && known.victims.len() == new.victims.len()
            && known.errors.iter().zip(&new.errors).all(|(one, other)| self.same_error(one, other))
            && known.tasks.iter().zip(&new.tasks).all(|((task, one), (other_task, other))| {
                task == other_task && self.refusals.are_equal(one, other)
            })
            && known.victims.iter().zip(&new.victims).enumerate().all(|(at, (one, other))| {
                match self.victims.get_mut(at) {
                    Some(last) => last.are_equal(one, other),
                    None => one == other,
                }
            })
    }

    fn same_error(&mut self, one: &JobError, other: &JobError) -> bool {
        match (one, other) {
            (
                JobError::NoNode { task, progress, fit },
                JobError::NoNode { task: other_task, progress: other_progress, fit: other },
            ) => {
                task == other_task
                    && progress == other_progress
                    && self.refusals.are_equal(fit, other)
            }
            (JobError::Capacity(one), JobError::Capacity(other)) => one == other,
            _ => false,
        }
    }
}

/// The two that were compared last, and whether they are equal.
struct LastCompared<T>(Option<(Arc<T>, Arc<T>, bool)>);

impl<T> Default for LastCompared<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> LastCompared<T> {
    fn are_equal(&mut self, one: &Arc<T>, other: &Arc<T>) -> bool {
        if Arc::ptr_eq(one, other) {
            return true;
        }
        if let Some((last_one, last_other, equal)) = &self.0
            && Arc::ptr_eq(last_one, one)
            && Arc::ptr_eq(last_other, other)
        {
            return *equal;
        }
        let equal = one == other;
        self.0 = Some((Arc::clone(one), Arc::clone(other), equal));
        equal
    }
}
