//! Resources that Kubernetes itself knows. Devices are in [`super::gpu`].

/// Cores.
pub const CPU: &str = "cpu";
/// Bytes.
pub const MEMORY: &str = "memory";
/// Pods of a node.
pub const PODS: &str = "pods";
/// Bytes of local disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Prefix of huge pages of a size.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";
/// Prefix of volumes that can be attached to a node.
pub const ATTACHABLE_VOLUMES_PREFIX: &str = "attachable-volumes-";
