//! What holds for all components.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, SecurityContext, Toleration};

use super::Vpa;

settings! {
    /// What holds for all components.
    Global {
        /// `spec.schedulerName` of the pods to schedule.
        scheduler_name: String,
        /// Key of the queue label.
        queue_label_key: String,
        /// Key of the node-pool label.
        node_pool_label_key: String,
        /// Replicas of components that say nothing else.
        replica_count: i32,
        /// Containers get no security context, as `OpenShift` wants it.
        openshift: bool,
        /// Security context of the containers.
        security_context: SecurityContext,
        /// Where the pods run.
        affinity: Affinity,
        /// Where the pods run.
        node_selector: BTreeMap<String, String>,
        /// Taints the pods tolerate.
        tolerations: Vec<Toleration>,
        /// Taints the pods of daemon sets tolerate.
        daemonsets_tolerations: Vec<Toleration>,
        /// Replicas keep apart even if no rule says so.
        require_default_pod_anti_affinity_term: bool,
        /// Deprecated: one pull secret.
        images_pull_secret: String,
        additional_image_pull_secrets: Vec<String>,
        /// Priority class of the components' pods.
        priority_class_name: String,
        /// Namespaces whose pods are looked at.
        namespace_label_selector: BTreeMap<String, String>,
        /// Pods that are looked at.
        pod_label_selector: BTreeMap<String, String>,
        /// How pods share GPUs: `Disabled`, `NonMemoryEnforced`, `HamiCore`, `NvFractions` or `Guard`.
        gpu_sharing_mode: String,
        /// How limits of GPU memory are treated at least: `off`, `report` or `enforce`.
        gpu_memory_enforcement: String,
        /// MiB of each GPU that are never given out, until a reservation pod measured what the driver keeps.
        gpu_memory_reserve_mib: i64,
        json_log: bool,
        /// Autoscaler of components that say nothing else.
        vpa: Vpa,
    }
}
