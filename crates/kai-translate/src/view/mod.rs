//! Slim views of built-in objects: only what is read of them.

mod node;
mod pod;
mod policy;
mod storage;

use serde::{Deserialize, Deserializer};

pub use node::{Condition, Node, NodeSpec, NodeStatus, Taint};
pub use pod::{
    Container, ContainerPort, ContainerState, ContainerStateReason, ContainerStatus, EnvFrom,
    EnvSource, EnvVar, EphemeralSource, NamedSource, Pod, PodCondition, PodResourceClaim,
    PodResourceClaimStatus, PodSpec, PodStatus, Projected, ProjectedSource, Resources, Toleration,
    Volume, VolumeClaimSource, VolumeMount,
};
pub use policy::{PodDisruptionBudget, PriorityClass};
pub use storage::{
    CsiDriver, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
};

/// Some clients write `null` for an empty map or list.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
