//! Why a job did not run: one entry per attempt that failed, and the refusals of each of its pods.

use std::sync::Arc;

use crate::fairness::{CapacityViolation, ReclaimRefusal};
use crate::ids::TaskId;
use crate::input::Text;
use crate::plugins::topology::TopologyRefusal;
use crate::report::task_fit::TaskFit;
use crate::report::victims::VictimsConsidered;
use crate::time::{Span, Timestamp};

/// Why a job did not run.
#[derive(Clone, Debug, Default)]
pub struct JobFit {
    /// Attempts that failed, in order.
    pub errors: Vec<JobError>,
    /// Refusals of each of its pods, by slot of the pod.
    pub tasks: Vec<(TaskId, Arc<TaskFit>)>,
    /// Why it may not take from other queues.
    pub cannot_reclaim: Option<ReclaimRefusal>,
    /// Victims that were looked at for it.
    pub victims: Vec<Arc<VictimsConsidered>>,
}

impl JobFit {
    /// Adds an attempt that failed. Most jobs have one: vectors that grow by themselves would take four times that.
    pub(crate) fn add_error(&mut self, error: JobError) {
        self.errors.reserve_exact(1);
        self.errors.push(error);
    }

    /// Refusals of one of its pods.
    pub(crate) fn of_pod(&self, pod: TaskId) -> Option<&Arc<TaskFit>> {
        let at = self.tasks.binary_search_by_key(&pod, |(known, _)| *known).ok()?;
        Some(&self.tasks[at].1)
    }

    /// Records refusals of a pod; `merge` adds them to those that the pod has already.
    pub(crate) fn set_pod(
        &mut self,
        pod: TaskId,
        fit: Arc<TaskFit>,
        merge: impl FnOnce(&mut Arc<TaskFit>, Arc<TaskFit>),
    ) {
        match self.tasks.binary_search_by_key(&pod, |(known, _)| *known) {
            Ok(at) => merge(&mut self.tasks[at].1, fit),
            Err(at) => {
                if self.tasks.is_empty() {
                    self.tasks.reserve_exact(1);
                }
                self.tasks.insert(at, (pod, fit));
            }
        }
    }

    /// Adds victims that were looked at.
    pub(crate) fn add_victims(&mut self, victims: impl Into<Arc<VictimsConsidered>>) {
        self.victims.reserve_exact(1);
        self.victims.push(victims.into());
    }

    /// No attempt left a word.
    pub fn says_nothing(&self) -> bool {
        self.errors.is_empty()
            && self.tasks.is_empty()
            && self.cannot_reclaim.is_none()
            && self.victims.is_empty()
    }
}

/// One attempt that failed.
#[derive(Clone, Debug)]
pub enum JobError {
    /// Its queue does not exist.
    QueueDoesNotExist(Text),
    /// It would break a limit or a quota.
    Capacity(CapacityViolation),
    /// A pod found no node.
    NoNode {
        /// Pod that found no node.
        task: TaskId,
        /// How far the gang came.
        progress: Progress,
        /// Refusals of the pod.
        fit: Arc<TaskFit>,
    },
    /// Its pods cannot be together as asked.
    Topology(Box<TopologyRefusal>),
    /// It may not evict others yet.
    PreemptionDelay {
        /// Configured delay after its creation or its last eviction.
        delay: Span,
        /// Moment at which the delay ends.
        until: Timestamp,
    },
}

/// How far an attempt came before a pod found no node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The pod is not needed for a gang to be whole.
    Alone,
    /// Pods of the only leaf that found a node, and how many are needed.
    Gang {
        /// Pods that found a node in this attempt.
        found: u32,
        /// Pods that the gang needs.
        needed: u32,
    },
    /// The same for one leaf of several.
    SubGroup {
        /// Pods of the leaf that found a node in this attempt.
        found: u32,
        /// Name of the leaf.
        name: Text,
        /// Pods that the leaf needs.
        needed: u32,
    },
}
