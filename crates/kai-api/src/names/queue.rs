//! Annotations of a queue that say who may use it. Where none of them is set, everybody may.

/// Annotation: namespaces whose workloads may use the queue and those below it, separated by commas.
pub const ALLOWED_NAMESPACES: &str = "kai.scheduler/allowed-namespaces";

/// Annotation: labels of namespaces whose workloads may use the queue and those below it, as `key=value,key=value`.
pub const ALLOWED_NAMESPACE_SELECTOR: &str = "kai.scheduler/allowed-namespace-selector";

/// Annotation: priority classes that workloads of the queue and those below it may have, separated by commas. Workloads
/// without a priority class are admitted.
pub const ALLOWED_PRIORITY_CLASSES: &str = "kai.scheduler/allowed-priority-classes";
