//! The embedded cluster: a small Kubernetes API in memory, simulated nodes, minimal controllers.
//!
//! The heart is [`Cluster`], a state machine without clock, threads or network: requests and the passing of time go in,
//! answers and changes come out. [`service`] puts it behind a `tower` service, so that any client can talk to it without a
//! connection.
//!
//! | module | subject |
//! |---|---|
//! | [`cluster`] | the state machine; which controller reconciles what, and when |
//! | `alarms` | times at which items are reconciled again |
//! | [`store`] | objects, versions, the latest writes |
//! | [`api`] | requests into answers |
//! | [`kinds`], [`crd`] | what is served: built-in and custom resources, their shapes and schemas |
//! | [`admission`] | defaults and rules of built-in objects |
//! | `expressions` | rules and conditions that others write down |
//! | [`fields`], [`lists`] | field managers; how lists are merged |
//! | [`selectors`], [`failure`], [`object`], [`ids`], [`tables`] | what all of them use |
//! | [`nodes`] | simulated nodes: devices, and pods that start, run and end |
//! | [`controllers`] | what brings workloads to pods, and what cleans up |
//! | [`service`], [`serve`] | the transport: in the same process, and on a socket |

pub mod admission;
mod alarms;
pub mod api;
pub mod cluster;
pub mod controllers;
pub mod crd;
mod expressions;
pub mod failure;
pub mod fields;
pub mod ids;
pub mod kinds;
pub mod lists;
pub mod nodes;
pub mod object;
pub mod selectors;
pub mod serve;
pub mod service;
pub mod store;
pub mod tables;

pub use cluster::Cluster;
pub use k8s_openapi::jiff::Timestamp;
pub use object::Key;
