//! Admission: what pods, queues, pod groups and topologies are denied or given when they are written.
//!
//! Rules are pure, one file per kind. Pods of other schedulers never reach us: the registrations match on the scheduler's
//! name. Certificates are made and renewed here and kept in one Secret that all replicas share.
//!
//! | module | subject |
//! |---|---|
//! | [`pods`], [`mutate`] | which pods are denied, what they are given |
//! | [`queues`], [`quotas`], [`reductions`], [`pod_groups`], [`topologies`] | which of these are denied |
//! | [`pod`] | a pod as reviews carry it |
//! | [`guard`], `namespace_label`, `container_memory` | the library that limits GPU memory; requests and limits of single containers |
//! | `queue_use` | which queues a pod may use |
//! | `classes` | runtime classes that exist |
//! | [`review`] | questions and answers of the API server |
//! | [`certificates`] | our authority and our certificate |
//! | [`registration`] | webhook configurations |
//! | [`server`] | everything together |

pub mod certificates;
mod classes;
mod container;
mod container_memory;
pub mod guard;
pub mod mutate;
mod namespace_label;
pub mod pod;
pub mod pod_groups;
pub mod pods;
mod queue_use;
pub mod queues;
pub mod quotas;
pub mod reductions;
pub mod registration;
pub mod review;
pub mod server;
pub mod topologies;

use kai_settings::admission::{AdmissionSettings, FailurePolicy, PodRules, QueueRules};

/// What is said about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it is denied; none: it is not.
    pub denial: Option<String>,
    /// What its author should know.
    pub warnings: Vec<String>,
}

impl Verdict {
    fn deny(why: impl Into<String>) -> Self {
        Self { denial: Some(why.into()), warnings: Vec::new() }
    }
}
