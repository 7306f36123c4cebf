//! How the node scale adjuster is set up.

use kai_api::names::{defaults, objects, workload};
use kai_core::time::Span;
use kai_translate::time::seconds;

/// How the node scale adjuster is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleAdjusterSettings {
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler_name: String,
    /// Label with the node pool of a pod; empty: there are no pools.
    pub node_pool_label_key: String,
    /// Namespace of scaling pods.
    pub namespace: String,
    pub service_account: String,
    /// Value of their `app` label.
    pub app_label: String,
    pub image: String,
    /// When their image is pulled.
    pub pull_policy: String,
    /// The part of a device that a request for device memory counts as.
    pub memory_ratio: f64,
    /// How long a pod has been unschedulable before anything is done about it.
    pub grace: Span,
}

impl Default for ScaleAdjusterSettings {
    fn default() -> Self {
        Self {
            scheduler_name: objects::SCHEDULER_NAME.to_owned(),
            node_pool_label_key: workload::NODE_POOL.to_owned(),
            namespace: objects::SCALE_ADJUST.to_owned(),
            service_account: objects::SCALE_ADJUST.to_owned(),
            app_label: objects::SCALING_POD.to_owned(),
            image: objects::SCALING_POD_IMAGE.to_owned(),
            pull_policy: defaults::IMAGE_PULL_POLICY.to_owned(),
            memory_ratio: defaults::SCALE_ADJUST_MEMORY_RATIO,
            grace: seconds(defaults::SCALE_ADJUST_GRACE_SECONDS),
        }
    }
}
