//! A real control plane for tests: etcd, kube-apiserver and kube-controller-manager, built once and started on free ports.
//!
//! The programs are built from the Go module `control-plane/` of this repository and kept outside of it, by the hash of its
//! `go.sum`. Where Go is missing, [`ControlPlane::start`] gives the reason, and a test says that it was skipped.
//!
//! Beside it may run real [nodes](Node), inside a [sandbox] and with [images](Image) of ours.

mod audit;
mod binaries;
mod certificates;
mod control_plane;
mod image;
mod kubeconfig;
mod node;
pub mod objects;
mod ports;
mod process;
pub mod sandbox;
mod store;

pub use audit::{Audit, AuditedRequest};
pub use binaries::{Binaries, Build, chosen_minor, gitops, helm};
pub use control_plane::{ControlPlane, Impossible};
pub use image::Image;
pub use node::{Node, NodePlan, NodeProgram, NvidiaRuntime};
pub use ports::free_port;
pub use process::Process;
