//! Orders of the binder, and how each is written. Every write names the UID of what it is meant for, and may be repeated.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodExtendedResourceClaimStatus;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kai_client::failure::Failure;
use kai_client::path::Resource;
use kai_client::watch::Change;
use kai_client::write::{BindPod, Create, Delete, Outcome, Patch, Target, Write, Writer};
use kai_core::input::{ObjectName, Text};
use kai_core::time::Timestamp;
use kai_translate::view;
use serde::Serialize;
use serde_json::Value;

use super::claims::{FreeClaim, TakeClaim};
use super::node_gpu_annotations::NodeUpdate;
use super::sharing::ConfigMap;
use super::volumes::{FreeVolume, ReserveVolume, SelectNode};
use super::{DeviceKey, claim_writes, config_maps};

/// Something to be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Create the reservation pod of a device: the one that observes processes, or without it or where it is forbidden the
    /// plain one.
    Reserve { device: DeviceKey, plain: Box<Value>, observing: Option<Box<Value>> },
    /// Remove a reservation pod.
    Release { device: DeviceKey, pod: ObjectName, uid: Text },
    /// Remove a reservation pod without waiting for its end.
    Discard { pod: ObjectName, uid: Text },
    /// Evict a pod that shares a device it may no longer use.
    Evict { pod: ObjectName, uid: Text, message: String },
    /// Write on a node what is known of its GPUs.
    UpdateNode { node: Text, update: NodeUpdate, now: Timestamp },
    /// Write the limits of GPU memory of a pod anew: its neighbours are others.
    Limit { pod: ObjectName, uid: Text, key: String, text: String },
    /// A step of a bind.
    Write { request: ObjectName, attempt: u64, pod: ObjectName, write: BindStep },
    /// Remove what a bind left on a pod.
    Repair { pod: ObjectName, undo: Undo },
    /// Set and remove labels of a pod that is bound.
    Label { pod: ObjectName, uid: Text, labels: LabelChanges },
}

/// Labels by key; none: the label is removed.
pub(super) type LabelChanges = BTreeMap<String, Option<String>>;

/// A step of a bind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BindStep {
    /// Set and remove labels of the pod.
    Label { uid: Text, labels: LabelChanges },
    /// Write the pod's config maps.
    Configure { uid: Text, maps: Vec<ConfigMap> },
    /// Reserve a volume for a claim of the pod.
    ReserveVolume(ReserveVolume),
    /// Have a volume made for a claim of the pod.
    SelectNode(SelectNode),
    /// Give a claim its devices and reserve it for the pod.
    TakeClaim(TakeClaim),
    /// Make the claim for extended resources of the pod.
    MakeClaim(Box<ResourceClaim>),
    /// Name that claim in the status of the pod.
    NameClaim { uid: Text, status: PodExtendedResourceClaimStatus },
    /// Bind the pod, with labels and annotations.
    Bind {
        uid: Text,
        node: Text,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<Cow<'static, str>, String>,
    },
    /// Undo what was done to the pod.
    Undo(Undo),
    /// Write how it ended.
    WriteStatus(StatusUpdate),
    /// Deletes the bind request.
    Drop { uid: Text },
}

/// What has to be undone on a pod that has no node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Undo {
    pub(super) uid: Text,
    /// The pod must not have changed since: it might have been bound.
    pub(super) version: String,
    pub(super) labels: Vec<String>,
    pub(super) config_maps: Vec<String>,
    pub(super) claims: Vec<FreeClaim>,
    /// Its status names a claim for its extended resources.
    pub(super) names_claim: bool,
    pub(super) volumes: Vec<FreeVolume>,
}

impl Undo {
    pub(super) fn is_something(&self) -> bool {
        let Self { labels, config_maps, claims, names_claim, volumes, .. } = self;
        !(labels.is_empty() && config_maps.is_empty() && claims.is_empty() && volumes.is_empty())
            || *names_claim
    }
}

/// What the API server answered to a write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// No write is needed.
    Nothing,
    /// The pod as it is now.
    Pod(Box<view::Pod>),
    /// Another object as it is now.
    Object(Box<Change>),
}

/// How a bind ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatusUpdate {
    pub(super) uid: Text,
    pub(super) phase: &'static str,
    pub(super) reason: Option<String>,
    pub(super) failed_attempts: i32,
}

