//! Keys that the scheduler and the binder write on pods, pod groups, bind requests and events.

/// Annotation on a pod group: since when it has been below its minimum (RFC 3339).
pub const STALE_SINCE: &str = "kai.scheduler/stale-podgroup-timestamp";

/// Annotation on a pod group: when it last started (RFC 3339).
pub const LAST_START: &str = "kai.scheduler/last-start-timestamp";

/// Annotation on a pod group: when pods of it were last evicted (RFC 3339).
pub const LAST_EVICTION: &str = "kai.scheduler/last-eviction-timestamp";

/// Annotation on a pod group, ours: since when disruption budgets delay that it reclaims from other queues (RFC 3339).
pub const RECLAIM_DELAYED_SINCE: &str = "kai.scheduler/reclaim-delayed-since";

/// Label on a bind request: the node chosen.
pub const SELECTED_NODE: &str = "selected-node";

/// Annotation on a bind request, ours: how many pods of the group must be prepared or placed before the first is bound.
pub const GANG_SIZE: &str = "gang.kai.scheduler/pods-ready-first";

/// Annotation on a pod: NUMA zones the scheduler expects the pod to use (JSON).
pub const NUMA_PREDICTED: &str = "kai.scheduler/numa-placement-predicted";

/// Annotation on a pod: NUMA zones the pod was seen to use (JSON).
pub const NUMA_OBSERVED: &str = "kai.scheduler/numa-placement-observed";

/// Annotation on an `Evict` event: size of the evicted gang.
pub const EVENT_EVICTED_PODS: &str = "num-evicted-pods";

/// Annotation on an `Evict` event: the action that evicted.
pub const EVENT_EVICTOR_ACTION: &str = "evictor-action-type";

/// Annotation on an `Evict` event: the pod group that got the capacity.
pub const EVENT_EVICTOR_POD_GROUP: &str = "evictor-pod-group-name";

/// Annotation on an `Evict` event: namespace of that pod group.
pub const EVENT_EVICTOR_NAMESPACE: &str = "evictor-pod-group-namespace";

/// Annotation on a `ResourceClaim` made for DRA-backed extended resources.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// Finalizer on the same `ResourceClaim`.
pub const CLAIM_DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// Suffix of the `generateName` of the same `ResourceClaim`, after the pod's name.
pub const EXTENDED_CLAIM_SUFFIX: &str = "-extended-resources-";

/// Annotation on a pod, ours: what was decided when the pod was bound, with a message authentication code.
pub const PLACEMENT: &str = "kai.scheduler/placement";

/// Secret of our namespace with the key of that code, and its field.
pub const PLACEMENT_KEY: (&str, &str) = ("kai-placement-key", "key");

/// Annotation on a queue, ours: how many GPUs of its unused quota other queues may use; without it all of them.
pub const GPU_LENDING_LIMIT: &str = "kai.scheduler/gpu-lending-limit";

/// Annotation on a queue, ours: how many GPUs of single types are kept for it, as `TYPE=GPUS,...`; the type is the nodes'
/// label `nvidia.com/gpu.product`.
pub const GPU_TYPE_QUOTAS: &str = "kai.scheduler/gpu-type-quotas";

/// Annotation on a queue, ours: how many GPUs of single types it holds at most, as `TYPE=GPUS,...`.
pub const GPU_TYPE_LIMITS: &str = "kai.scheduler/gpu-type-limits";
