//! What is installed in a cluster.
//!
//! | module | subject |
//! |---|---|
//! | [`manifests`] | custom resources, roles, priority classes, default queues |
//! | [`deployments`] | Deployments, Services, webhooks and the daemon set |
//! | [`hardening`] | disruption budgets, priority, network policies |
//! | [`openshift`] | constraints that `OpenShift` asks for |

pub mod deployments;
pub mod hardening;
pub mod manifests;
pub mod openshift;
