//! Components and the leases that keep two of a kind from acting at once.

/// Source of the events of the grouper.
pub const POD_GROUPER: &str = "pod-grouper";
/// Source of the events of the binder.
pub const BINDER: &str = "binder";

/// Lease of the binder.
pub const BINDER_LEASE: &str = "2ad35f9c.kai.scheduler";
/// Lease of the grouper.
pub const POD_GROUPER_LEASE: &str = "54dff599.kai.scheduler";
/// Lease of the pod-group status controller.
pub const POD_GROUP_CONTROLLER_LEASE: &str = "o1x22tjj.kai.scheduler";
/// Lease of the queue status controller.
pub const QUEUE_CONTROLLER_LEASE: &str = "ov3xj497.kai.scheduler";
/// Lease of admission.
pub const ADMISSION_LEASE: &str = "ojptxr84.kai.scheduler";
/// Lease of the node scale adjuster.
pub const NODE_SCALE_ADJUSTER_LEASE: &str = "7n7h49uc.kai.scheduler";

/// Deployment and service account of the operator of KAI, which is taken over.
pub const OPERATOR: &str = "kai-operator";
/// Service account of the scheduler; its Deployment is `<scheduler name>-<shard>`.
pub const SCHEDULER: &str = "scheduler";
/// Deployment and service account of the pod-group status controller.
pub const POD_GROUP_CONTROLLER: &str = "podgroup-controller";
/// Deployment and service account of the queue status controller.
pub const QUEUE_CONTROLLER: &str = "queue-controller";
/// Deployment and service account of admission.
pub const ADMISSION: &str = "admission";
/// Deployment and service account of the node scale adjuster.
pub const NODE_SCALE_ADJUSTER: &str = "node-scale-adjuster";
/// Daemon set and service account of the NUMA placement exporter.
pub const NUMA_PLACEMENT_EXPORTER: &str = "numa-placement-exporter";
/// Label that names what manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label of the GPU operator's policy with its version.
pub const VERSION: &str = "app.kubernetes.io/version";
