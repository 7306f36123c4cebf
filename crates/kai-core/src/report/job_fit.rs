//! Why a job did not run: one entry per attempt that failed, and the refusals of each of its pods.

use std::collections::BTreeMap;
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
    /// Refusals of each of its pods.
    pub tasks: BTreeMap<TaskId, Arc<TaskFit>>,
    /// Why it may not take from other queues.
    pub cannot_reclaim: Option<ReclaimRefusal>,
    /// Victims that were looked at for it.
    pub victims: Vec<VictimsConsidered>,
}

impl JobFit {
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
        /// The pod.
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
        /// The delay.
        delay: Span,
        /// When it ends.
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
        /// Found.
        found: u32,
        /// Needed.
        needed: u32,
    },
    /// The same for one leaf of several.
    SubGroup {
        /// Found.
        found: u32,
        /// Name of the leaf.
        name: Text,
        /// Needed.
        needed: u32,
    },
}
