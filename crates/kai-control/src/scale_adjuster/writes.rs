//! Orders of the node scale adjuster, and how each is written.

use k8s_openapi::api::core::v1::PodCondition;
use kai_api::names::status::{POD_SCHEDULED, UNSCHEDULABLE};
use kai_client::failure::Failure;
use kai_client::path::{Resource, with_query};
use kai_client::write::{Create, Delete, Outcome, Patch, Target, Write, Writer};
use kai_core::input::{ObjectName, Text};
use kai_translate::view;
use serde::Deserialize;
use serde_json::Value;

use super::scaling_pod;

/// Something to be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Make a scaling pod.
    Make { origin: ObjectName, name: ObjectName, pod: Box<Value> },
    /// Remove a scaling pod of this UID.
    Remove { pod: ObjectName, uid: Text, reason: &'static str },
    /// Remove scaling pods that failed, which no watch shows.
    Sweep { namespace: String, app: String },
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    Made { origin: ObjectName, ended: Result<Made, String> },
    Removed { pod: ObjectName, ended: Result<(), String> },
}

/// How the making of a scaling pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// The scaling pod exists, created now or before.
    Exists,
    /// The name is that of a scaling pod that stands for another pod.
    NameTaken,
}

/// Carries an order out.
pub(super) async fn carry_out(writer: &Writer, order: Order) -> Option<Report> {
    match order {
        Order::Make { origin, name, pod } => {
            let ended = make(writer, &origin, &name, pod).await;
            Some(Report::Made { origin, ended: ended.map_err(|error| error.to_string()) })
        }
        Order::Remove { pod, uid, reason } => {
            tracing::info!(%pod, reason, "removing a scaling pod");
            let ended = remove(writer, &pod, &uid).await;
            Some(Report::Removed { pod, ended: ended.map_err(|failure| failure.to_string()) })
        }
        Order::Sweep { namespace, app } => {
            if let Err(failure) = sweep(writer, &namespace, &app).await {
                tracing::warn!(namespace, %failure, "failed to list scaling pods that failed");
            }
            None
        }
    }
}

/// Why a scaling pod was not made.
#[derive(Debug, thiserror::Error)]
enum MakeError {
    #[error(transparent)]
    Refused(#[from] Failure),
    #[error("an earlier one had ended and was removed")]
    EarlierEnded,
}

async fn make(
    writer: &Writer,
    origin: &ObjectName,
    name: &ObjectName,
    pod: Box<Value>,
) -> Result<Made, MakeError> {
    let create = Write::Create(Create::manifest(Resource::PODS, &name.namespace, pod));
    match writer.write_as::<view::Pod>(&create).await {
        Ok(made) => {
            mark_unschedulable(writer, name, &made).await;
            Ok(Made::Exists)
        }
        Err(Failure::Conflict { .. }) => find(writer, origin, name).await,
        Err(failure) => Err(failure.into()),
    }
}

/// There is a pod of the name: ours from before, that of another pod, or the remains of one.
async fn find(writer: &Writer, origin: &ObjectName, name: &ObjectName) -> Result<Made, MakeError> {
    let path = Resource::PODS.object(name);
    let Some(known) = writer.read::<view::Pod>(&path).await? else {
        return Err(MakeError::EarlierEnded);
    };
    if kai_binder::scaling_pod_origin(&known) != *origin {
        return Ok(Made::NameTaken);
    }
    if scaling_pod::has_ended(&known) {
        remove(writer, name, &known.metadata.uid).await?;
        return Err(MakeError::EarlierEnded);
    }
    Ok(Made::Exists)
}

async fn remove(writer: &Writer, pod: &ObjectName, uid: &str) -> Outcome<()> {
    let target = Target::of_uid(Resource::PODS, pod, uid);
    writer.write(&Write::Delete(target, Delete::default())).await
}

/// Autoscalers react to this condition, and need not wait for the scheduler. Where that was faster, it is right.
async fn mark_unschedulable(writer: &Writer, name: &ObjectName, made: &view::Pod) {
    let condition = PodCondition {
        type_: POD_SCHEDULED.to_owned(),
        status: "False".to_owned(),
        reason: Some(UNSCHEDULABLE.to_owned()),
        ..PodCondition::default()
    };
    let (uid, version) = (&made.metadata.uid, &made.metadata.resource_version);
    let target = Target::unchanged(Resource::PODS, name, uid, version);
    let patch = Patch::conditions(&[condition]);
    if let Err(failure) = writer.write(&Write::Patch(target, patch)).await {
        tracing::debug!(pod = %name, %failure, "the scheduler wrote the condition first");
    }
}

#[derive(Deserialize)]
struct PodList {
    items: Vec<view::Pod>,
}

async fn sweep(writer: &Writer, namespace: &str, app: &str) -> Outcome<()> {
    let selectors =
        [("fieldSelector", "status.phase=Failed"), ("labelSelector", &*format!("app={app}"))];
    let path = with_query(&Resource::PODS.collection(namespace), &selectors);
    let failed: Option<PodList> = writer.read(&path).await?;
    for pod in failed.into_iter().flat_map(|list| list.items) {
        let name = kai_translate::pod::name(&pod);
        tracing::info!(pod = %name, "removing a scaling pod that failed");
        remove(writer, &name, &pod.metadata.uid).await?;
    }
    Ok(())
}
