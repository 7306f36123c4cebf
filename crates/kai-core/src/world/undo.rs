//! The undo log: every write of a cycle saves the value it replaces. A checkpoint is a length; a rollback
//! restores saved values in reverse. Nothing is cloned that did not change.

use crate::fairness::Amounts;
use crate::ids::{JobId, NodeId, QueueId, TaskId};
use crate::plugins::dynamicresources::ClaimState;
use crate::plugins::numa::ZoneAmounts;
use crate::time::Timestamp;
use crate::world::node::{Accepted, GpuGroup, NodeAmounts, Resident};
use crate::world::task::TaskState;

/// A value that a write replaced.
#[derive(Clone, Debug)]
pub(crate) enum Undo {
    /// State of a task.
    Task(TaskId, TaskState),
    /// Vectors of a node.
    Amounts(NodeId, NodeAmounts),
    /// Shared devices of a node.
    Groups(NodeId, Vec<GpuGroup>),
    /// A resident was added last.
    ResidentAdded(NodeId),
    /// A resident changed: its position and what it was.
    ResidentChanged(NodeId, usize, Resident),
    /// What a queue holds: all, and what may not be preempted.
    Queue(QueueId, Amounts, Amounts),
    /// What a queue holds of one type of GPU, in hundredths.
    GpuType(usize, QueueId, i64),
    /// Free amounts of a node's NUMA zones.
    Zones(NodeId, ZoneAmounts),
    /// State of a resource claim.
    Claim(usize, ClaimState),
    /// What the core of a semi-preemptible job costs its queue.
    Core(JobId, Accepted),
    /// Start time of a job.
    LastStart(JobId, Option<Timestamp>),
}

/// A point to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Checkpoint(usize);

/// Saved values in the order of the writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoLog {
    /// Saved values, each with the state the world was in before the write.
    entries: Vec<(u64, Undo)>,
    /// The state the world is in: equal numbers, equal worlds.
    state: u64,
    /// Entries written over the log's life; work is counted in them.
    pub(crate) written: u64,
}

impl UndoLog {
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.entries.len())
    }

    pub(crate) fn push(&mut self, entry: Undo) {
        self.written += 1;
        self.entries.push((self.state, entry));
        self.state = self.written;
    }

    /// A number that is equal for equal states of the world within one cycle.
    pub(crate) fn state(&self) -> u64 {
        self.state
    }

    /// The latest entry if it was written after `checkpoint`.
    pub(crate) fn pop_after(&mut self, checkpoint: Checkpoint) -> Option<Undo> {
        if self.entries.len() <= checkpoint.0 {
            return None;
        }
        let (state, entry) = self.entries.pop()?;
        self.state = state;
        self.written += 1;
        Some(entry)
    }

    /// What was written after `checkpoint` and not taken back, oldest first.
    pub(crate) fn since(&self, checkpoint: Checkpoint) -> impl Iterator<Item = &Undo> + '_ {
        self.entries.iter().skip(checkpoint.0).map(|(_, entry)| entry)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
