//! Requests that are not writes of [`crate::write`]: leases, Secrets and webhook configurations, which are replaced as a whole.

use http::header::{CONTENT_TYPE, HeaderValue};
use kai_core::input::{ObjectName, Text};
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::path::Resource;
pub use crate::path::object_path;
use crate::write::{Delete, Outcome, Target, Write, Writer};

/// How a pod is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictBy {
    /// Through the eviction API, which respects disruption budgets.
    #[default]
    Eviction,
    /// By a plain delete, as KAI does.
    Delete,
    /// By a plain delete, once the condition `DisruptionTarget` of the pod says why.
    MarkedDelete,
}

/// A patch that is merged.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// A patch that says all its author wants to own.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Sends a body and reads the answer.
pub async fn send<T: DeserializeOwned>(
    client: &Client,
    method: &str,
    path: &str,
    content_type: Option<&'static str>,
    body: &impl Serialize,
) -> Outcome<T> {
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let content = HeaderValue::from_static(content_type.unwrap_or("application/json"));
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, content)
        .body(body)
        .map_err(kube::Error::HttpError)?;
    Ok(client.request(request).await?)
}

/// Evicts a pod of this UID by these means; a pod that is gone counts as evicted.
pub async fn evict(writer: &Writer, by: EvictBy, pod: &ObjectName, uid: &Text) -> Outcome<()> {
    let target = Target::of_uid(Resource::PODS, pod, uid);
    let write = match by {
        EvictBy::Delete | EvictBy::MarkedDelete => Write::Delete(target, Delete::default()),
        EvictBy::Eviction => Write::Evict(target),
    };
    writer.write(&write).await
}
