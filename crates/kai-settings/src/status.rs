//! How statuses and events are written.

use kai_core::time::Span;
use kai_translate::time::seconds;

/// Changes of groups and queues that come within this time are written together.
pub const SETTLE: Span = seconds(1);

/// Which events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Those that say why something does not run or was evicted.
    Needed,
    /// Also those that report success; KAI's habit.
    All,
}

/// Which statuses are ours to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duties {
    /// Conditions and events of what waits: the scheduler's.
    pub verdicts: bool,
    /// What groups have and want: the pod-group controller's.
    pub groups: bool,
    /// What queues have and want: the queue controller's.
    pub queues: bool,
}

/// How statuses are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSettings {
    /// Statuses that this process writes.
    pub duties: Duties,
    /// Which events are written.
    pub events: Events,
    /// Changes that come within this time are written together.
    pub settle: Span,
    /// Status writes in flight at a time.
    pub workers: usize,
    /// Pods over a limit of their queue get a reason of their own, for which autoscalers add no nodes.
    pub marks_over_limit: bool,
}

impl Default for StatusSettings {
    fn default() -> Self {
        Self {
            duties: Duties { verdicts: true, groups: true, queues: true },
            events: Events::Needed,
            settle: SETTLE,
            workers: 5,
            marks_over_limit: false,
        }
    }
}
