//! Programs that run on a node.
//!
//! | module | subject |
//! |---|---|
//! | [`gpu`] | the node's GPUs: NVML, its library, the device that a reservation pod was given |
//! | [`kubelet`] | what the kubelet answers on its socket |
//! | [`numa_agent`] | the agent that reports the NUMA zones of the node's pods |

pub mod gpu;
pub mod kubelet;
pub mod numa_agent;
