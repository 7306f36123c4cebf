//! Condition types, event reasons and reason codes that others match on.

/// Pod condition: the pod has a node.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// Pod condition: the binder finished.
pub const POD_BOUND: &str = "PodBound";
/// Pod condition: the pod is about to be evicted.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Reason of [`DISRUPTION_TARGET`].
pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";
/// Reason: no place was found.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// Reason of a pod's condition, ours: a limit of its queue is in the way, so that autoscalers add no nodes for it.
pub const OVER_QUEUE_LIMIT: &str = "OverQueueLimit";
/// Reason of an event of a device claim, ours: its selectors cannot be read, or exceed the limits of cost or nesting.
pub const DEVICE_SELECTOR_REJECTED: &str = "DeviceSelectorRejected";
/// Reason of an event of any object, ours: a field cannot be decoded or contradicts another one; the message names the field.
pub const INVALID_OBJECT: &str = "InvalidObject";
/// Reason: the bind failed.
pub const BINDING_ERROR: &str = "BindingError";
/// Reason: the bind succeeded.
pub const BOUND: &str = "Bound";
/// Event reason, ours: a pod of another scheduler was bound to the same node at the same time, and the node has too little for both.
pub const CONTESTED_NODE: &str = "ContestedNode";
/// Event reason of the grouper's warnings.
pub const POD_GROUPER_WARNING: &str = "PodGrouperWarning";

/// The only type of a pod group's scheduling conditions.
pub const UNSCHEDULABLE_ON_NODE_POOL: &str = "UnschedulableOnNodePool";

/// Queue condition: the parent is missing.
pub const ORPHAN: &str = "Orphan";
/// Queue condition: more is allocated than the quota.
pub const OVER_QUOTA: &str = "OverQuota";

/// Codes in the `reasons` of a pod group's scheduling condition.
pub mod reason {
    /// A queue's limit is reached.
    pub const OVER_LIMIT: &str = "OverLimit";
    /// A non-preemptible group would exceed a queue's quota.
    pub const NON_PREEMPTIBLE_OVER_QUOTA: &str = "NonPreemptibleOverQuota";
    /// The queue does not exist.
    pub const QUEUE_DOES_NOT_EXIST: &str = "QueueDoesNotExist";
    /// The group may not evict others yet.
    pub const PREEMPTION_DELAY_NOT_ELAPSED: &str = "PreemptionDelayNotElapsed";
    /// Pods of the group do not fit.
    pub const POD_SCHEDULING_ERRORS: &str = "PodSchedulingErrors";
    /// No topology domain is large enough.
    pub const NOT_ENOUGH_RESOURCES: &str = "Not enough resources for the workload";
}
