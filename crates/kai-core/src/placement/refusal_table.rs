//! Why nodes refuse pods of a shape, kept from cycle to cycle: only nodes that changed are asked again. Every change of a
//! node's accounts or object passes [`World::index_node`], which notes it here.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::report::task_fit::{NodeReason, TaskFit};
use crate::world::World;
use crate::world::node_class::ClassId;
use crate::world::shape::ShapeId;

/// Tables are kept for this many shapes.
const MOST_TABLES: usize = 32;

/// Refusals by shape, and when nodes changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusalTables {
    by_shape: FxHashMap<ShapeId, RefusalTable>,
    /// The latest change of each node by rank, counted over all nodes.
    changes: Vec<u64>,
    latest: u64,
}

/// What nodes say to pods of one shape.
#[derive(Clone, Debug, Default)]
struct RefusalTable {
    /// Changes up to this one are taken into account.
    until: u64,
    /// What each node says, by rank: a position in `answers`.
    by_rank: Vec<u16>,
    answers: Vec<Answer>,
    fit: Arc<TaskFit>,
}

/// What some nodes of a class say.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answer {
    pub(crate) class: ClassId,
    /// Why they refuse the pod; none: they do not.
    pub(crate) reasons: Option<Vec<NodeReason>>,
}

impl RefusalTables {
    /// The node at `rank` changed.
    #[inline]
    pub(crate) fn note_change(&mut self, rank: usize) {
        self.latest += 1;
        self.changes[rank] = self.latest;
    }

    /// Nodes were ranked anew.
    pub(crate) fn restart(&mut self, nodes: usize) {
        self.clear();
        self.changes = vec![self.latest; nodes];
    }

    /// Something beside nodes changed that decides about refusals.
    pub(crate) fn clear(&mut self) {
        self.by_shape.clear();
    }
}

/// Why all nodes refuse the pod `task`; none where an answer depends on more than the node and the shape, as
/// `ask` says.
pub(crate) fn look_up(
    world: &mut World,
    task: TaskId,
    ask: impl Fn(&World, usize) -> Option<Answer>,
) -> Option<Arc<TaskFit>> {
    let shape = world.task(task).shape;
    let mut tables = std::mem::take(&mut world.refusal_tables);
    let mut table = tables.by_shape.remove(&shape).unwrap_or_default();
    let complete = table.update(&tables, |rank| ask(world, rank));
    let fit = complete.then(|| Arc::clone(&table.fit));
    if complete {
        if tables.by_shape.len() >= MOST_TABLES {
            tables.clear();
        }
        tables.by_shape.insert(shape, table);
    }
    world.refusal_tables = tables;
    fit
}

impl RefusalTable {
    /// Asks nodes that changed; false where one gave no answer of its own.
    fn update(&mut self, tables: &RefusalTables, ask: impl Fn(usize) -> Option<Answer>) -> bool {
        let known = self.by_rank.len();
        let mut changed = known == 0;
        self.by_rank.resize(tables.changes.len(), 0);
        for (rank, change) in tables.changes.iter().enumerate() {
            if rank < known && *change <= self.until {
                continue;
            }
            let Some(answer) = ask(rank).and_then(|answer| self.number_of(answer)) else {
                return false;
            };
            changed |= self.by_rank[rank] != answer;
            self.by_rank[rank] = answer;
        }
        self.until = tables.latest;
        if changed {
            self.fit = Arc::new(self.sum());
        }
        true
    }

    /// The position of the answer, given now if it is new; none when there are too many.
    fn number_of(&mut self, answer: Answer) -> Option<u16> {
        let known = self.answers.iter().position(|other| *other == answer);
        let at = known.unwrap_or_else(|| {
            self.answers.push(answer);
            self.answers.len() - 1
        });
        u16::try_from(at).ok()
    }

    /// Refusals counted over all nodes, in the order in which nodes give them first.
    fn sum(&self) -> TaskFit {
        let mut nodes = vec![0; self.answers.len()];
        let mut order = Vec::new();
        for answer in &self.by_rank {
            let count = &mut nodes[*answer as usize];
            if *count == 0 {
                order.push(*answer as usize);
            }
            *count += 1;
        }
        let mut fit = TaskFit::default();
        for at in order {
            let Answer { class, reasons } = &self.answers[at];
            if let Some(reasons) = reasons {
                fit.count_many(*class, reasons, nodes[at]);
            }
        }
        fit
    }
}
