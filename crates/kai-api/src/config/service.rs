//! Settings that several components share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Affinity;

use crate::quantity::RawQuantity;

settings! {
    /// How a component runs.
    Service {
        enabled: bool,
        image: Image,
        /// Requests and limits.
        resources: Resources,
        /// Rate limits towards the API server.
        k8s_client_config: ClientConfig,
        /// Where its pods run.
        affinity: Affinity,
        pod_disruption_budget: PodDisruptionBudget,
    }
}

settings! {
    /// An image: `repository/name:tag`.
    Image {
        repository: String,
        name: String,
        tag: String,
        /// `Always`, `IfNotPresent` or `Never`.
        pull_policy: String,
    }
}

settings! {
    /// Requests and limits of a container.
    Resources {
        /// What it is guaranteed.
        requests: BTreeMap<String, RawQuantity>,
        /// What it may not exceed.
        limits: BTreeMap<String, RawQuantity>,
        /// Claims of its pod that it uses.
        claims: Vec<ResourceClaimName>,
    }
}

/// A claim that a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ResourceClaimName {
    /// Name of the claim in the pod's spec.
    pub name: String,
    /// One request of the claim; all where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

settings! {
    /// Rate limits towards the API server.
    ClientConfig {
        /// Requests per second.
        qps: i64,
        /// Requests that may exceed the rate for a moment.
        burst: i64,
    }
}

settings! {
    /// A disruption budget, where there are several replicas.
    PodDisruptionBudget {
        enabled: bool,
        /// How many pods may be away.
        max_unavailable: i64,
    }
}

settings! {
    /// A port of a Service.
    PortMapping {
        /// Port of the Service.
        port: i64,
        /// Port of the pods.
        target_port: i64,
        /// Name of the port.
        name: String,
    }
}

settings! {
    /// A vertical pod autoscaler.
    Vpa {
        enabled: bool,
        /// How recommendations are applied.
        update_policy: VpaUpdatePolicy,
        /// Bounds per container, passed on as written.
        resource_policy: serde_json::Value,
    }
}

settings! {
    /// How recommendations are applied.
    VpaUpdatePolicy {
        /// `Off`, `Initial`, `Recreate`, `InPlaceOrRecreate` or `Auto`.
        update_mode: String,
        /// Fewer replicas than this are left alone.
        min_replicas: i32,
        /// When pods may be evicted.
        eviction_requirements: Vec<VpaEvictionRequirement>,
    }
}

/// When pods may be evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpaEvictionRequirement {
    /// The resources looked at.
    pub resources: Vec<String>,
    /// `TargetHigherThanRequests` or `TargetLowerThanRequests`.
    pub change_requirement: String,
}
