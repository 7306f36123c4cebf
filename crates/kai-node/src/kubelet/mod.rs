//! What the kubelet of this node answers on its socket. For programs that run on a node.
//!
//! | module | subject |
//! |---|---|
//! | [`pod_resources`] | what it gave to containers |
//! | `wire` | the little of gRPC and its encoding that this takes |

pub mod pod_resources;
mod wire;

pub use wire::CallError;
