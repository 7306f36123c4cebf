//! Orders of the binder, and how each is written. Every write names the UID of what it is meant for, and may be repeated.

use std::collections::BTreeMap;

use kai_client::kinds::Kind;
use kai_client::request::STRATEGIC_PATCH;
use kai_client::request::{EvictBy, MERGE_PATCH, evict, object_path, path_segment, send};
use kai_core::input::{ObjectName, Text};
use kai_core::time::Timestamp;
use kai_translate::{time, view};
use kube::Client;
use serde_json::{Value, json};

use super::claims::{FreeClaim, TakeClaim};
use super::conditions::NodeCondition;
use super::notes::Note;
use super::sharing::ConfigMap;
use super::volumes::{FreeVolume, ReserveVolume, SelectNode};
use super::{DeviceKey, config_maps, holdings};

const BIND_REQUESTS: &str = "/apis/scheduling.run.ai/v1alpha2";

/// Something to be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Make the reservation pod of a device.
    Reserve { device: DeviceKey, pod: Box<Value> },
    /// Remove a reservation pod.
    Release { device: DeviceKey, pod: ObjectName, uid: Text },
    /// Remove a reservation pod of which nobody waits to hear that it is gone.
    Discard { pod: ObjectName, uid: Text },
    /// Tell a pod to go that shares a device it may no longer use.
    Evict { pod: ObjectName, uid: Text, message: String },
    /// Write on a node what is known of its GPUs.
    Note { node: Text, note: Note, now: Timestamp },
    /// A step of a bind.
    Write { request: ObjectName, attempt: u64, pod: ObjectName, write: Write },
    /// Remove what a bind left on a pod.
    Repair { pod: ObjectName, undo: Undo },
}

/// A step of a bind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Set and remove labels of the pod.
    Label { uid: Text, labels: BTreeMap<String, Option<String>> },
    /// Write the pod's config maps.
    Configure { uid: Text, maps: Vec<ConfigMap> },
    /// Reserve a volume for a claim of the pod.
    ReserveVolume(ReserveVolume),
    /// Have a volume made for a claim of the pod.
    SelectNode(SelectNode),
    /// Give a claim its devices and reserve it for the pod.
    TakeClaim(TakeClaim),
    /// Make the claim for extended resources of the pod.
    MakeClaim(Box<Value>),
    /// Name that claim in the status of the pod.
    NameClaim { uid: Text, status: Box<Value> },
    /// Bind the pod, with annotations.
    Bind { uid: Text, node: Text, annotations: BTreeMap<&'static str, String> },
    /// Undo what was done to the pod.
    Undo(Undo),
    /// Tell how it ended.
    Tell(Tell),
    /// Remove the request.
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
    /// Nothing that matters.
    Nothing,
    /// The pod as it is now.
    Pod(Box<view::Pod>),
    /// Another object as it is now.
    Object(Kind, Box<Value>),
}

/// How a bind ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tell {
    pub(super) uid: Text,
    pub(super) phase: &'static str,
    pub(super) reason: Option<String>,
    pub(super) failed_attempts: i32,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    Reserved { device: DeviceKey, ended: Result<Box<view::Pod>, Failure> },
    Released { device: DeviceKey, pod: ObjectName, ended: Result<(), Failure> },
    Wrote { request: ObjectName, attempt: u64, ended: Written },
    Noted { node: Text, ended: Result<(), Failure> },
    Repaired { pod: ObjectName, ended: Written },
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) kind: FailureKind,
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The same write may succeed later.
    MayPass,
    /// What it is about does not exist.
    Gone,
    /// It will not succeed.
    Refused,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        let kind = match &error {
            kube::Error::Api(status) => match status.code {
                404 => FailureKind::Gone,
                408 | 409 | 429 | 500..=599 => FailureKind::MayPass,
                _ => FailureKind::Refused,
            },
            _ => FailureKind::MayPass,
        };
        let reason = match error {
            kube::Error::Api(status) if !status.message.is_empty() => status.message,
            error => error.to_string(),
        };
        Self { reason, kind }
    }
}

impl Failure {
    pub(super) fn may_pass(&self) -> bool {
        self.kind == FailureKind::MayPass
    }
}

