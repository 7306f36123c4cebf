//! Which queues and priority classes a service account may use, by RBAC: the verb `use`, asked by `SubjectAccessReview`.

use kube::Client;
use serde::Deserialize;
use serde_json::json;

use crate::request::send;
use crate::write::Outcome;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account<'a> {
    /// Its namespace, which is that of its pods.
    pub namespace: &'a str,
    /// Its name; empty: `default`.
    pub name: &'a str,
}

impl Account<'_> {
    fn name(&self) -> &str {
        if self.name.is_empty() { "default" } else { self.name }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Review {
    status: ReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    allowed: bool,
}

/// Why the account may not use the queue or the priority class; none: it may. What is empty is not asked about.
pub async fn denial(
    client: &Client,
    account: Account<'_>,
    queue: &str,
    priority_class: &str,
) -> Outcome<Option<String>> {
    let asked = [
        ("scheduling.run.ai", "queues", "queue", queue),
        ("scheduling.k8s.io", "priorityclasses", "priority class", priority_class),
    ];
    for (group, resource, noun, name) in asked {
        if name.is_empty() || may_use(client, account, group, resource, name).await? {
            continue;
        }
        let (namespace, own) = (account.namespace, account.name());
        return Ok(Some(format!(
            "service account {namespace}/{own} may not use {noun} {name}: grant it the verb use on {resource}.{group}"
        )));
    }
    Ok(None)
}

async fn may_use(
    client: &Client,
    account: Account<'_>,
    group: &str,
    resource: &str,
    name: &str,
) -> Outcome<bool> {
    let namespace = account.namespace;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{namespace}:{}", account.name()),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
            // Role bindings of the namespace count too.
            "resourceAttributes": {"verb": "use", "group": group, "resource": resource, "name": name, "namespace": namespace},
        },
    });
    let answer: Review = send(client, "POST", REVIEWS, None, &review).await?;
    Ok(answer.status.allowed)
}
