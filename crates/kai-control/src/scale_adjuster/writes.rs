//! Orders of the node scale adjuster, and how each is written.

use kai_client::request::STRATEGIC_PATCH;
use kai_client::request::{EvictBy, evict, object_path, path_segment, send};
use kai_core::input::{ObjectName, Text};
use kai_translate::view;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

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
    /// It is there.
    Exists,
    /// The name is that of a scaling pod that stands for another pod.
    NameTaken,
}

/// Carries an order out.
pub(super) async fn carry_out(client: &Client, order: Order) -> Option<Report> {
    match order {
        Order::Make { origin, name, pod } => {
            let ended = make(client, &origin, &name, &pod).await;
            Some(Report::Made { origin, ended: ended.map_err(|error| error.to_string()) })
        }
        Order::Remove { pod, uid, reason } => {
            tracing::info!(%pod, reason, "removing a scaling pod");
            let ended = evict(client, EvictBy::Delete, &pod, &uid).await;
            Some(Report::Removed { pod, ended: ended.map_err(|error| error.to_string()) })
        }
        Order::Sweep { namespace, app } => {
            if let Err(error) = sweep(client, &namespace, &app).await {
                tracing::warn!(namespace, %error, "scaling pods that failed were not looked for");
            }
            None
        }
    }
}

/// Why a scaling pod was not made.
#[derive(Debug, thiserror::Error)]
enum MakeError {
    #[error(transparent)]
    Refused(#[from] kube::Error),
    #[error("an earlier one had ended and was removed")]
    EarlierEnded,
}

async fn make(
    client: &Client,
    origin: &ObjectName,
    name: &ObjectName,
    pod: &Value,
) -> Result<Made, MakeError> {
    let path = format!("/api/v1/namespaces/{}/pods", path_segment(&name.namespace));
    match send::<view::Pod>(client, "POST", &path, None, pod).await {
        Ok(made) => {
            mark_unschedulable(client, name, &made).await;
            Ok(Made::Exists)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => find(client, origin, name).await,
        Err(error) => Err(error.into()),
    }
}

/// There is a pod of the name: ours from before, that of another pod, or the remains of one.
async fn find(client: &Client, origin: &ObjectName, name: &ObjectName) -> Result<Made, MakeError> {
    let known: view::Pod =
        send(client, "GET", &object_path("/api/v1", "pods", name), None, &Value::Null).await?;
    if scaling_pod::origin(&known) != *origin {
        return Ok(Made::NameTaken);
    }
    if scaling_pod::has_ended(&known) {
        evict(client, EvictBy::Delete, name, &known.metadata.uid.as_str().into()).await?;
        return Err(MakeError::EarlierEnded);
    }
    Ok(Made::Exists)
}

/// Autoscalers react to this condition, and need not wait for the scheduler. Where that was faster, it is right.
async fn mark_unschedulable(client: &Client, name: &ObjectName, made: &view::Pod) {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    let patch = json!({
        "metadata": {"uid": made.metadata.uid, "resourceVersion": made.metadata.resource_version},
        "status": {"conditions": [condition]},
    });
    let path = object_path("/api/v1", "pods", name) + "/status";
    let ended: Result<Value, _> = send(client, "PATCH", &path, Some(STRATEGIC_PATCH), &patch).await;
    if let Err(error) = ended {
        tracing::debug!(pod = %name, %error, "its scheduler says how it fares");
    }
}

#[derive(Deserialize)]
struct PodList {
    items: Vec<view::Pod>,
}

async fn sweep(client: &Client, namespace: &str, app: &str) -> Result<(), kube::Error> {
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods?fieldSelector=status.phase%3DFailed&labelSelector=app%3D{app}"
    );
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let failed: PodList = client.request(request).await?;
    for pod in failed.items {
        let (name, uid) = (kai_translate::pod::name(&pod), pod.metadata.uid.as_str().into());
        tracing::info!(pod = %name, "removing a scaling pod that failed");
        evict(client, EvictBy::Delete, &name, &uid).await?;
    }
    Ok(())
}
