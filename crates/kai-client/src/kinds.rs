//! The kinds that are watched.

/// A kind that is watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Pods that have not failed.
    Pod,
    /// Nodes, decoded as slim views.
    Node,
    /// Queues of `scheduling.run.ai`.
    Queue,
    /// Pod groups of `scheduling.run.ai`.
    PodGroup,
    /// Bind requests, which the scheduler writes and the binder executes.
    BindRequest,
    /// Topologies of `kai.scheduler`.
    Topology,
    /// Priority classes of `scheduling.k8s.io`.
    PriorityClass,
    /// Disruption budgets, which evictions respect.
    PodDisruptionBudget,
    /// Names of config maps.
    ConfigMap,
    /// Volume claims of pods.
    PersistentVolumeClaim,
    /// Volumes, bound and free.
    PersistentVolume,
    /// Storage classes, which say when their volumes are bound.
    StorageClass,
    /// CSI drivers, which say whether storage capacity is tracked.
    CsiDriver,
    /// Free storage per storage class and topology.
    CsiStorageCapacity,
    /// Device classes of `resource.k8s.io`.
    DeviceClass,
    /// Devices that DRA drivers publish.
    ResourceSlice,
    /// Device claims of pods.
    ResourceClaim,
    /// NUMA zones of nodes.
    NodeResourceTopology,
    /// Names and labels of namespaces.
    Namespace,
    /// Runtime classes, for the binder.
    RuntimeClass,
    /// Configuration of NVIDIA's GPU Operator, for the binder; may be absent.
    ClusterPolicy,
    /// `Config` of the installation; not an input of planners.
    Config,
    /// Scheduling shards; not an input of planners.
    SchedulingShard,
}

impl Kind {
    /// Every kind that is an input of planners.
    pub const ALL: [Self; 19] = [
        Self::PriorityClass,
        Self::Queue,
        Self::Topology,
        Self::Node,
        Self::NodeResourceTopology,
        Self::StorageClass,
        Self::CsiDriver,
        Self::CsiStorageCapacity,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::ConfigMap,
        Self::Namespace,
        Self::DeviceClass,
        Self::ResourceSlice,
        Self::ResourceClaim,
        Self::PodDisruptionBudget,
        Self::BindRequest,
        Self::PodGroup,
        Self::Pod,
    ];

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::Queue => "Queue",
            Self::PodGroup => "PodGroup",
            Self::BindRequest => "BindRequest",
            Self::Topology => "Topology",
            Self::PriorityClass => "PriorityClass",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::ConfigMap => "ConfigMap",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::PersistentVolume => "PersistentVolume",
            Self::StorageClass => "StorageClass",
            Self::CsiDriver => "CSIDriver",
            Self::CsiStorageCapacity => "CSIStorageCapacity",
            Self::DeviceClass => "DeviceClass",
            Self::ResourceSlice => "ResourceSlice",
            Self::ResourceClaim => "ResourceClaim",
            Self::NodeResourceTopology => "NodeResourceTopology",
            Self::Namespace => "Namespace",
            Self::RuntimeClass => "RuntimeClass",
            Self::ClusterPolicy => "ClusterPolicy",
            Self::Config => "Config",
            Self::SchedulingShard => "SchedulingShard",
        }
    }

    /// The path under which all of them are listed.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Pod => "/api/v1/pods",
            Self::Node => "/api/v1/nodes",
            Self::Queue => "/apis/scheduling.run.ai/v2/queues",
            Self::PodGroup => "/apis/scheduling.run.ai/v2alpha2/podgroups",
            Self::BindRequest => "/apis/scheduling.run.ai/v1alpha2/bindrequests",
            Self::Topology => "/apis/kai.scheduler/v1alpha1/topologies",
            Self::PriorityClass => "/apis/scheduling.k8s.io/v1/priorityclasses",
            Self::PodDisruptionBudget => "/apis/policy/v1/poddisruptionbudgets",
            Self::ConfigMap => "/api/v1/configmaps",
            Self::PersistentVolumeClaim => "/api/v1/persistentvolumeclaims",
            Self::PersistentVolume => "/api/v1/persistentvolumes",
            Self::StorageClass => "/apis/storage.k8s.io/v1/storageclasses",
            Self::CsiDriver => "/apis/storage.k8s.io/v1/csidrivers",
            Self::CsiStorageCapacity => "/apis/storage.k8s.io/v1/csistoragecapacities",
            Self::DeviceClass => "/apis/resource.k8s.io/v1/deviceclasses",
            Self::ResourceSlice => "/apis/resource.k8s.io/v1/resourceslices",
            Self::ResourceClaim => "/apis/resource.k8s.io/v1/resourceclaims",
            Self::NodeResourceTopology => {
                "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
            }
            Self::Namespace => "/api/v1/namespaces",
            Self::RuntimeClass => "/apis/node.k8s.io/v1/runtimeclasses",
            Self::ClusterPolicy => "/apis/nvidia.com/v1/clusterpolicies",
            Self::Config => "/apis/kai.scheduler/v1/configs",
            Self::SchedulingShard => "/apis/kai.scheduler/v1/schedulingshards",
        }
    }

    /// Group and version as objects name them, `scheduling.run.ai/v2`.
    pub fn api_version(self) -> &'static str {
        let list = self.path().trim_start_matches("/apis/").trim_start_matches("/api/");
        list.rsplit_once('/').map_or(list, |(api_version, _)| api_version)
    }

    /// Field selector of the watch; none: all objects.
    pub const fn field_selector(self) -> Option<&'static str> {
        match self {
            Self::Pod => Some("status.phase!=Failed"),
            _ => None,
        }
    }

    /// Only their metadata is read.
    pub const fn is_metadata_only(self) -> bool {
        matches!(self, Self::ConfigMap | Self::Namespace)
    }

    /// It is of `resource.k8s.io`, which servers have in several versions.
    pub const fn is_about_devices(self) -> bool {
        matches!(self, Self::DeviceClass | Self::ResourceSlice | Self::ResourceClaim)
    }

    /// A server that does not know the kind simply has none of it.
    pub const fn may_be_absent(self) -> bool {
        matches!(
            self,
            Self::DeviceClass
                | Self::ResourceSlice
                | Self::ResourceClaim
                | Self::NodeResourceTopology
                | Self::RuntimeClass
                | Self::ClusterPolicy
                | Self::Config
                | Self::SchedulingShard
        )
    }

    /// Whether `kai` works without the right to read the kind.
    pub const fn may_be_forbidden(self) -> bool {
        matches!(self, Self::RuntimeClass | Self::ClusterPolicy)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_path_of_its_own() {
        let paths: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.path()).collect();
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!((paths.len(), names.len()), (Kind::ALL.len(), Kind::ALL.len()));
    }
}
