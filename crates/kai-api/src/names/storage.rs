//! Annotations of Kubernetes on volumes and their claims.

/// On a claim: the node for which a volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// On a claim: its volume and it know of each other.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// On a volume: its claim was chosen by a controller, and may be taken back.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