/// How a write ended.
pub(super) type Written = Result<Answer, Failure>;

/// Carries an order out.
pub(super) async fn carry_out(client: &Client, order: Order) -> Option<Report> {
    match order {
        Order::Reserve { device, pod } => {
            let ended = reserve(client, &pod).await;
            Some(Report::Reserved { device, ended })
        }
        Order::Release { device, pod, uid } => {
            let path = object_path("/api/v1", "pods", &pod);
            let ended = delete(client, &path, &uid, Grace::None).await;
            Some(Report::Released { device, pod, ended })
        }
        Order::Discard { pod, uid } => {
            let path = object_path("/api/v1", "pods", &pod);
            if let Err(failure) = delete(client, &path, &uid, Grace::None).await {
                tracing::warn!(%pod, reason = failure.reason, "a reservation was not discarded");
            }
            None
        }
        Order::Evict { pod, uid, message } => {
            tracing::warn!(%pod, message, "told to go");
            if let Err(error) = evict(client, EvictBy::Eviction, &pod, &uid).await {
                tracing::warn!(%pod, %error, "an eviction was refused");
            }
            None
        }
        Order::Note { node, note, now } => {
            let ended = write_note(client, &node, note, now).await;
            Some(Report::Noted { node, ended })
        }
        Order::Write { request, attempt, pod, write } => {
            let ended = write_step(client, &request, &pod, write).await;
            Some(Report::Wrote { request, attempt, ended })
        }
        Order::Repair { pod, undo } => {
            let ended = undo_all(client, &pod, undo).await;
            Some(Report::Repaired { pod, ended })
        }
    }
}

async fn write_step(
    client: &Client,
    request: &ObjectName,
    pod: &ObjectName,
    write: Write,
) -> Written {
    match write {
        Write::Label { uid, labels } => {
            let patch = json!({"metadata": {"uid": &*uid, "labels": labels}});
            patch_pod(client, pod, &patch).await
        }
        Write::Configure { uid, maps } => {
            for map in maps {
                config_maps::apply(client, pod, &uid, &map).await?;
            }
            Ok(Answer::Nothing)
        }
        Write::ReserveVolume(reserve) => holdings::reserve_volume(client, reserve).await,
        Write::SelectNode(select) => holdings::select_node(client, select).await,
        Write::TakeClaim(take) => holdings::take_claim(client, take).await,
        Write::MakeClaim(object) => holdings::make_claim(client, pod, &object).await,
        Write::NameClaim { uid, status } => holdings::name_claim(client, pod, &uid, &status).await,
        Write::Bind { uid, node, annotations } => {
            kai_client::request::bind(client, pod, &uid, &node, &annotations).await?;
            Ok(Answer::Nothing)
        }
        Write::Undo(undo) => undo_all(client, pod, undo).await,
        Write::Tell(tell) => {
            let path = object_path(BIND_REQUESTS, "bindrequests", request) + "/status";
            let Tell { uid, phase, reason, failed_attempts } = tell;
            let status =
                json!({"phase": phase, "reason": reason, "failedAttempts": failed_attempts});
            let patch = json!({"metadata": {"uid": &*uid}, "status": status});
            let ended: Result<Value, kube::Error> =
                send(client, "PATCH", &path, Some(MERGE_PATCH), &patch).await;
            gone_is_fine(ended.map(|_| Answer::Nothing).map_err(Failure::from))
        }
        Write::Drop { uid } => {
            let path = object_path(BIND_REQUESTS, "bindrequests", request);
            delete(client, &path, &uid, Grace::AsUsual).await?;
            Ok(Answer::Nothing)
        }
    }
}

/// Makes a reservation pod; one that is there already is as good.
async fn reserve(client: &Client, pod: &Value) -> Result<Box<view::Pod>, Failure> {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    let pods = format!("/api/v1/namespaces/{}/pods", path_segment(text("namespace")));
    match send::<view::Pod>(client, "POST", &pods, None, pod).await {
        Ok(made) => Ok(Box::new(made)),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let path = format!("{pods}/{}", path_segment(text("name")));
            let request =
                http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            Ok(Box::new(client.request(request).await?))
        }
        Err(error) => Err(error.into()),
    }
}

