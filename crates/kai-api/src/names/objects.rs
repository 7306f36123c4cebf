//! Well-known objects, and names of objects that are derived from others.

/// Namespace of the control plane.
pub const NAMESPACE: &str = "kai-scheduler";
/// Namespace, service account and `app` label of reservation pods.
pub const RESERVATION: &str = "kai-resource-reservation";
/// Namespaces of reservation pods: ours and that of older releases of KAI.
pub const RESERVATION_NAMESPACES: [&str; 2] = [RESERVATION, "runai-reservation"];
/// Image of reservation pods, where none is configured.
pub const RESERVATION_IMAGE: &str = "registry/local/kai-scheduler/resource-reservation";
/// Namespace and service account of scaling pods.
pub const SCALE_ADJUST: &str = "kai-scale-adjust";
/// Default `spec.schedulerName`.
pub const SCHEDULER_NAME: &str = "kai-scheduler";
/// The one `Config` that is read.
pub const CONFIG: &str = "kai-config";
/// Queue of workloads that name none.
pub const DEFAULT_QUEUE: &str = "default-queue";
/// Parent of [`DEFAULT_QUEUE`].
pub const DEFAULT_PARENT_QUEUE: &str = "default-parent-queue";
/// How a missing node pool is called in messages and metrics.
pub const DEFAULT_NODE_POOL: &str = "default";

/// Label that distinguishes utility pods.
pub const APP: &str = "app";
/// Value of [`APP`] on scaling pods, and name of their container.
pub const SCALING_POD: &str = "scaling-pod";
/// Image of scaling pods, where none is configured.
pub const SCALING_POD_IMAGE: &str = "registry/local/kai-scheduler/scalingpod";
/// Annotation on a scaling pod of ours: `<namespace>/<name>` of the pod it stands for, which labels cannot hold where it is
/// long.
pub const SCALING_FOR: &str = "kai.scheduler/scaling-for";
/// Container of a reservation pod.
pub const RESERVATION_CONTAINER: &str = "resource-reservation";
/// Label on a scaling pod: namespace of the pod it stands for.
pub const SHARED_GPU_POD_NAMESPACE: &str = "shared-gpu-pod-namespace";
/// Label on a scaling pod: name of the pod it stands for.
pub const SHARED_GPU_POD_NAME: &str = "shared-gpu-pod-name";

/// Suffix of the prefix of GPU-sharing `ConfigMap`s.
pub const SHARED_GPU_SUFFIX: &str = "-shared-gpu";
/// Suffix of the `ConfigMap` that holds environment variables.
pub const EVAR_SUFFIX: &str = "-evar";

/// Prefix of the names of generated pod groups.
pub const POD_GROUP_PREFIX: &str = "pg-";

/// Key of the per-kind defaults in their `ConfigMap`.
pub const KIND_DEFAULTS_KEY: &str = "types";

/// Service of the Prometheus instance that keeps usage.
pub const USAGE_PROMETHEUS: &str = "usage-prometheus";

/// Priority classes that are installed, with their values.
pub const PRIORITY_CLASSES: [(&str, i32); 4] =
    [(TRAIN, 50), (BUILD_PREEMPTIBLE, 75), (BUILD, 100), (INFERENCE, 125)];
/// Priority class of batch work, the default of most kinds.
pub const TRAIN: &str = "train";
/// Priority class of interactive work that may be preempted.
pub const BUILD_PREEMPTIBLE: &str = "build-preemptible";
/// Priority class of interactive work.
pub const BUILD: &str = "build";
/// Priority class of serving.
pub const INFERENCE: &str = "inference";
