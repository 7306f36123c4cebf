//! A bind request, as the binder reads it.

use kai_api::bind_request::{BindRequest, BindRequestSpec, BindRequestStatus};
use kai_api::names::{gpu, scheduling};
use kai_core::input::{ObjectName, Text};

use super::DeviceKey;

/// Which bind request: where it lives, and what identifies it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestId {
    /// An object of the API server, by its UID.
    Object(Text),
    /// Memory of this process: its scheduler handed the request to its binder.
    Local(LocalId),
}

/// Number of a bind request that lives in this process. No two have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalId(pub u64);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) id: RequestId,
    /// It is being deleted.
    pub(super) leaving: bool,
    pub(super) pod: ObjectName,
    /// The pod it was made for; none: whichever has the name.
    pub(super) pod_uid: Option<Text>,
    pub(super) node: Text,
    pub(super) spec: Box<BindRequestSpec>,
    /// So many members of the pod's group must be prepared or placed before the first is bound.
    pub(super) members_needed: u32,
    pub(super) phase: Option<String>,
    pub(super) failed_attempts: i32,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is to be carried out, for the first time or again.
    Open,
    /// It failed and is not tried again.
    Failed,
    Succeeded,
}

impl Request {
    /// An object of the API server.
    pub(super) fn of_object(object: BindRequest) -> Self {
        let uid = object.metadata.uid.as_deref().unwrap_or_default().into();
        Self::read(RequestId::Object(uid), object)
    }

    /// A request that the scheduler of this process handed over.
    pub(super) fn local(id: LocalId, object: BindRequest) -> Self {
        Self::read(RequestId::Local(id), object)
    }

    fn read(id: RequestId, object: BindRequest) -> Self {
        let metadata = object.metadata;
        let namespace = metadata.namespace.unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.kind == "Pod");
        let needed = metadata.annotations.as_ref().and_then(|all| all.get(scheduling::GANG_SIZE));
        let status = object.status.unwrap_or_default();
        let pod = object.spec.pod_name.as_deref().unwrap_or_default();
        Self {
            id,
            leaving: metadata.deletion_timestamp.is_some(),
            pod: ObjectName::new(namespace.as_str(), pod),
            pod_uid: owner.map(|owner| owner.uid.into()),
            node: object.spec.selected_node.as_deref().unwrap_or_default().into(),
            members_needed: needed.and_then(|text| text.parse().ok()).unwrap_or_default(),
            phase: status.phase,
            failed_attempts: status.failed_attempts.unwrap_or_default(),
            spec: Box::new(object.spec),
        }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self.id, RequestId::Local(_))
    }

    pub(super) fn progress(&self) -> Progress {
        match self.phase.as_deref() {
            Some(BindRequestStatus::SUCCEEDED) => Progress::Succeeded,
            Some(BindRequestStatus::FAILED) if !self.may_try_again(self.failed_attempts) => {
                Progress::Failed
            }
            _ => Progress::Open,
        }
    }

    /// After so many failures, is there another attempt?
    pub(super) fn may_try_again(&self, failures: i32) -> bool {
        self.spec.backoff_limit.is_some_and(|limit| failures < limit)
    }

    /// It asks for parts of devices.
    pub(super) fn is_fraction(&self) -> bool {
        self.received() == gpu::RECEIVED_FRACTION
    }

    /// What the pod is said to have received.
    pub(super) fn received(&self) -> &str {
        let said = self.spec.received_resource_type.as_deref().filter(|said| !said.is_empty());
        said.unwrap_or(gpu::RECEIVED_REGULAR)
    }

    /// The shared devices it names.
    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceKey> {
        let groups = self.is_fraction().then(|| self.spec.gpu_groups());
        groups
            .into_iter()
            .flatten()
            .map(|group| DeviceKey { node: self.node.clone(), group: group.into() })
    }

    /// The labels that name a pod's shared devices, as KAI writes them.
    pub(super) fn group_labels(&self) -> Vec<(String, String)> {
        group_labels(&self.spec.gpu_groups())
    }
}

/// The labels that name these groups, as KAI writes them.
pub(super) fn group_labels(groups: &[&str]) -> Vec<(String, String)> {
    match groups {
        [one] => vec![(gpu::GROUP.to_owned(), (*one).to_owned())],
        several => several
            .iter()
            .map(|group| (format!("{}{group}", gpu::MULTI_GROUP_PREFIX), (*group).to_owned()))
            .collect(),
    }
}