/// What is known of a node's GPUs goes onto the node.
async fn write_note(
    client: &Client,
    node: &Text,
    note: Note,
    now: Timestamp,
) -> Result<(), Failure> {
    let path = format!("/api/v1/nodes/{}", path_segment(node));
    let Note { annotations, conditions } = note;
    if !annotations.is_empty() {
        let patch = json!({"metadata": {"annotations": annotations}});
        let _: Value = send(client, "PATCH", &path, Some(MERGE_PATCH), &patch).await?;
    }
    if !conditions.is_empty() {
        let moment = time::format(now);
        let condition = |one: &NodeCondition| {
            let NodeCondition { kind, reason, message, .. } = one;
            json!({
                "type": kind, "status": one.status(), "reason": reason, "message": message,
                "lastHeartbeatTime": moment, "lastTransitionTime": moment,
            })
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        let patch = json!({"status": {"conditions": conditions}});
        let path = path + "/status";
        let _: Value = send(client, "PATCH", &path, Some(STRATEGIC_PATCH), &patch).await?;
    }
    Ok(())
}

async fn patch_pod(client: &Client, pod: &ObjectName, patch: &Value) -> Written {
    let path = object_path("/api/v1", "pods", pod);
    let answer: view::Pod = send(client, "PATCH", &path, Some(MERGE_PATCH), patch).await?;
    Ok(Answer::Pod(Box::new(answer)))
}

pub(super) async fn patch_pod_status(client: &Client, pod: &ObjectName, patch: &Value) -> Written {
    let path = object_path("/api/v1", "pods", pod) + "/status";
    let answer: view::Pod = send(client, "PATCH", &path, Some(MERGE_PATCH), patch).await?;
    Ok(Answer::Pod(Box::new(answer)))
}

/// The pod first: where it has changed it may have been bound, and need the rest. A patch that changes nothing asks that
/// too.
async fn undo_all(client: &Client, pod: &ObjectName, undo: Undo) -> Written {
    let Undo { uid, version, labels, config_maps, claims, names_claim, volumes } = undo;
    let labels: BTreeMap<String, Option<String>> =
        labels.into_iter().map(|label| (label, None)).collect();
    let patch = json!({"metadata": {"uid": &*uid, "resourceVersion": version, "labels": labels}});
    let answer = gone_is_fine(patch_pod(client, pod, &patch).await)?;
    for map in config_maps {
        config_maps::delete(client, pod, &uid, &map).await?;
    }
    if names_claim {
        gone_is_fine(holdings::name_claim(client, pod, &uid, &Value::Null).await)?;
    }
    for claim in claims {
        gone_is_fine(holdings::free_claim(client, claim).await)?;
    }
    for volume in volumes {
        gone_is_fine(holdings::free_volume(client, volume).await)?;
    }
    Ok(answer)
}

/// Removes an object of this UID; one that is gone, or of which another has the name, is gone.
pub(super) async fn delete(
    client: &Client,
    path: &str,
    uid: &Text,
    grace: Grace,
) -> Result<(), Failure> {
    let preconditions = json!({"uid": &**uid});
    let options = match grace {
        Grace::AsUsual => json!({"preconditions": preconditions}),
        Grace::None => json!({"preconditions": preconditions, "gracePeriodSeconds": 0}),
    };
    let Err(error) = send::<Value>(client, "DELETE", path, None, &options).await else {
        return Ok(());
    };
    let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
    let is_gone = match code {
        404 => true,
        // Another has the name; or it is still there, and the server could not remove it just now.
        409 => !is_there(client, path, uid).await?,
        _ => false,
    };
    if is_gone { Ok(()) } else { Err(error.into()) }
}

/// How long a pod that is deleted may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    /// As long as the object says.
    AsUsual,
    /// Not at all.
    None,
}

async fn is_there(client: &Client, path: &str, uid: &str) -> Result<bool, Failure> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(object) => Ok(object["metadata"]["uid"] == uid),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn gone_is_fine(ended: Written) -> Written {
    match ended {
        Err(failure) if failure.kind == FailureKind::Gone => Ok(Answer::Nothing),
        ended => ended,
    }
}
