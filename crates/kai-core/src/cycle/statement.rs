//! A statement: decisions that belong together. Each is applied at once; a rollback restores the world and forgets
//! them; committing makes them part of the plan.

use rustc_hash::FxHashMap;

use crate::ids::{NodeId, TaskId};
use crate::placement::fit::When;
use crate::status::Status;
use crate::world::ledger::Place;
use crate::world::{Checkpoint, World};

/// A decision about one task, already applied to the world.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) task: TaskId,
    pub(crate) kind: OperationKind,
    /// It was taken back by a later decision of the same statement.
    pub(crate) cancelled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OperationKind {
    /// Evicted; what it was before.
    Evict { status: Status, tentative: bool },
    /// Waits for capacity that releasing pods hold on the node.
    Nominate { node: NodeId },
    /// Placed on free resources.
    Allocate { node: NodeId },
}

/// Decisions that belong together.
#[derive(Debug)]
pub(crate) struct Statement {
    start: Checkpoint,
    pub(crate) operations: Vec<Operation>,
    /// Positions of cancelled operations, in the order they were cancelled.
    cancellations: Vec<usize>,
    /// The first eviction of each task.
    evictions: FxHashMap<TaskId, usize>,
}

/// A point of a statement to roll back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    world: Checkpoint,
    operations: usize,
    cancellations: usize,
}

impl Statement {
    pub(crate) fn begin(world: &World) -> Self {
        Self {
            start: world.checkpoint(),
            operations: Vec::new(),
            cancellations: Vec::new(),
            evictions: FxHashMap::default(),
        }
    }

    pub(crate) fn mark(&self, world: &World) -> Mark {
        Mark {
            world: world.checkpoint(),
            operations: self.operations.len(),
            cancellations: self.cancellations.len(),
        }
    }

    pub(crate) fn rollback(&mut self, world: &mut World, mark: Mark) {
        world.rollback(mark.world);
        for position in self.cancellations.drain(mark.cancellations..) {
            self.operations[position].cancelled = false;
        }
        for operation in self.operations.drain(mark.operations..) {
            if matches!(operation.kind, OperationKind::Evict { .. })
                && self.evictions.get(&operation.task).is_some_and(|at| *at >= mark.operations)
            {
                self.evictions.remove(&operation.task);
            }
        }
    }

    /// Reverts every decision of the statement.
    pub(crate) fn discard(self, world: &mut World) {
        world.rollback(self.start);
    }

    pub(crate) fn evict(&mut self, world: &mut World, task: TaskId) {
        let state = &world.task(task).state;
        let kind = OperationKind::Evict { status: state.status, tentative: state.tentative };
        world.evict(task);
        self.evictions.entry(task).or_insert(self.operations.len());
        self.operations.push(Operation { task, kind, cancelled: false });
    }

    pub(crate) fn allocate(&mut self, world: &mut World, task: TaskId, place: &Place) {
        world.put(task, place, Status::Allocated);
        let kind = OperationKind::Allocate { node: place.node };
        self.operations.push(Operation { task, kind, cancelled: false });
    }

    /// Nominates a task to a place. A task that was evicted from there, and gets the same devices and zones, is not
    /// evicted after all; unless `keep_eviction` says that even then it moves.
    pub(crate) fn nominate(
        &mut self,
        world: &mut World,
        task: TaskId,
        place: &Place,
        keep_eviction: bool,
    ) {
        // A task that moved before has an entry on the node it left, too: only where it is now can it stay. KAI reverts
        // the eviction for either node, and so keeps the task on the node it is nominated to; we do so only while the
        // task still fits there beside other nominated pods.
        let stays = match world.task(task).state.node {
            Some(node) if node != place.node => {
                world.config().compatibility.is_kai()
                    && world.fits(task, world.node(node), When::Later)
            }
            _ => true,
        };
        if let Some(at) = world.node(place.node).resident(task)
            && stays
            && !keep_eviction
        {
            let old = &world.node(place.node).residents[at];
            let moves = !place.groups.is_empty() && old.groups != place.groups;
            let realigns = old.zones != place.zones || !world.keeps_devices(task);
            if !moves && !realigns && self.unevict(world, task) {
                return;
            }
            if !moves {
                world.realign(task, place);
                let kind = OperationKind::Nominate { node: place.node };
                self.operations.push(Operation { task, kind, cancelled: false });
                return;
            }
        }
        world.put(task, place, Status::Pipelined);
        let kind = OperationKind::Nominate { node: place.node };
        self.operations.push(Operation { task, kind, cancelled: false });
    }

    /// Cancels the earliest standing eviction of `task`; false when there is none.
    fn unevict(&mut self, world: &mut World, task: TaskId) -> bool {
        let Some(first) = self.evictions.get(&task).copied() else { return false };
        let standing = self.operations[first..].iter().position(|operation| {
            operation.task == task
                && !operation.cancelled
                && matches!(operation.kind, OperationKind::Evict { .. })
        });
        let Some(at) = standing.map(|offset| first + offset) else { return false };
        let OperationKind::Evict { status, tentative } = self.operations[at].kind else {
            return false;
        };
        world.unevict(task, status, tentative);
        self.operations[at].cancelled = true;
        self.cancellations.push(at);
        true
    }

    /// A gang that cannot start whole waits whole: its placements become nominations.
    pub(crate) fn turn_placements_into_nominations(&mut self, world: &mut World) {
        for operation in &mut self.operations {
            if let OperationKind::Allocate { node } = operation.kind {
                world.turn_into_nomination(operation.task);
                operation.kind = OperationKind::Nominate { node };
            }
        }
    }

    /// Decisions that no later decision of the statement cancelled, in order.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &Operation> + '_ {
        self.operations.iter().filter(|operation| !operation.cancelled)
    }
}
