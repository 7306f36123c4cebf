//! How the binder is set up.

use kai_api::names::{defaults, objects};
use kai_core::time::Span;
use kai_translate::time::seconds;
use serde_json::{Value, json};

/// How long a volume or a claim may take.
const VOLUMES_WAIT_SECONDS: i64 = 120;

/// How the binder is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct BinderSettings {
    /// Only pods with this `spec.schedulerName` are bound.
    pub scheduler_name: String,
    /// How devices are reserved.
    pub reservation: ReservationSettings,
    /// Containers name their devices in the notation of CDI.
    pub cdi: bool,
    /// How long the volumes of a pod may take to be bound.
    pub volumes_wait: Span,
}

/// How devices are reserved.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservationSettings {
    /// Namespace of reservation pods.
    pub namespace: String,
    /// Their service account.
    pub service_account: String,
    /// Value of their `app` label.
    pub app_label: String,
    /// Their image.
    pub image: String,
    /// Their runtime class; none: the node's default.
    pub runtime_class: Option<String>,
    /// How long one may take to name its device.
    pub wait: Span,
    /// Resources beside the device, a `ResourceRequirements`.
    pub resources: Option<Value>,
    /// Security context of the pod.
    pub pod_security: Option<Value>,
    /// Security context of the container.
    pub container_security: Option<Value>,
}

impl Default for BinderSettings {
    fn default() -> Self {
        Self {
            scheduler_name: objects::SCHEDULER_NAME.to_owned(),
            reservation: ReservationSettings::default(),
            cdi: false,
            volumes_wait: seconds(VOLUMES_WAIT_SECONDS),
        }
    }
}

impl Default for ReservationSettings {
    fn default() -> Self {
        Self {
            namespace: objects::RESERVATION.to_owned(),
            service_account: objects::RESERVATION.to_owned(),
            app_label: objects::RESERVATION.to_owned(),
            image: objects::RESERVATION_IMAGE.to_owned(),
            runtime_class: None,
            wait: seconds(defaults::RESERVATION_WAIT_SECONDS),
            resources: None,
            pod_security: None,
            container_security: Some(json!({
                "allowPrivilegeEscalation": false,
                "runAsNonRoot": true,
                "runAsUser": 10_000,
                "capabilities": {"drop": ["all"]},
            })),
        }
    }
}
