//! The label of a pod's namespace that says how limits of GPU memory are treated.

use kai_api::names::guard::ENFORCEMENT;
use kai_client::path::object_path;
use kai_client::write::{Outcome, read};
use kai_core::input::ObjectName;
use kube::Client;
use serde_json::Value;

use super::review::Review;
use super::{PodRules, guard};

/// The rules for the pod of a review. The namespace is read only where its label matters.
pub(super) async fn narrow(
    client: &Client,
    review: &Review<'_>,
    rules: &PodRules,
) -> Outcome<PodRules> {
    let Some(namespace) = review.namespace_to_read(rules) else { return Ok(rules.clone()) };
    let path = object_path("/api/v1", "namespaces", &ObjectName::new("", namespace));
    let found: Option<Value> = read(client, &path).await?;
    let label = found.as_ref().and_then(|one| one["metadata"]["labels"][ENFORCEMENT].as_str());
    Ok(guard::narrow(rules, label))
}
