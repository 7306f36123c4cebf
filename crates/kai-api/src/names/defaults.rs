//! Values that hold where an object leaves a field out. They are applied in memory and never written back.

/// Priority of a queue.
pub const QUEUE_PRIORITY: i64 = 100;
/// Quota or limit that knows no bound.
pub const UNLIMITED: f64 = -1.0;
/// Priority of a pod group whose class is unknown, where the cluster has no global default.
pub const POD_GROUP_PRIORITY: i32 = 50;
/// From this priority on a pod group is not preemptible, unless it says so itself.
pub const NON_PREEMPTIBLE_FROM: i32 = 100;
/// `schedulingBackoff` that never gives up.
pub const NO_SCHEDULING_BACKOFF: i32 = -1;
/// `schedulingBackoff` that gives up a node pool after one cycle.
pub const SINGLE_SCHEDULING_BACKOFF: i32 = 1;
/// Bytes in the unit of a queue's memory fields.
pub const QUEUE_MEMORY_UNIT: f64 = 1_000_000.0;
/// Seconds after which a running pod past its deletion counts as stuck.
pub const STUCK_RELEASING_SECONDS: i64 = 120;
/// Seconds the binder waits for a reservation to name its device.
pub const RESERVATION_WAIT_SECONDS: i64 = 40;
/// Seconds after the removal of a scaling pod in which no other is made.
pub const SCALE_ADJUST_COOL_DOWN_SECONDS: i64 = 60;
/// Seconds for which a pod has been unschedulable before a scaling pod is made for it.
pub const SCALE_ADJUST_GRACE_SECONDS: i64 = 5;
/// Parts of a device in which the node scale adjuster counts.
pub const SCALE_ADJUST_PARTS: i64 = 100;
/// The part of a device that a request for device memory counts as when nodes are asked for.
pub const SCALE_ADJUST_MEMORY_RATIO: f64 = 0.1;
/// Port of the admission webhooks.
pub const WEBHOOK_PORT: u16 = 9443;
/// When images of reservation and scaling pods are pulled.
pub const IMAGE_PULL_POLICY: &str = "IfNotPresent";
