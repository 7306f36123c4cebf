//! The status of a pod as the planner sees it, and the sets of statuses that rules speak of.

/// Where a pod is in its life. `Allocated` and `Pipelined` exist only inside a cycle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// Waits for a node.
    Pending,
    /// Waits for its scheduling gates.
    Gated,
    /// Waits until a bind that failed may be tried again.
    BackingOff,
    /// Placed on free resources in this cycle, not yet committed.
    Allocated,
    /// Nominated: waits for resources that other pods are releasing.
    Pipelined,
    /// Its binding is under way.
    Binding,
    /// Has a node, does not run yet.
    Bound,
    /// At least one of its containers runs.
    Running,
    /// Was evicted and still holds its resources.
    Releasing,
    /// All its containers ended without an error.
    Succeeded,
    /// It ended with an error, or the cluster ended it.
    Failed,
    /// The cluster lost sight of it.
    Unknown,
    /// The object no longer exists.
    Deleted,
    /// Was evicted long ago; its resources are not expected back soon.
    StuckInReleasing,
}

impl Status {
    /// How many statuses there are.
    pub const COUNT: usize = 14;

    /// All statuses, in declaration order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Pending,
        Self::Gated,
        Self::BackingOff,
        Self::Allocated,
        Self::Pipelined,
        Self::Binding,
        Self::Bound,
        Self::Running,
        Self::Releasing,
        Self::Succeeded,
        Self::Failed,
        Self::Unknown,
        Self::Deleted,
        Self::StuckInReleasing,
    ];

    /// Occupies its node and its devices.
    pub fn is_active_used(self) -> bool {
        self.is_active_allocated() || matches!(self, Self::Releasing | Self::StuckInReleasing)
    }

    /// Occupies its node and is not releasing.
    pub fn is_active_allocated(self) -> bool {
        matches!(
            self,
            Self::Allocated | Self::Pipelined | Self::Binding | Self::Bound | Self::Running
        )
    }

    /// Has resources of its own; a nominated pod has none.
    pub fn is_allocated(self) -> bool {
        matches!(self, Self::Allocated | Self::Bound | Self::Binding | Self::Running)
    }

    /// Runs, waits or is placed: anything that may still do work.
    pub fn is_alive(self) -> bool {
        self.is_active_allocated() || self.is_waiting()
    }

    /// Has no node yet.
    pub fn is_waiting(self) -> bool {
        self == Self::Pending || self.is_held_back()
    }

    /// Has no node yet, and no plan may give it one now.
    pub fn is_held_back(self) -> bool {
        matches!(self, Self::Gated | Self::BackingOff)
    }
}
