//! The order in which victims are collected, kept for all probes of a search.
//!
//! As long as every victim job is evicted as one, what a probe collects does not depend on what earlier probes took: jobs
//! that were taken whole are passed over, all others come in the same order. A job that gives some pods first, or of
//! which a part was taken, comes back changed; from then on a probe collects for itself.

use crate::cycle::Cycle;
use crate::cycle::members::Tasks;
use crate::ids::JobId;
use crate::solver::victim_queue::{Candidates, VictimQueue};

/// One step of collecting.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) job: JobId,
    pub(crate) tasks: Tasks,
}

/// The steps that were needed so far.
#[derive(Default)]
pub(crate) struct Trace {
    queue: Option<VictimQueue>,
    steps: Vec<Step>,
    /// Some job gives only some of its pods.
    broken: bool,
    /// No victims are left.
    complete: bool,
}

/// What comes at a position.
pub(crate) enum At<'a> {
    Step(&'a Step),
    End,
    /// From here on a probe must collect for itself.
    Broken,
}

impl Trace {
    pub(crate) fn at(
        &mut self,
        cycle: &Cycle<'_>,
        candidates: &Candidates,
        position: usize,
    ) -> At<'_> {
        while self.steps.len() <= position && !self.broken && !self.complete {
            let queue = self.queue.get_or_insert_with(|| VictimQueue::new(cycle, candidates));
            match queue.pop(cycle, candidates) {
                None => self.complete = true,
                Some(victims) if victims.batch.more => self.broken = true,
                Some(victims) => {
                    self.steps.push(Step { job: victims.job, tasks: victims.batch.tasks });
                }
            }
        }
        match self.steps.get(position) {
            Some(step) => At::Step(step),
            None if self.broken => At::Broken,
            None => At::End,
        }
    }
}
