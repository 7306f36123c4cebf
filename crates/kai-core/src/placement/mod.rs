//! Placement: which nodes are tried for a pod, in which order, and on which devices.

pub mod node_set;
