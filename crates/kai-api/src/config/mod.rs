//! `kai.scheduler/v1 Config`: settings of the whole installation. Only the object named `kai-config` counts.
//!
//! Every field may be left out; what is left out has the meaning that KAI's documentation gives it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Declares a struct of optional settings, so that the serde attributes are written once.
macro_rules! settings {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $(
                $(#[$inner])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }
    };
}

mod components;
mod global;
mod service;

pub use components::*;
pub use global::*;
pub use service::*;

/// Settings of the whole installation.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kai.scheduler",
    version = "v1",
    kind = "Config",
    plural = "configs",
    status = "ConfigStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Settings of the whole installation."
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSpec {
    /// Namespace of the components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What holds for all components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<Global>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_grouper: Option<PodGrouper>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binder: Option<Binder>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// The queue status controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_controller: Option<QueueController>,
    /// The pod-group status controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group_controller: Option<PodGroupController>,
    /// The node scale adjuster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_scale_adjuster: Option<NodeScaleAdjuster>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<Prometheus>,
    /// The NUMA placement exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_placement_exporter: Option<NumaPlacementExporter>,
}

/// Status of the installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigStatus {
    /// Conditions of the installation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