/// The status of a bind request as it is written; a reason of earlier attempts is removed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndedBindStatus {
    phase: &'static str,
    reason: Option<String>,
    failed_attempts: i32,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    Reserved { device: DeviceKey, ended: Outcome<Box<view::Pod>> },
    Released { device: DeviceKey, pod: ObjectName, ended: Outcome<()> },
    Wrote { request: ObjectName, attempt: u64, ended: Written },
    NodeUpdated { node: Text, ended: Outcome<()> },
    Repaired { pod: ObjectName, ended: Written },
    Labelled { pod: ObjectName, ended: Outcome<()> },
}

/// How a write ended.
pub(super) type Written = Outcome<Answer>;

/// Carries an order out.
pub(super) async fn carry_out(writer: &Writer, order: Order) -> Option<Report> {
    match order {
        Order::Reserve { device, plain, observing } => {
            let ended = match observing {
                Some(observing) => reserve_observing(writer, observing, plain).await,
                None => reserve(writer, plain).await,
            };
            Some(Report::Reserved { device, ended })
        }
        Order::Release { device, pod, uid } => {
            let ended = delete_pod(writer, &pod, &uid).await;
            Some(Report::Released { device, pod, ended })
        }
        Order::Discard { pod, uid } => {
            if let Err(failure) = delete_pod(writer, &pod, &uid).await {
                tracing::warn!(%pod, %failure, "failed to remove a reservation pod");
            }
            None
        }
        Order::Evict { pod, uid, message } => {
            tracing::warn!(%pod, message, "evicting pod");
            let evict = Write::Evict(Target::of_uid(Resource::PODS, &pod, &uid));
            if let Err(failure) = writer.write(&evict).await {
                tracing::warn!(%pod, %failure, "failed to evict pod");
            }
            None
        }
        Order::UpdateNode { node, update, now } => {
            let ended = write_node_update(writer, &node, update, now).await;
            Some(Report::NodeUpdated { node, ended })
        }
        Order::Limit { pod, uid, key, text } => {
            let target = Target::of_uid(Resource::PODS, &pod, &uid);
            let patch = Patch::annotations([(key, Some(text))]);
            if let Err(failure) = writer.write(&Write::Patch(target, patch)).await {
                tracing::warn!(%pod, %failure, "failed to update the GPU memory limits of a pod");
            }
            None
        }
        Order::Write { request, attempt, pod, write } => {
            let ended = write_step(writer, &request, &pod, write).await;
            Some(Report::Wrote { request, attempt, ended })
        }
        Order::Repair { pod, undo } => {
            let ended = undo_all(writer, &pod, undo).await;
            Some(Report::Repaired { pod, ended })
        }
        Order::Label { pod, uid, labels } => {
            let target = Target::of_uid(Resource::PODS, &pod, &uid);
            let ended = writer.write(&Write::Patch(target, Patch::labels(labels))).await;
            Some(Report::Labelled { pod, ended })
        }
    }
}

async fn write_step(
    writer: &Writer,
    request: &ObjectName,
    pod: &ObjectName,
    step: BindStep,
) -> Written {
    match step {
        BindStep::Label { uid, labels } => {
            let target = Target::of_uid(Resource::PODS, pod, &uid);
            patch_pod(writer, target, Patch::labels(labels)).await
        }
        BindStep::Configure { uid, maps } => {
            for map in maps {
                config_maps::apply(writer, pod, &uid, &map).await?;
            }
            Ok(Answer::Nothing)
        }
        BindStep::ReserveVolume(reserve) => claim_writes::reserve_volume(writer, reserve).await,
        BindStep::SelectNode(select) => claim_writes::select_node(writer, select).await,
        BindStep::TakeClaim(take) => claim_writes::take_claim(writer, take).await,
        BindStep::MakeClaim(claim) => claim_writes::make_claim(writer, &claim).await,
        BindStep::NameClaim { uid, status } => {
            claim_writes::name_claim(writer, pod, &uid, Some(&status)).await
        }
        BindStep::Bind { uid, node, labels, annotations } => {
            let bind = BindPod { pod: pod.clone(), uid, node, labels, annotations };
            writer.write(&Write::Bind(bind)).await?;
            Ok(Answer::Nothing)
        }
        BindStep::Undo(undo) => undo_all(writer, pod, undo).await,
        BindStep::WriteStatus(StatusUpdate { uid, phase, reason, failed_attempts }) => {
            let status = EndedBindStatus { phase, reason, failed_attempts };
            let target = Target::of_uid(Resource::BIND_REQUESTS, request, &uid);
            let patch = Patch::status(&status);
            let ended = writer.write(&Write::Patch(target, patch)).await;
            gone_is_fine(ended.map(|()| Answer::Nothing))
        }
        BindStep::Drop { uid } => {
            let target = Target::of_uid(Resource::BIND_REQUESTS, request, &uid);
            writer.write(&Write::Delete(target, Delete::default())).await?;
            Ok(Answer::Nothing)
        }
    }
}

