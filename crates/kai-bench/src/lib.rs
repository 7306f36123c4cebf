//! `kai bench cluster`: how fast `kai run` is end to end, on a real etcd and kube-apiserver, and for sizes that these do not reach
//! on one machine on an API server in this process.
//!
//! | module | subject |
//! |---|---|
//! | `cluster` | the control plane under test: nodes, queues, pods, the schedulers' processes |
//! | `fake_api` | an API server in this process, which does little: for the case `scale` |
//! | `load` | pods created over several connections |
//! | `kubelets` | simulated kubelets: bound pods run, evicted pods end, reservation pods name a device |
//! | `observer` | when pods were observed as bound |
//! | `process` | CPU time and resident memory of a process |
//! | `requests` | writes that the API server served |
//! | `cases` | one file per case |
//! | `figures` | what is printed |

mod cases;
mod cluster;
mod fake_api;
mod figures;
mod kubelets;
mod load;
mod objects;
mod observer;
mod process;
mod requests;

pub use cases::{Case, Plan, run};
pub use figures::Figures;
