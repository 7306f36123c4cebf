//! Node labels that are read.

/// Memory of each device in MiB (values of 1048576 and more are bytes).
pub const GPU_MEMORY: &str = "nvidia.com/gpu.memory";

/// Number of physical devices.
pub const GPU_COUNT: &str = "nvidia.com/gpu.count";

/// Number of replicas a time-sliced device is advertised as.
pub const GPU_REPLICAS: &str = "nvidia.com/gpu.replicas";

/// What the devices are called.
pub const GPU_PRODUCT: &str = "nvidia.com/gpu.product";

/// Architecture of the processor.
pub const ARCHITECTURE: &str = "kubernetes.io/arch";

/// Version of the kernel, as the node feature discovery reports it.
pub const KERNEL_VERSION: &str = "feature.node.kubernetes.io/kernel-version.full";

/// Label or annotation, ours: whether the node is a Jetson or its like, `on` or `off`; without it, read from the node.
pub const TEGRA: &str = "kai.scheduler/tegra";

/// Label or annotation, ours: whether containers on the node receive devices in the notation of CDI, `on` or `off`.
pub const CDI: &str = "kai.scheduler/cdi";

/// Label, ours: what a pod with one whole GPU holds on a time-sliced node, `physical` or `replica`; otherwise the setting decides.
pub const WHOLE_GPU_POLICY: &str = "kai.scheduler/whole-gpu-policy";

/// Annotation, ours: what reservation pods on the node are given, rung by rung, and the rung that worked. JSON.
pub const LADDER: &str = "kai.scheduler/reservation-ladder";

/// Annotation, ours: devices that are shared, and who has how much of each. JSON.
pub const GPU_SHARES: &str = "kai.scheduler/gpu-shares";

/// Annotation, ours: MiB of each device that the driver keeps for itself, as reservation pods measured them.
pub const MEASURED_RESERVE_MIB: &str = "kai.scheduler/gpu-memory-reserve-measured-mib";

/// Condition, ours: what its GPUs are is understood well enough to share them.
pub const GPUS_UNDERSTOOD: &str = "kai.scheduler/GpusUnderstood";

/// Condition, ours: reservation pods on the node find their device.
pub const GPUS_FOUND: &str = "kai.scheduler/GpusFound";

/// `single`, `mixed`, or none.
pub const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// Default key that marks a node as MIG enabled (boolean).
pub const MIG_ENABLED: &str = "node-role.kubernetes.io/mig-enabled";

/// Default key of nodes for GPU pods, where scheduling is restricted.
pub const GPU_WORKER: &str = "node-role.kubernetes.io/gpu-worker";

/// Default key of nodes for other pods, where scheduling is restricted.
pub const CPU_WORKER: &str = "node-role.kubernetes.io/cpu-worker";

/// `true` on nodes whose devices are simulated.
pub const FAKE_GPU: &str = "run.ai/fake.gpu";

/// `true` on nodes with several NUMA nodes; default selector of the NUMA placement exporter.
pub const MEMORY_NUMA: &str = "feature.node.kubernetes.io/memory-numa";

/// Host name of the node; may only be the lowest level of a topology.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