/// Creates a reservation pod that observes processes. Pod Security or a rule of the platform may forbid what it needs for
/// that: sharing a GPU goes on without it.
async fn reserve_observing(
    writer: &Writer,
    observing: Box<Value>,
    plain: Box<Value>,
) -> Outcome<Box<view::Pod>> {
    match reserve(writer, observing).await {
        Err(Failure::Forbidden { reason } | Failure::Denied { reason }) => {
            tracing::warn!(
                reason,
                "reservation pod may not observe processes, whether memory limits are enforced stays unknown: allow hostPID and SYS_PTRACE in its namespace, or set resourceReservation.observeProcesses=false"
            );
            reserve(writer, plain).await
        }
        ended => ended,
    }
}

/// Makes a reservation pod; one that is there already is as good.
async fn reserve(writer: &Writer, pod: Box<Value>) -> Outcome<Box<view::Pod>> {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    let name = ObjectName::new(text("namespace"), text("name"));
    let create = Write::Create(Create::manifest(Resource::PODS, &name.namespace, pod));
    match writer.write_as(&create).await {
        Err(Failure::Conflict { reason }) => {
            let found = writer.read(&Resource::PODS.object(&name)).await?;
            found.map(Box::new).ok_or(Failure::Conflict { reason })
        }
        made => made.map(Box::new),
    }
}

/// What is known of a node's GPUs goes onto the node.
async fn write_node_update(
    writer: &Writer,
    node: &Text,
    update: NodeUpdate,
    now: Timestamp,
) -> Outcome<()> {
    let target = Target::named(Resource::NODES, &ObjectName::new("", &**node));
    let NodeUpdate { annotations, conditions } = update;
    if !annotations.is_empty() {
        let patch = Patch::annotations(annotations);
        writer.write(&Write::Patch(target.clone(), patch)).await?;
    }
    if !conditions.is_empty() {
        let conditions: Vec<_> = conditions.iter().map(|one| one.object(now)).collect();
        let patch = Patch::conditions(&conditions);
        writer.write(&Write::Patch(target, patch)).await?;
    }
    Ok(())
}

pub(super) async fn patch_pod(writer: &Writer, target: Target, patch: Patch) -> Written {
    Ok(Answer::Pod(writer.write_as(&Write::Patch(target, patch)).await?))
}

/// The pod first: where it has changed it may have been bound, and need the rest. A patch that changes nothing asks that
/// too.
async fn undo_all(writer: &Writer, pod: &ObjectName, undo: Undo) -> Written {
    let Undo { uid, version, labels, config_maps, claims, names_claim, volumes } = undo;
    let target = Target::unchanged(Resource::PODS, pod, &uid, &version);
    let patch = Patch::labels(labels.into_iter().map(|label| (label, None)));
    let answer = gone_is_fine(patch_pod(writer, target, patch).await)?;
    for map in config_maps {
        config_maps::delete(writer, pod, &uid, &map).await?;
    }
    if names_claim {
        gone_is_fine(claim_writes::name_claim(writer, pod, &uid, None).await)?;
    }
    for claim in claims {
        gone_is_fine(claim_writes::free_claim(writer, claim).await)?;
    }
    for volume in volumes {
        gone_is_fine(claim_writes::free_volume(writer, volume).await)?;
    }
    Ok(answer)
}

/// Removes a reservation pod without its grace period.
async fn delete_pod(writer: &Writer, pod: &ObjectName, uid: &str) -> Outcome<()> {
    let target = Target::of_uid(Resource::PODS, pod, uid);
    let delete = Delete { grace_period_seconds: Some(0) };
    writer.write(&Write::Delete(target, delete)).await
}

fn gone_is_fine(ended: Written) -> Written {
    match ended {
        Err(Failure::Gone { .. }) => Ok(Answer::Nothing),
        ended => ended,
    }
}
