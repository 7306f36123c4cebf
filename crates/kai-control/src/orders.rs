//! Orders: what a plan asks to be written, and how each is written.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodCondition;
use kai_api::BindRequest;
use kai_api::names::status;
use kai_binder::LocalId;
use kai_client::failure::Failure;
use kai_client::path::Resource;
use kai_client::request::{EvictBy, evict};
use kai_client::write::{BindPod, Create, Delete, Patch, Target, Write, Writer};
use kai_core::input::{ObjectName, Text};
use kai_core::time::Span;
use kai_translate::view;
use tokio::sync::mpsc::Sender;

use crate::usage::Usages;
use crate::usage::store::{self, Place};

/// Something to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Bind a pod that needs nothing but a node.
    Bind(BindPod),
    /// Ask a binder for a bind that takes several steps, by an object.
    RequestBind(ObjectName, Box<BindRequest>),
    /// Ask the binder of this process for a bind of the pod that takes several steps.
    HandOverBind(ObjectName, LocalId, Box<BindRequest>),
    /// The binder of this process is to stop the bind that it was handed.
    WithdrawBind(ObjectName, LocalId),
    /// Remove a bind request of this UID, which failed for good.
    DropBindRequest(ObjectName, Text),
    /// Evict a pod by these means.
    Evict(EvictBy, Victim),
    /// Set or remove annotations of a pod group.
    MarkGroup(Target, BTreeMap<&'static str, Option<String>>),
    /// Find out to which group a pod belongs.
    Group(Box<kai_api::view::Pod>),
    /// Write the record of past usage.
    StoreUsage(Place, String),
    /// Find out why a pod of this UID ended before its node had started it; the watch does not show pods that failed.
    FindRejection(ObjectName, Text),
    /// Write a pod group and link the pod to it.
    Publish(Box<kai_api::view::Pod>, Box<kai_workloads::PodGroupPlan>),
}

/// A pod that is evicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Victim {
    /// Namespace and name of the pod.
    pub pod: ObjectName,
    /// Its UID, so that another pod of the name is left alone.
    pub uid: Text,
    /// Why, in KAI's words.
    pub message: Text,
    /// A disruption budget does not allow the eviction and has delayed it long enough: the pod is deleted.
    pub overrides_budget: bool,
}

/// A pod that its node rejected.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// Namespace and name of the pod.
    pub pod: ObjectName,
    /// UID of the pod, so that a later pod of the name is not meant.
    pub uid: Text,
    /// The node that rejected it.
    pub node: Text,
    /// The kubelet's reason, one word.
    pub reason: String,
    /// A controller creates another pod.
    pub has_controller: bool,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The pod was bound.
    Bound(ObjectName),
    /// The bind of the pod was requested.
    BindRequested(ObjectName),
    /// The pod was not bound.
    BindFailed {
        /// Namespace and name of the pod.
        pod: ObjectName,
        /// The node that it should have got.
        node: Text,
        /// Why the write failed.
        failure: Failure,
    },
    /// The failed bind request of this UID could not be removed.
    BindRequestStays(Text),
    /// A node rejected a pod that was bound to it.
    Rejected(Rejection),
    /// The API server accepted the eviction of the pod, or the pod is gone.
    Evicted(ObjectName),
    /// The API server refused the eviction of a pod.
    EvictionRefused {
        /// Namespace and name of the pod.
        victim: ObjectName,
        /// Why, in the words of the API server.
        error: String,
    },
    /// The group of a pod is known.
    Grouped(Box<crate::grouper::Grouped>),
    /// The group of a pod was looked for without success, and is looked for again.
    NotGrouped {
        /// Namespace and name of the pod.
        pod: ObjectName,
        /// UID of the pod, so that a later pod of the name is not meant.
        uid: Text,
        /// Why, for an event of the pod.
        why: String,
    },
    /// The rules of grouping panicked.
    GroupingPanicked,
    /// Past usage of queues, and how long it took to learn it.
    Usage {
        /// Shares of what there was.
        usages: Usages,
        /// How long the answer took.
        latency: Span,
    },
    /// What an earlier process recorded, where there was one.
    UsageLoaded(Option<String>),
    /// A status or event was written, or not.
    StatusWritten(crate::status::write::Ended),
}

