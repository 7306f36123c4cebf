//! Keys, resources and objects of GPU sharing.

/// Annotation on a pod: share of one device, a decimal between 0 and 1, both excluded.
pub const FRACTION: &str = "gpu-fraction";

/// Annotation on a pod: memory of one device in MiB, a positive integer without unit.
pub const MEMORY: &str = "gpu-memory";

/// Annotation on a pod: on how many devices the fraction or memory is wanted; default 1.
pub const FRACTION_NUM_DEVICES: &str = "gpu-fraction-num-devices";

/// Annotation on a pod: the container that gets the share; default the first.
pub const FRACTION_CONTAINER: &str = "gpu-fraction-container-name";

/// Annotation on a pod: `"true"` asks for MPS; checked, without further effect.
pub const MPS: &str = "mps";

/// Annotation on a pod, written at every bind: [`RECEIVED_REGULAR`], [`RECEIVED_FRACTION`] or [`RECEIVED_MIG`].
pub const RECEIVED_RESOURCE_TYPE: &str = "received-resource-type";

/// Value of [`RECEIVED_RESOURCE_TYPE`]: whole devices, or none.
pub const RECEIVED_REGULAR: &str = "Regular";

/// Value of [`RECEIVED_RESOURCE_TYPE`]: a share of a device.
pub const RECEIVED_FRACTION: &str = "Fraction";

/// Value of [`RECEIVED_RESOURCE_TYPE`]: a MIG instance.
pub const RECEIVED_MIG: &str = "MigInstance";

/// Annotation on a pod: prefix of the names of its GPU-sharing `ConfigMap`s.
pub const SHARED_CONFIG_MAP: &str = "runai/shared-gpu-configmap";

/// Label on a single-device sharing pod and on a reservation pod: id of the GPU group.
pub const GROUP: &str = "runai-gpu-group";

/// Prefix of the labels of a sharing pod with several devices: `<prefix><group>: <group>`, one per device.
pub const MULTI_GROUP_PREFIX: &str = "runai-gpu-group/";

/// Annotation on a reservation pod: UUID of the device it holds.
pub const RESERVED_DEVICE: &str = "run.ai/reserve_for_gpu_index";

/// Annotation on a reservation pod, ours: memory of its device in MiB. On a node, as annotation or label: what the memory of
/// each of its devices is, whatever else is said.
pub const MEMORY_MIB: &str = "kai.scheduler/gpu-memory-mib";

/// Annotation on a reservation pod, ours: MiB of its device that the driver keeps for itself. On a node, as annotation or
/// label: the same for each of its devices, whatever was measured or set for the cluster.
pub const MEMORY_RESERVE_MIB: &str = "kai.scheduler/gpu-memory-reserve-mib";

/// Annotation on a reservation pod, ours: MiB of its device that processes hold, as NVML measures them.
pub const MEMORY_HELD_MIB: &str = "kai.scheduler/gpu-memory-held-mib";

/// Annotation on a reservation pod, ours: pods whose processes use its device, as JSON, with the MiB that they hold and
/// whether the library that limits GPU memory is in them.
pub const PROCESSES: &str = "kai.scheduler/gpu-processes";

/// Annotation on a reservation pod, ours: how many devices its node has. On a node, as annotation or label: the same,
/// whatever else is said.
pub const COUNT: &str = "kai.scheduler/gpu-count";

/// Annotation on a reservation pod, ours: version of the driver of its device.
pub const DRIVER_VERSION: &str = "kai.scheduler/gpu-driver-version";

/// Annotation on a reservation pod, ours: what it was given beside its device.
pub const RESERVATION_RUNG: &str = "kai.scheduler/reservation-rung";

/// Annotation on a reservation pod, ours: what its node was when it was made, `standard` or `tegra`.
pub const RESERVATION_PLATFORM: &str = "kai.scheduler/reservation-platform";

/// Annotation on a sharing pod, ours: the devices it was given, `<group>=<device>,...`. KAI writes nothing of the kind.
pub const DEVICES: &str = "kai.scheduler/gpu-devices";

/// Prefix of the names of reservation pods; 16 hexadecimal digits follow.
pub const RESERVATION_POD_PREFIX: &str = "gpu-reservation-";

/// Prefix of the legacy MIG annotations of a pod, and of MIG resource names.
pub const MIG_PREFIX: &str = "nvidia.com/mig-";

/// Extended resource: whole NVIDIA devices.
pub const NVIDIA: &str = "nvidia.com/gpu";

/// Extended resource: whole AMD devices.
pub const AMD: &str = "amd.com/gpu";

/// Virtual resource in statuses: requested device memory.
pub const MEMORY_RESOURCE: &str = "run.ai/gpu.memory";

/// Prefix of CDI device names.
pub const CDI_DEVICE_PREFIX: &str = "k8s.device-plugin.nvidia.com/gpu=";
