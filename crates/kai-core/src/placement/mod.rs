//! Placement: which nodes are tried for a pod, in which order, and on which devices.

pub(crate) mod choose;
pub(crate) mod devices;
pub(crate) mod fit;
pub mod node_set;
pub(crate) mod refusal_table;
pub(crate) mod reservation_slots;
pub(crate) mod score;
