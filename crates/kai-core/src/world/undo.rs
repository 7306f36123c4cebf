//! The undo log: every write of a cycle saves the value it replaces. A checkpoint is a length; a rollback
//! restores saved values in reverse. Nothing is cloned that did not change.
//!
//! Committed decisions are only ever reverted all at once, when the cycle ends. Of what they wrote the oldest value of each
//! task, node and queue is enough, and the others are dropped.

use crate::fairness::Amounts;
use crate::ids::{JobId, NodeId, QueueId, TaskId};
use crate::plugins::dynamicresources::ClaimState;
use crate::plugins::numa::ZoneAmounts;
use crate::time::Timestamp;
use crate::world::node::{Accepted, GpuGroup, NodeAmounts, Resident};
use crate::world::slot_set::SlotSet;
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
    added_residents: Vec<NodeId>,
    queues: Vec<(QueueId, Amounts, Amounts)>,
    others: Vec<Undo>,
    committed: Committed,
    /// The state the world is in: equal numbers, equal worlds.
    state: u64,
    /// Entries written over the log's life; work is counted in them.
    pub(crate) written: u64,
}

/// What the log knows of committed writes.
#[derive(Clone, Debug, Default)]
struct Committed {
    /// Entries of committed writes; all others come behind them.
    entries: usize,
    /// Tasks, nodes and queues whose oldest value is among those entries.
    saved_tasks: SlotSet,
    saved_nodes: SlotSet,
    saved_queues: SlotSet,
    /// Nodes and tasks in the order of the writes, with those whose values were dropped.
    nodes: Vec<NodeId>,
    tasks: Vec<TaskId>,
}

/// How many writes there were by some moment between two statements, to find out later what changed since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    nodes: usize,
    tasks: usize,
    uncommitted: Checkpoint,
}

/// Where a saved value is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Task,
    Amounts,
    Resident,
    AddedResident,
    Queue,
    Other,
}

impl Kind {
    const COUNT: usize = 6;
}

/// The values of one kind that were saved by uncommitted writes, while some of them are dropped.
struct Tail {
    read: usize,
    write: usize,
}

impl Tail {
    fn new(len: usize, uncommitted: usize) -> Self {
        Self { read: len - uncommitted, write: len - uncommitted }
    }

    /// Keeps the next value if it `is_needed`; says so.
    fn pass<T>(&mut self, values: &mut [T], is_needed: impl FnOnce(&T) -> bool) -> bool {
        let keeps = is_needed(&values[self.read]);
        if keeps {
            values.swap(self.write, self.read);
            self.write += 1;
        }
        self.read += 1;
        keeps
    }
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
            Undo::ResidentAdded(node) => {
                self.added_residents.push(node);
                Kind::AddedResident
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
            if self.entries.len() < self.committed.entries {
                debug_assert!(self.entries.is_empty(), "committed writes are reverted all at once");
                self.committed.clear();
            }
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
            Kind::AddedResident => self.added_residents.pop().map(Undo::ResidentAdded),
            Kind::Queue => {
                let charged = self.queues.pop();
                charged.map(|(queue, all, fixed)| Undo::Queue(queue, all, fixed))
            }
            Kind::Other => self.others.pop(),
        }
    }

    /// All writes so far are committed: drops the values that will not be restored.
    pub(crate) fn commit(&mut self) {
        let from = self.committed.entries;
        let mut uncommitted = [0; Kind::COUNT];
        self.entries[from..].iter().for_each(|(_, kind)| uncommitted[*kind as usize] += 1);
        let tail = |len: usize, kind: Kind| Tail::new(len, uncommitted[kind as usize]);
        let mut tasks = tail(self.tasks.len(), Kind::Task);
        let mut amounts = tail(self.amounts.len(), Kind::Amounts);
        let mut queues = tail(self.queues.len(), Kind::Queue);
        let committed = &mut self.committed;
        let mut write = from;
        for read in from..self.entries.len() {
            let is_needed = match self.entries[read].1 {
                Kind::Task => tasks.pass(&mut self.tasks, |(task, _)| {
                    committed.tasks.push(*task);
                    committed.saved_tasks.insert(task.index())
                }),
                Kind::Amounts => amounts.pass(&mut self.amounts, |(node, _)| {
                    committed.nodes.push(*node);
                    committed.saved_nodes.insert(node.index())
                }),
                Kind::Queue => queues.pass(&mut self.queues, |(queue, _, _)| {
                    committed.saved_queues.insert(queue.index())
                }),
                Kind::Resident | Kind::AddedResident | Kind::Other => true,
            };
            if is_needed {
                self.entries[write] = self.entries[read];
                write += 1;
            }
        }
        self.tasks.truncate(tasks.write);
        self.amounts.truncate(amounts.write);
        self.queues.truncate(queues.write);
        self.entries.truncate(write);
        self.committed.entries = write;
    }

    /// The present moment, which must lie between two statements.
    pub(crate) fn moment(&self) -> Moment {
        let committed = &self.committed;
        Moment {
            nodes: committed.nodes.len(),
            tasks: committed.tasks.len(),
            uncommitted: self.checkpoint(),
        }
    }

    /// Nodes whose vectors were written after `moment` and not reverted.
    pub(crate) fn nodes_since(&self, moment: Moment) -> impl Iterator<Item = NodeId> + '_ {
        let written = self.count_after(self.first_after(moment), Kind::Amounts);
        let uncommitted = self.amounts[self.amounts.len() - written..].iter();
        let committed = self.committed.nodes[moment.nodes..].iter().copied();
        committed.chain(uncommitted.map(|(node, _)| *node))
    }

    /// Tasks that were written after `moment` and not reverted.
    pub(crate) fn tasks_since(&self, moment: Moment) -> impl Iterator<Item = TaskId> + '_ {
        let written = self.count_after(self.first_after(moment), Kind::Task);
        let uncommitted = self.tasks[self.tasks.len() - written..].iter();
        let committed = self.committed.tasks[moment.tasks..].iter().copied();
        committed.chain(uncommitted.map(|(task, _)| *task))
    }

    /// The first uncommitted entry that was written after `moment`. If writes were committed since then, all are.
    fn first_after(&self, moment: Moment) -> usize {
        moment.uncommitted.0.max(self.committed.entries)
    }

    fn count_after(&self, first: usize, wanted: Kind) -> usize {
        self.entries.iter().skip(first).filter(|(_, kind)| *kind == wanted).count()
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

impl Committed {
    /// Everything was reverted. Memory is kept for the next cycle.
    fn clear(&mut self) {
        self.entries = 0;
        self.saved_tasks.clear();
        self.saved_nodes.clear();
        self.saved_queues.clear();
        self.nodes.clear();
        self.tasks.clear();
    }
}
