//! Pure rules: from a pod and its owners to the pod group it belongs to.
//!
//! [`group_pod`] is the whole of it. It reads a pod, the chain of its owners and a few [`Facts`] about other objects, and
//! answers with a [`PodGroupPlan`], with a reason to skip the pod, or with the facts it still [`Need`]s. It has no
//! client and no clock: the caller fetches, asks again, and writes ([`mod@write`]).
//!
//! | module | subject |
//! |---|---|
//! | [`chain`] | walking up the owners |
//! | [`registry`] | which rule a kind has |
//! | `kinds` | the rules, one file per family |
//! | [`queue`] | the queue of a pod |
//! | [`mod@write`] | what to create, update or patch |

mod base;
pub mod chain;
pub mod config;
mod error;
mod facts;
mod jq;
mod kinds;
mod metadata;
pub mod object;
mod plan;
mod priority;
pub mod queue;
pub mod registry;
mod topology;
pub mod write;

use std::sync::Arc;

use kai_api::names::workload;
use kai_api::view::Pod;
use serde_json::Value;

pub use config::GrouperConfig;
pub use error::GroupingError;
pub use facts::{Facts, Gvk, Need, ObjectKey, PodQuery, SERVED_VERSION};
pub use plan::{Minimum, Notice, PodGroupPlan, SubGroupPlan};

use crate::base::Case;
use crate::error::Stop;
use crate::object::Object;

/// What to do about a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The pod belongs to this group.
    Group(Box<PodGroupPlan>),
    /// The pod is left as it is.
    Skip(SkipReason),
    /// These facts are missing; add them and ask again.
    Fetch(Vec<Need>),
}

/// Why a pod is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Another scheduler places it.
    OtherScheduler,
    /// The pod carries the annotation that keeps the grouper away.
    PodOptedOut,
    /// An owner carries that annotation.
    OwnerOptedOut,
    /// A pod without owners names a group that is not ours: the user manages it.
    UserManaged,
    /// The pod has run to its end.
    Finished,
    /// The label selector excludes the pod.
    NotSelected,
}

/// Whether the pod may be grouped, as far as known before its owners are read.
pub fn skip_pod(pod: &Pod, config: &GrouperConfig) -> Option<SkipReason> {
    if pod.spec.scheduler_name.as_deref() != Some(config.scheduler_name.as_str()) {
        return Some(SkipReason::OtherScheduler);
    }
    if !config.selects_pod(pod) {
        return Some(SkipReason::NotSelected);
    }
    if pod.is_finished() {
        return Some(SkipReason::Finished);
    }
    if pod.annotation(workload::SKIP_POD_GROUPER) == Some("true") {
        return Some(SkipReason::PodOptedOut);
    }
    if pod.metadata.owner_references.is_empty()
        && let Some(name) = pod.annotation(workload::POD_GROUP_NAME)
        && !kinds::pod::own_names(pod).iter().any(|own| own == name)
        && !pod.spec.names_kubernetes_group()
    {
        return Some(SkipReason::UserManaged);
    }
    None
}

/// The group of a pod. `owners` are the readable ones, the pod's own first, the top owner last, each read in full.
pub fn group_pod(
    pod: &Pod,
    owners: &[Arc<Value>],
    facts: &Facts,
    config: &GrouperConfig,
) -> Result<Decision, GroupingError> {
    if let Some(reason) = skip_pod(pod, config) {
        return Ok(Decision::Skip(reason));
    }
    let opted_out =
        |owner: &Value| Object::new(owner).annotation(workload::SKIP_POD_GROUPER) == Some("true");
    if owners.iter().any(|owner| opted_out(owner)) {
        return Ok(Decision::Skip(SkipReason::OwnerOptedOut));
    }
    match kinds::plan(&Case::new(pod, owners, facts, config)) {
        Ok(plan) => Ok(Decision::Group(Box::new(plan))),
        Err(Stop::Need(needs)) => Ok(Decision::Fetch(needs)),
        Err(Stop::Invalid(error)) => Err(*error),
    }
}
