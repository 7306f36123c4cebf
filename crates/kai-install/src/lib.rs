//! What is installed in a cluster.
//!
//! | module | subject |
//! |---|---|
//! | [`manifests`] | custom resources, roles, priority classes, default queues |
//! | [`deployments`] | Deployments, Services, webhooks and the daemon set |
//! | [`openshift`] | constraints that `OpenShift` asks for |

pub mod deployments;
pub mod manifests;
pub mod openshift;
