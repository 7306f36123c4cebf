//! Environment variables and `ConfigMap` keys of that name.

/// Devices a container may see.
pub const NVIDIA_VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";

/// Per-device share of a sharing container.
pub const GPU_PORTION: &str = "GPU_PORTION";

/// Deprecated twin of [`GPU_PORTION`].
pub const RUNAI_NUM_OF_GPUS: &str = "RUNAI_NUM_OF_GPUS";

/// Memory limit that the `HAMi` core library enforces, `<MiB>m`.
pub const CUDA_DEVICE_MEMORY_LIMIT: &str = "CUDA_DEVICE_MEMORY_LIMIT";

/// Image of the own pod.
pub const IMAGE: &str = "KAI_IMAGE";

/// Name of the own pod.
pub const POD_NAME: &str = "POD_NAME";

/// Namespace of the own pod.
pub const POD_NAMESPACE: &str = "POD_NAMESPACE";

/// Name of the own node.
pub const NODE_NAME: &str = "NODE_NAME";

/// Namespace of the scheduler.
pub const NAMESPACE: &str = "NAMESPACE";

/// Memory ceiling of the scheduler in bytes.
pub const GOMEMLIMIT: &str = "GOMEMLIMIT";

/// Garbage-collection target of a Go process; accepted, without meaning here.
pub const GOGC: &str = "GOGC";

/// Default image repository of the operator.
pub const MS_REPOSITORY: &str = "MS_REPOSITORY";

/// Default image tag of the operator.
pub const MS_TAG: &str = "MS_TAG";

/// Folders, separated by colons, in which a reservation pod looks for NVML's library; ours.
pub const NVML_LIBRARY_PATHS: &str = "NVML_LIBRARY_PATHS";

/// Folders in which the system looks for libraries first.
pub const LD_LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// What a container may do with its devices; `utility` is NVML.
pub const NVIDIA_DRIVER_CAPABILITIES: &str = "NVIDIA_DRIVER_CAPABILITIES";