/// Carries an order out and reports. Orders of the grouper and of the binder are carried out by them.
pub async fn carry_out(writer: Writer, order: Order, reports: Sender<Report>) {
    match order {
        Order::Bind(bind) => {
            let _ = reports.send(bind_pod(&writer, bind).await).await;
        }
        Order::RequestBind(pod, request) => {
            let _ = reports.send(request_bind(&writer, pod, &request).await).await;
        }
        Order::DropBindRequest(name, uid) => {
            let target = Target::of_uid(Resource::BIND_REQUESTS, &name, &uid);
            match writer.write(&Write::Delete(target, Delete::default())).await {
                Ok(()) => tracing::info!(request = %name, "removed a failed bind request"),
                Err(failure) => {
                    tracing::warn!(request = %name, %failure, "failed to remove a failed bind request");
                    let _ = reports.send(Report::BindRequestStays(uid)).await;
                }
            }
        }
        Order::Evict(by, victim) => {
            let _ = reports.send(evict_victim(&writer, by, victim).await).await;
        }
        Order::MarkGroup(target, annotations) => {
            let group = target.name.clone();
            let patch = Patch::annotations(annotations.clone());
            match writer.write(&Write::Patch(target, patch)).await {
                Ok(()) => tracing::info!(%group, ?annotations, "annotated a pod group"),
                // The group that was planned is gone, and perhaps another one has its name.
                Err(Failure::Gone { .. } | Failure::Conflict { .. }) => {}
                Err(failure) => tracing::warn!(%group, %failure, "failed to annotate a pod group"),
            }
        }
        Order::FindRejection(pod, uid) => {
            if let Some(rejection) = rejection_of(&writer, pod, uid).await {
                let _ = reports.send(Report::Rejected(rejection)).await;
            }
        }
        Order::StoreUsage(place, text) => store::save(&writer, &place, &text).await,
        Order::Group(_)
        | Order::Publish(..)
        | Order::HandOverBind(..)
        | Order::WithdrawBind(..) => {}
    }
}

/// Reasons with which a kubelet rejects a pod that it has no capacity for: this one, and `OutOf` with the name of a resource.
const ADMISSION_ERROR: &str = "UnexpectedAdmissionError";
const OUT_OF: &str = "OutOf";

/// Why the node of a pod rejected it; none if it did not, or if that cannot be found out.
async fn rejection_of(writer: &Writer, pod: ObjectName, uid: Text) -> Option<Rejection> {
    let path = Resource::PODS.object(&pod);
    let object: view::Pod = writer.read(&path).await.ok().flatten()?;
    let reason = object.status.reason.unwrap_or_default();
    let is_rejected = object.status.phase.as_deref() == Some("Failed")
        && (reason.starts_with(OUT_OF) || reason == ADMISSION_ERROR);
    let node: Text = object.spec.node_name?.into();
    let has_controller = !object.metadata.owner_references.is_empty();
    let found = Rejection { pod, uid, node, reason, has_controller };
    (is_rejected && *object.metadata.uid == *found.uid).then_some(found)
}

async fn bind_pod(writer: &Writer, bind: BindPod) -> Report {
    let (pod, node) = (bind.pod.clone(), bind.node.clone());
    match writer.write(&Write::Bind(bind)).await {
        Ok(()) => {
            tracing::info!(%pod, %node, "bound pod");
            Report::Bound(pod)
        }
        Err(failure) => Report::BindFailed { pod, node, failure },
    }
}

async fn request_bind(writer: &Writer, pod: ObjectName, request: &BindRequest) -> Report {
    let node = request.spec.selected_node.as_deref().unwrap_or_default().into();
    match writer.write(&Write::Create(Create::new(request))).await {
        Ok(()) => {
            tracing::info!(%pod, "created a bind request");
            Report::BindRequested(pod)
        }
        Err(failure) => Report::BindFailed { pod, node, failure },
    }
}

/// Writes the condition that says why a victim is evicted. The victim is evicted even if that fails.
async fn mark_victim(writer: &Writer, victim: &Victim) {
    let condition = PodCondition {
        type_: status::DISRUPTION_TARGET.to_owned(),
        status: "True".to_owned(),
        reason: Some(status::PREEMPTION_BY_SCHEDULER.to_owned()),
        message: Some(victim.message.to_string()),
        ..PodCondition::default()
    };
    let target = Target::of_uid(Resource::PODS, &victim.pod, &victim.uid);
    let patch = Patch::conditions(&[condition]);
    match writer.write(&Write::Patch(target, patch)).await {
        Ok(()) | Err(Failure::Gone { .. }) => {}
        Err(failure) => {
            let pod = &victim.pod;
            tracing::warn!(%pod, %failure, "failed to write the condition DisruptionTarget of a victim");
        }
    }
}

async fn evict_victim(writer: &Writer, by: EvictBy, victim: Victim) -> Report {
    if by == EvictBy::MarkedDelete {
        mark_victim(writer, &victim).await;
    }
    match evict(writer, by, &victim.pod, &victim.uid).await {
        Ok(()) => {
            tracing::info!(pod = %victim.pod, "evicted pod");
            Report::Evicted(victim.pod)
        }
        Err(failure) => Report::EvictionRefused { victim: victim.pod, error: failure.to_string() },
    }
}
