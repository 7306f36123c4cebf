//! The status of a pod, read off the pod alone.

use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};

use crate::view;

/// The status, and when a pod that was evicted starts to count as stuck.
pub(super) fn status(
    pod: &view::Pod,
    deleted: Option<Timestamp>,
    stuck_after: Span,
) -> (Status, Option<Timestamp>) {
    let terminating = pod.metadata.is_terminating();
    let placed = pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    let status = match pod.status.phase.as_deref().unwrap_or_default() {
        "Running" | "Pending" | "" if terminating => Status::Releasing,
        "Running" => Status::Running,
        "Pending" | "" if placed => Status::Bound,
        "Pending" | "" if !pod.spec.scheduling_gates.is_empty() => Status::Gated,
        "Pending" | "" => Status::Pending,
        "Succeeded" => Status::Succeeded,
        "Failed" => Status::Failed,
        _ => Status::Unknown,
    };
    let ran = pod.status.phase.as_deref() == Some("Running");
    let stuck_at = deleted.filter(|_| ran && status == Status::Releasing);
    (status, stuck_at.map(|moment| moment.plus(stuck_after)))
}
