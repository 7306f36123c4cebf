//! Requests of accounts, from the audit log of an API server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use serde::Deserialize;

use crate::process::Process;

/// An audit log of the requests of some groups of users. Its folder is removed on drop, and with the test process.
#[derive(Debug)]
pub struct Audit {
    folder: PathBuf,
    _keeper: Process,
}

/// A request that an API server answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditedRequest {
    /// The user, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// User agent, which names the function of `kai run`.
    pub agent: String,
    /// The verb, as RBAC knows it.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Resource, with the sub-resource after a slash.
    pub resource: String,
    /// Namespace; empty where the request is about none.
    pub namespace: String,
    /// Name; empty where the request is about all of them.
    pub name: String,
    /// The path of a request that is about no resource.
    pub path: String,
    /// HTTP status of the answer.
    pub code: u16,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    verb: String,
    user: User,
    user_agent: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl Audit {
    /// A log of the requests of users in one of these groups.
    pub fn new(groups: &[&str]) -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kai-audit-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let policy = serde_json::json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "userGroups": groups}, {"level": "None"}],
        });
        fs::write(folder.join("policy.yaml"), policy.to_string())?;
        let keeper = Process::start(Path::new("sleep"), &["86400"], None, Some(&folder))?;
        Ok(Self { folder, _keeper: keeper })
    }

    /// Arguments of the API server.
    pub fn arguments(&self) -> [String; 2] {
        let file = |name: &str| self.folder.join(name).display().to_string();
        [
            format!("--audit-policy-file={}", file("policy.yaml")),
            format!("--audit-log-path={}", file("audit.log")),
        ]
    }

    /// The requests so far, each kind of request once.
    pub fn requests(&self) -> anyhow::Result<BTreeSet<AuditedRequest>> {
        let mut all = BTreeSet::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            // The last line may not be whole yet.
            let events = text.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok());
            all.extend(events.map(AuditedRequest::from));
        }
        Ok(all)
    }
}

impl From<Event> for AuditedRequest {
    fn from(event: Event) -> Self {
        let object = event.object_ref.unwrap_or_default();
        let resource = match object.subresource.as_str() {
            "" => object.resource,
            part => format!("{}/{part}", object.resource),
        };
        let path = if resource.is_empty() { event.request_uri } else { String::new() };
        Self {
            user: event.user.username,
            agent: event.user_agent,
            verb: event.verb,
            group: object.api_group,
            resource,
            namespace: object.namespace,
            name: object.name,
            path,
            code: event.response_status.unwrap_or_default().code,
        }
    }
}
