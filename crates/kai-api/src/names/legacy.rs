//! Spellings of earlier releases that are still understood.

/// Queue label before v0.6.
pub const QUEUE: &str = "runai/queue";

/// Namespace of reservation pods before v0.6.
pub const RESERVATION_NAMESPACE: &str = "runai-reservation";

/// `ConfigMap` key before v0.6; rewritten only where it is present.
pub const VISIBLE_DEVICES: &str = "RUNAI-VISIBLE-DEVICES";
