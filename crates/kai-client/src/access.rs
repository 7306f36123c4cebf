//! Which queues and priority classes a service account may use, by RBAC: the verb `use`, checked with a `SubjectAccessReview`.

use std::collections::BTreeMap;

use kube::Client;
use serde::Deserialize;
use serde_json::json;

use crate::request::send;
use crate::write::Outcome;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// User that requests a queue, as the API server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Requester {
    /// User name, such as `system:serviceaccount:NAMESPACE:NAME`.
    #[serde(rename = "username")]
    pub user: String,
    /// The UID of the user; empty where it has none.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// What else authenticators said.
    pub extra: BTreeMap<String, Vec<String>>,
}

const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

impl Requester {
    /// A service account, which is in the namespace of its pods; an empty name means `default`.
    pub fn account(namespace: &str, name: &str) -> Self {
        let name = if name.is_empty() { "default" } else { name };
        let groups = [
            "system:serviceaccounts",
            &format!("system:serviceaccounts:{namespace}"),
            "system:authenticated",
        ];
        Self {
            user: format!("{ACCOUNT_PREFIX}{namespace}:{name}"),
            groups: groups.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }
}

impl std::fmt::Display for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.user.strip_prefix(ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':')) {
            Some((namespace, name)) => write!(f, "service account {namespace}/{name}"),
            None => write!(f, "user {}", self.user),
        }
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

/// A verb on a resource in a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// The namespace; role bindings of it count too.
    pub namespace: &'a str,
    /// Verb of RBAC, such as `use` or `get`.
    pub verb: &'a str,
    /// API group of the resource; empty for the core group.
    pub group: &'a str,
    /// Plural name of the resource, as in RBAC rules.
    pub resource: &'a str,
    /// The object; empty: all of them.
    pub name: &'a str,
}

/// Why the requester may not use the queue or the priority class in a namespace; none: it may. What is empty is not checked
/// about.
pub async fn denial(
    client: &Client,
    requester: &Requester,
    namespace: &str,
    queue: &str,
    priority_class: &str,
) -> Outcome<Option<String>> {
    let checks = [
        ("scheduling.run.ai", "queues", "queue", queue),
        ("scheduling.k8s.io", "priorityclasses", "priority class", priority_class),
    ];
    for (group, resource, noun, name) in checks {
        let wanted = Use { namespace, verb: "use", group, resource, name };
        if name.is_empty() || may(client, requester, wanted).await? {
            continue;
        }
        return Ok(Some(format!(
            "{requester} may not use {noun} {name}: grant it the verb use on {resource}.{group}"
        )));
    }
    Ok(None)
}

/// Has the requester the right?
pub async fn may(client: &Client, requester: &Requester, wanted: Use<'_>) -> Outcome<bool> {
    let Use { namespace, verb, group, resource, name } = wanted;
    let Requester { user, uid, groups, extra } = requester;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "uid": uid,
            "groups": groups,
            "extra": extra,
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "name": name, "namespace": namespace},
        },
    });
    let answer: Review = send(client, "POST", REVIEWS, None, &review).await?;
    Ok(answer.status.allowed)
}
