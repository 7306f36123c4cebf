//! What is to be explained: a pod, a pod group, a queue, or a workload, explained by one of its pods.

use anyhow::{Context, bail, ensure};
use kai_client::path::collection_path;
use kai_client::write::read;
use kai_control::explain::ExplainTarget;
use kai_core::input::ObjectName;
use kube::Client;
use serde_json::Value;

/// Kinds between a workload and its pods, in lower case, each with its group and version.
const BETWEEN: [(&str, &str); 2] = [("replicaset", "/apis/apps/v1"), ("job", "/apis/batch/v1")];

/// What is to be explained.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Pod(String),
    PodGroup(String),
    Queue(String),
    /// Something that owns pods.
    Workload {
        /// Its kind in lower case, without the plural's `s`.
        kind: String,
        name: String,
    },
}

/// The object to explain, and a line about how it was found.
pub(super) struct Found {
    pub(super) asked: ExplainTarget,
    pub(super) head: String,
}

impl Subject {
    /// Reads `KIND NAME` or `KIND/NAME`, as `kubectl` does.
    pub(super) fn parse(kind: &str, name: Option<&str>) -> anyhow::Result<Self> {
        let (kind, name) = match (kind.split_once('/'), name) {
            (Some((kind, name)), None) => (kind, name),
            (None, Some(name)) => (kind, name),
            (None, None) => bail!("the name is missing: kai explain {kind} NAME"),
            (Some(_), Some(name)) => {
                bail!("{kind} names an object already; {name} is one too many")
            }
        };
        ensure!(!name.is_empty(), "the name is missing: kai explain {kind} NAME");
        let name = name.to_owned();
        // `deployments.apps` is what kubectl prints.
        let kind = kind.split('.').next().unwrap_or_default().to_lowercase();
        Ok(match kind.as_str() {
            "pod" | "pods" | "po" => Self::Pod(name),
            "podgroup" | "podgroups" | "pg" => Self::PodGroup(name),
            "queue" | "queues" | "q" => Self::Queue(name),
            "deploy" => Self::Workload { kind: "deployment".to_owned(), name },
            "rs" => Self::Workload { kind: "replicaset".to_owned(), name },
            "sts" => Self::Workload { kind: "statefulset".to_owned(), name },
            "cj" => Self::Workload { kind: "cronjob".to_owned(), name },
            _ => Self::Workload { kind: kind.strip_suffix('s').unwrap_or(&kind).to_owned(), name },
        })
    }

    /// What to ask the planner.
    pub(super) async fn find(self, client: &Client, namespace: &str) -> anyhow::Result<Found> {
        let object = |name: &str| ObjectName::new(namespace, name);
        let asked = match &self {
            Self::Pod(name) => ExplainTarget::Pod(object(name)),
            Self::PodGroup(name) => ExplainTarget::PodGroup(object(name)),
            Self::Queue(name) => ExplainTarget::Queue(name.as_str().into()),
            Self::Workload { kind, name } => {
                let pods = pods_of(client, namespace, kind, name).await?;
                let Some(pod) = pods.iter().find(|pod| is_pending(pod)).or(pods.first()) else {
                    bail!(
                        "{kind} {name} owns no pod in namespace {namespace}; see kubectl describe {kind} {name}"
                    );
                };
                let pending = pods.iter().filter(|pod| is_pending(pod)).count();
                let head =
                    format!("{pending} of {} pods of {kind} {name} are pending.\n", pods.len());
                return Ok(Found { asked: ExplainTarget::Pod(object(name_of(pod))), head });
            }
        };
        Ok(Found { asked, head: String::new() })
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_pending(pod: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty()
}

/// Pods that a workload owns, directly or by a replica set or job.
async fn pods_of(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
) -> anyhow::Result<Vec<Value>> {
    let mut owners = vec![(kind.to_owned(), name.to_owned())];
    for (between, api) in BETWEEN {
        for object in list(client, api, &format!("{between}s"), namespace).await? {
            if is_owned_by(&object, &owners) {
                owners.push((between.to_owned(), name_of(&object).to_owned()));
            }
        }
    }
    let pods = list(client, "/api/v1", "pods", namespace).await?;
    Ok(pods.into_iter().filter(|pod| is_owned_by(pod, &owners)).collect())
}

fn is_owned_by(object: &Value, owners: &[(String, String)]) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.into_iter().any(|reference| {
        let kind = reference["kind"].as_str().unwrap_or_default().to_lowercase();
        owners.iter().any(|(known, name)| *known == kind && reference["name"] == name.as_str())
    })
}

async fn list(
    client: &Client,
    api: &str,
    plural: &str,
    namespace: &str,
) -> anyhow::Result<Vec<Value>> {
    let list = read::<Value>(client, &collection_path(api, plural, namespace)).await;
    let mut list = list.with_context(|| format!("cannot list {plural}"))?.unwrap_or_default();
    Ok(match list.pointer_mut("/items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_named_as_for_kubectl() {
        let parse = |kind: &str, name: Option<&str>| Subject::parse(kind, name).expect("a subject");
        let pod = Subject::Pod("x".to_owned());
        for (kind, name) in [("pod/x", None), ("pods/x", None), ("po", Some("x"))] {
            assert_eq!(parse(kind, name), pod);
        }
        assert_eq!(parse("queue", Some("q")), Subject::Queue("q".to_owned()));
        let web = Subject::Workload { kind: "deployment".to_owned(), name: "web".to_owned() };
        for (kind, name) in
            [("deployment.apps/web", None), ("Deployments", Some("web")), ("deploy/web", None)]
        {
            assert_eq!(parse(kind, name), web);
        }
        assert!(Subject::parse("pod", None).is_err());
        assert!(Subject::parse("pod/x", Some("y")).is_err());
    }

    #[test]
    fn owners_are_matched_by_kind_and_name() {
        let pod =
            json!({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1"}]}});
        assert!(is_owned_by(&pod, &[("replicaset".to_owned(), "web-1".to_owned())]));
        assert!(!is_owned_by(&pod, &[("job".to_owned(), "web-1".to_owned())]));
    }
}
