//! Why a waiting job was not even tried.

use crate::config::ActionKind;
use crate::input::Text;

/// Why a waiting job was not even tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeldBack {
    /// Too few of its pods exist, or too many of them are gated or back off.
    NotReady {
        /// The sub-group that lacks pods; none for a job without sub-groups.
        sub_group: Option<Text>,
        /// How many pods are needed.
        needed: u32,
        /// Number of its pods that wait or run, gated ones included.
        exist: u32,
        /// Of those, how many wait for their scheduling gates.
        gated: u32,
        /// Of those, how many wait until a bind that failed may be tried again.
        backing_off: u32,
    },
    /// Pods that name a sub-group the job does not have.
    UnknownSubGroup {
        /// The name of the first.
        sub_group: Text,
        /// Number of pods that name unknown sub-groups.
        pods: u32,
    },
    /// Its queue has queues below it and holds no jobs itself.
    QueueHasChildren(Text),
    /// A queue above its queue does not exist.
    QueueWithoutParent(Text),
    /// The parent queues of its queue form a cycle.
    QueueInCycle(Text),
    /// Its queue denies it.
    Denied(Text),
    /// It failed and is not to be tried again.
    GivenUp,
    /// Its queue has more waiting jobs than an action looks at.
    BeyondQueueDepth(Vec<(ActionKind, usize)>),
    /// No action came to it: a job alike failed before, the budget was spent, or no action places jobs.
    NotReached,
}
