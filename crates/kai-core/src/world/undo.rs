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
    ResidentChanged(NodeId, u32, Resident),
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

/// The log keeps memory for this many entries between cycles.
const MOST_KEPT_ENTRIES: usize = 1 << 14;

/// Saved values in the order of the writes. Values of the common kinds are kept apart, so that a small one does not take
/// the memory of the largest.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoLog {
    /// The kind of each saved value, with the state the world was in before the write.
    entries: Vec<(u64, Kind)>,
    tasks: Vec<(TaskId, TaskState)>,
    amounts: Vec<(NodeId, NodeAmounts)>,
    residents: Vec<(NodeId, u32, Resident)>,
    queues: Vec<(QueueId, Amounts, Amounts)>,
    others: Vec<Undo>,
    /// The state the world is in: equal numbers, equal worlds.
    state: u64,
    /// Entries written over the log's life; work is counted in them.
    pub(crate) written: u64,
}

/// Where a saved value is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Task,
    Amounts,
    Resident,
    Queue,
    Other,
}

impl UndoLog {
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.entries.len())
    }

    pub(crate) fn push(&mut self, entry: Undo) {
        self.written += 1;
        let kind = match entry {
            Undo::Task(task, state) => {
                self.tasks.push((task, state));
                Kind::Task
            }
            Undo::Amounts(node, amounts) => {
                self.amounts.push((node, amounts));
                Kind::Amounts
            }
            Undo::ResidentChanged(node, at, resident) => {
                self.residents.push((node, at, resident));
                Kind::Resident
            }
            Undo::Queue(queue, allocated, non_preemptible) => {
                self.queues.push((queue, allocated, non_preemptible));
                Kind::Queue
            }
            other => {
                self.others.push(other);
                Kind::Other
            }
        };
        self.entries.push((self.state, kind));
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
        let (state, kind) = self.entries.pop()?;
        self.state = state;
        self.written += 1;
        match kind {
            Kind::Task => self.tasks.pop().map(|(task, state)| Undo::Task(task, state)),
            Kind::Amounts => self.amounts.pop().map(|(node, amounts)| Undo::Amounts(node, amounts)),
            Kind::Resident => {
                let changed = self.residents.pop();
                changed.map(|(node, at, resident)| Undo::ResidentChanged(node, at, resident))
            }
            Kind::Queue => {
                let charged = self.queues.pop();
                charged.map(|(queue, all, fixed)| Undo::Queue(queue, all, fixed))
            }
            Kind::Other => self.others.pop(),
        }
    }

    /// Nodes whose vectors were written after `checkpoint` and not taken back.
    pub(crate) fn nodes_since(&self, checkpoint: Checkpoint) -> impl Iterator<Item = NodeId> + '_ {
        let written = self.written_since(checkpoint, Kind::Amounts);
        self.amounts[self.amounts.len() - written..].iter().map(|(node, _)| *node)
    }

    /// Tasks that were written after `checkpoint` and not taken back.
    pub(crate) fn tasks_since(&self, checkpoint: Checkpoint) -> impl Iterator<Item = TaskId> + '_ {
        let written = self.written_since(checkpoint, Kind::Task);
        self.tasks[self.tasks.len() - written..].iter().map(|(task, _)| *task)
    }

    fn written_since(&self, checkpoint: Checkpoint, wanted: Kind) -> usize {
        self.entries.iter().skip(checkpoint.0).filter(|(_, kind)| *kind == wanted).count()
    }

    /// Gives memory back that an unusually large cycle took; the log must be empty.
    pub(crate) fn shrink(&mut self) {
        if self.entries.capacity() > MOST_KEPT_ENTRIES {
            let (state, written) = (self.state, self.written);
            *self = Self { state, written, ..Self::default() };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
