//! Labels and annotations by which a workload says where and how it wants to run.
//!
//! "Owner" is the workload object found by walking up from the pod; unless said otherwise a value on an owner
//! wins over the same key on the pod.

/// Label: queue of a workload. The key itself is configurable; this is the default.
pub const QUEUE: &str = "kai.scheduler/queue";

/// Label: project of a workload; names the queue where no queue label is given.
pub const PROJECT: &str = "project";

/// Label: node pool (shard) of a node, queue, pod group, pod or bind request. The key is configurable.
pub const NODE_POOL: &str = "kai.scheduler/node-pool";

/// Annotation on a pod: name of its pod group, in the pod's namespace.
pub const POD_GROUP_NAME: &str = "pod-group-name";

/// Label on a pod: the sub-group of its pod group to which it belongs.
pub const SUBGROUP_NAME: &str = "kai.scheduler/subgroup-name";

/// Annotation on a pod or any of its owners: `"true"` keeps the grouper away.
pub const SKIP_POD_GROUPER: &str = "kai.scheduler/skip-podgrouper";

/// Annotation on a pod: `"true"` groups it by its owners although it names a Kubernetes `Workload`.
pub const IGNORE_WORKLOAD_API: &str = "kai.scheduler/ignore-workload-api";

/// Annotation on a pod group: YAML with name, uid, group, version and kind of the workload it was made for.
pub const TOP_OWNER_METADATA: &str = "kai.scheduler/top-owner-metadata";

/// Label on an owner or a pod, and annotation on a pod: the person the workload belongs to.
pub const USER: &str = "user";

/// Label on an owner or a pod: name of an existing `PriorityClass`.
pub const PRIORITY_CLASS_NAME: &str = "priorityClassName";

/// Label on an owner or a pod: [`PREEMPTIBLE`], [`NON_PREEMPTIBLE`], [`SEMI_PREEMPTIBLE`] or empty.
pub const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";

/// Value of [`PREEMPTIBILITY`]: may be a victim, may use more than the quota.
pub const PREEMPTIBLE: &str = "preemptible";

/// Value of [`PREEMPTIBILITY`]: never a victim, lives within the quota.
pub const NON_PREEMPTIBLE: &str = "non-preemptible";

/// Annotation on an owner or a pod: how long the workload must wait before it may evict others (Go duration, not negative).
pub const PREEMPTION_DELAY: &str = "kai.scheduler/preemption-delay";

/// Annotation on an owner or a pod: how long a gang may stay below its minimum (Go duration; negative means for ever).
pub const STALENESS_GRACE_PERIOD: &str = "kai.scheduler/staleness-grace-period";

/// Annotation on an owner (and on some pod templates): name of a `Topology`.
pub const TOPOLOGY: &str = "kai.scheduler/topology";

/// Annotation beside [`TOPOLOGY`]: level (node label or alias) within which all pods must fit.
pub const TOPOLOGY_REQUIRED: &str = "kai.scheduler/topology-required-placement";

/// Annotation beside [`TOPOLOGY`]: level within which the pods should fit.
pub const TOPOLOGY_PREFERRED: &str = "kai.scheduler/topology-preferred-placement";

/// Annotation on a worker template: number of workers per segment.
pub const SEGMENT_SIZE: &str = "kai.scheduler/segment-size";

/// Annotation beside [`SEGMENT_SIZE`]: level within which each segment must fit.
pub const SEGMENT_TOPOLOGY_REQUIRED: &str = "kai.scheduler/segment-topology-required-placement";

/// Annotation beside [`SEGMENT_SIZE`]: level within which each segment should fit.
pub const SEGMENT_TOPOLOGY_PREFERRED: &str = "kai.scheduler/segment-topology-preferred-placement";

/// Annotation on a `Job`, a `JobSet` or a replicated job's template: gang size.
pub const BATCH_MIN_MEMBER: &str = "kai.scheduler/batch-min-member";

/// Annotation on a workload without sub-groups, else on its pods: gang size.
pub const MIN_MEMBER: &str = "kai.scheduler/min-member";

/// Value of [`PREEMPTIBILITY`]: the pods that the workload needs are never victims and live within the quota; pods beyond may be
/// victims and may use more.
pub const SEMI_PREEMPTIBLE: &str = "semi-preemptible";

/// Label on a pod: integer; higher goes first among the pods of one group.
pub const TASK_PRIORITY: &str = "kai.scheduler/task-priority";

/// Annotation on a pod group of a `RayService`: the cluster whose pods the group holds.
pub const RAY_CLUSTER: &str = "kai.scheduler/ray-cluster";

/// Label on a `Karta`: API group of the kind it describes.
pub const KARTA_GROUP: &str = "run.ai/karta-group";

/// Label on a `Karta`: API version of the kind it describes.
pub const KARTA_VERSION: &str = "run.ai/karta-version";

/// Label on a `Karta`: the kind it describes.
pub const KARTA_KIND: &str = "run.ai/karta-kind";
