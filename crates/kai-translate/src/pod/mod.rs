//! Pods.
//!
//! A pod that waits and that cannot be understood is left out, so that it waits until it is repaired; one that has a node
//! counts with whatever can be read of it.

mod constraints;
mod gpu;
mod numa;
mod request;
mod sizes;
mod status;

use std::sync::Arc;

use kai_api::names::{defaults, gpu as gpu_names, objects, workload};
use kai_core::input::pod::{Backoff, PodRole};
use kai_core::input::{ObjectName, PodSpec, Text};
use kai_core::time::{Span, Timestamp};

pub use constraints::volume_claims;
pub use gpu::shared_gpus;
pub(crate) use numa::by_name as amounts_by_name;

use crate::problem::{Complaints, Translated};
use crate::{selectors, time, view};

/// How pods are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRules {
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler_name: String,
    /// Value of the `app` label of reservation pods.
    pub reservation_app: String,
    /// Namespaces in which pods with that label are reservation pods. Elsewhere the label means nothing.
    pub reservation_namespaces: Vec<String>,
    /// How long after its deletion a running pod counts as stuck.
    pub stuck_after: Span,
}

impl Default for PodRules {
    fn default() -> Self {
        Self {
            scheduler_name: objects::SCHEDULER_NAME.to_owned(),
            reservation_app: objects::RESERVATION.to_owned(),
            reservation_namespaces: objects::RESERVATION_NAMESPACES.map(str::to_owned).to_vec(),
            stuck_after: time::seconds(defaults::STUCK_RELEASING_SECONDS),
        }
    }
}

impl PodRules {
    /// What a pod is to the scheduler.
    pub fn role(&self, pod: &view::Pod) -> PodRole {
        match pod.metadata.labels.get(objects::APP).map(String::as_str) {
            Some(app) if app == self.reservation_app && self.may_hold_reservations(pod) => {
                PodRole::Reservation
            }
            Some(objects::SCALING_POD) => PodRole::Scaling,
            _ if pod.spec.scheduler_name.as_deref() == Some(&self.scheduler_name) => {
                PodRole::Workload
            }
            _ => PodRole::Foreign,
        }
    }
}

impl PodRules {
    /// From now on reservation pods of this namespace count.
    pub fn trust_reservations_in(&mut self, namespace: &str) {
        if !self.reservation_namespaces.iter().any(|known| known == namespace) {
            self.reservation_namespaces.push(namespace.to_owned());
        }
    }

    fn may_hold_reservations(&self, pod: &view::Pod) -> bool {
        self.reservation_namespaces.contains(&pod.metadata.namespace)
    }
}

/// The identity of a pod.
pub fn name(pod: &view::Pod) -> ObjectName {
    ObjectName::new(pod.metadata.namespace.as_str(), pod.metadata.name.as_str())
}

pub fn translate(pod: &view::Pod, rules: &PodRules) -> Translated<PodSpec> {
    let name = name(pod);
    let mut complaints = Complaints::about(format!("Pod {name}"));
    let role = rules.role(pod);
    let request = request::request(pod, &mut complaints);
    let constraints = constraints::constraints(pod);
    let numa = numa::demand(pod, &mut complaints);
    let created = moment(
        pod.metadata.creation_timestamp.as_ref(),
        "metadata.creationTimestamp",
        &mut complaints,
    );
    let deleted = moment(
        pod.metadata.deletion_timestamp.as_ref(),
        "metadata.deletionTimestamp",
        &mut complaints,
    );
    let (status, stuck_at) = status::status(pod, deleted, rules.stuck_after);
    let group = pod.metadata.annotations.get(workload::POD_GROUP_NAME);
    let spec = PodSpec {
        uid: pod.metadata.uid.as_str().into(),
        created: created.unwrap_or_default(),
        group: selectors::non_empty(group).filter(|_| role == PodRole::Workload),
        sub_group: selectors::non_empty(pod.metadata.labels.get(workload::SUBGROUP_NAME)),
        role,
        status,
        node: selectors::non_empty(pod.spec.node_name.as_ref()),
        stuck_at,
        labels: Arc::new(selectors::labels(&pod.metadata.labels)),
        request,
        gpu_groups: gpu_groups(pod),
        constraints: Arc::new(constraints),
        claims: claims(pod),
        nominated_node: selectors::non_empty(pod.status.nominated_node_name.as_ref()),
        backoff: Backoff::default(),
        numa,
        name,
    };
    if spec.node.is_some() {
        return complaints.with(spec);
    }
    if role == PodRole::Workload {
        sizes::check(&spec, &mut complaints);
    }
    complaints.only_if_sound(spec)
}

fn moment(text: Option<&String>, field: &str, complaints: &mut Complaints) -> Option<Timestamp> {
    complaints.check(|| field.to_owned(), time::parse(text?))
}

/// Groups of shared devices, from the label of one and the labels of several.
pub fn gpu_groups(pod: &view::Pod) -> Vec<Text> {
    let labels = &pod.metadata.labels;
    let several = labels
        .iter()
        .filter(|(key, _)| key.starts_with(gpu_names::MULTI_GROUP_PREFIX))
        .map(|(_, group)| group);
    let mut groups: Vec<Text> = Vec::new();
    for group in labels.get(gpu_names::GROUP).into_iter().chain(several) {
        if !group.is_empty() && !groups.iter().any(|known| **known == **group) {
            groups.push(group.as_str().into());
        }
    }
    groups
}

/// Claims by object name. One that is still to be made from its template goes by its name in the pod: no claim is called
/// that, so the pod waits for it.
fn claims(pod: &view::Pod) -> Vec<Text> {
    let objects = pod.spec.resource_claims.iter().filter(|claim| !pod.needs_no_claim_object(claim));
    objects.map(|claim| pod.claim_object(&claim.name).unwrap_or(&claim.name).into()).collect()
}
