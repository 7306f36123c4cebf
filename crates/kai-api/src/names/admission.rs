//! Webhook registrations.

/// Object name of the mutating registration for pods.
pub const MUTATING_PODS: &str = "mutating-kai-admission";
/// Object name of the validating registration for pods and topologies.
pub const VALIDATING_PODS: &str = "validating-kai-admission";
/// Object name of the registration for queues.
pub const VALIDATING_QUEUES: &str = "kai-queue-validation-v2";
/// Object name of the registration for pod groups.
pub const VALIDATING_POD_GROUPS: &str = "kai-podgroup-validation-v2alpha2";

/// Webhook name for queues.
pub const QUEUE_WEBHOOK: &str = "queue-validation.kai.scheduler";
/// Webhook name for pod groups.
pub const POD_GROUP_WEBHOOK: &str = "podgroup-validation.kai.scheduler";

/// Path that mutates pods.
pub const MUTATE_POD_PATH: &str = "/mutate--v1-pod";
/// Path that validates pods.
pub const VALIDATE_POD_PATH: &str = "/validate--v1-pod";
/// Path that validates topologies.
pub const VALIDATE_TOPOLOGY_PATH: &str = "/validate-kai-scheduler-v1alpha1-topology";
/// Path that validates queues.
pub const VALIDATE_QUEUE_PATH: &str = "/validate-scheduling-run-ai-v2-queue";
/// Path that validates pod groups.
pub const VALIDATE_POD_GROUP_PATH: &str = "/validate-scheduling-run-ai-v2alpha2-podgroup";

/// Match condition that keeps other schedulers' pods away.
pub const SCHEDULER_NAME_MATCH: &str = "scheduler-name-match";

/// Secret with the certificate for pods and topologies.
pub const POD_TLS_SECRET: &str = "kai-admission-webhook-tls-secret";

/// Secret with the certificate of authenticated metrics.
pub const METRICS_TLS_SECRET: &str = "kai-metrics-tls-secret";
