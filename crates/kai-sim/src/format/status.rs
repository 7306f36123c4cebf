//! The statuses of a task and the sets they fall into.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a task is in its life.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize, Serialize,
)]
pub enum Status {
    /// Waits for a place.
    #[default]
    Pending,
    /// Waits for its scheduling gates to be lifted.
    Gated,
    /// Has a place inside a cycle that is not committed yet.
    Allocated,
    /// Nominated: waits for resources that are being released.
    Pipelined,
    /// Has a place; the binding is under way.
    Binding,
    /// Is bound to its node and about to start.
    Bound,
    /// At least one of its containers runs.
    Running,
    /// Was evicted and still holds its resources.
    Releasing,
    /// It ended without an error.
    Succeeded,
    /// It ended with an error, or lost its node.
    Failed,
    /// The node of the task does not report.
    Unknown,
    /// It no longer exists.
    Deleted,
    /// Was evicted long ago and still holds its resources.
    StuckInReleasing,
}

impl Status {
    /// The task holds capacity of its node.
    pub fn occupies_node(self) -> bool {
        self.is_allocated()
            || matches!(self, Self::Pipelined | Self::Releasing | Self::StuckInReleasing)
    }

    /// The task has its place for good: a job with such a task has started.
    pub fn is_allocated(self) -> bool {
        matches!(self, Self::Allocated | Self::Binding | Self::Bound | Self::Running)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}
