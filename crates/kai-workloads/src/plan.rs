//! The result: the pod group a pod belongs to, as data.

use std::collections::BTreeMap;

use kai_api::names::objects::POD_GROUP_PREFIX;
use kai_api::names::workload;
use kai_api::pod_group::TopologyConstraint;
use kai_api::view::{OwnerReference, Pod};
use serde::{Deserialize, Serialize};

use crate::facts::Gvk;
use crate::metadata::describe_owner;
use crate::queue::QueueLabel;

/// How much of a group, or of a part of it, must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Minimum {
    /// At least this many pods.
    Members(i32),
    /// This many of the sub-groups right below.
    SubGroups(i32),
}

/// The pod group of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodGroupPlan {
    /// Name of the pod group, which follows from its workload.
    pub name: String,
    /// Namespace of the pod and its group.
    pub namespace: String,
    /// Owner of the group: the group is deleted with it.
    pub owner: OwnerReference,
    /// Labels of the pod group.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod group.
    pub annotations: BTreeMap<String, String>,
    /// The queue that pays.
    pub queue: String,
    /// Name of a `PriorityClass`.
    pub priority_class_name: String,
    /// `preemptible` or `non-preemptible`, where the workload says so.
    pub preemptibility: Option<String>,
    /// Nanoseconds before the group may evict others.
    pub preemption_delay: Option<i64>,
    /// Nanoseconds the group may run below its minimum; negative means for ever.
    pub staleness_grace_period: Option<i64>,
    /// Where the pods must or should be together.
    pub topology: TopologyConstraint,
    /// How much of the group must be there.
    pub minimum: Minimum,
    /// Parts of the group, parents named by their children.
    pub sub_groups: Vec<SubGroupPlan>,
    /// The part to which the pod belongs.
    pub pod_sub_group: Option<String>,
    /// Warnings for the user that do not stop the pod.
    pub notices: Vec<Notice>,
}

impl PodGroupPlan {
    /// Whether the pod owns its group and is alone in it. Such a pod waits for no other.
    pub fn is_own_group_of(&self, pod: &Pod) -> bool {
        let (name, uid) = (&pod.metadata.name, &pod.metadata.uid);
        self.owner.uid == *uid
            && self.name == format!("{POD_GROUP_PREFIX}{name}-{uid}")
            && self.minimum == Minimum::Members(1)
            && self.sub_groups.is_empty()
    }

    /// The annotation that describes the owner of the group, where it is written by these rules and not copied from a workload.
    pub fn owner_description_mut(&mut self) -> Option<&mut String> {
        let own = self.describe_owner();
        self.annotations.get_mut(workload::TOP_OWNER_METADATA).filter(|text| **text == own)
    }

    /// What the rules write about the owner of the group.
    pub fn describe_owner(&self) -> String {
        let gvk = Gvk::from_api_version(&self.owner.api_version, &self.owner.kind);
        describe_owner(&self.owner.name, &self.owner.uid, &gvk)
    }
}

/// A part of a pod group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubGroupPlan {
    /// Name of the sub-group, unique in its pod group; pods carry it as a label.
    pub name: String,
    /// Name of the parent sub-group; none at the top.
    pub parent: Option<String>,
    /// How much of it must be there.
    pub minimum: Minimum,
    /// Where its pods must or should be together.
    pub topology: Option<TopologyConstraint>,
}

impl SubGroupPlan {
    /// A part that holds pods.
    pub(crate) fn leaf(name: impl Into<String>, members: i32) -> Self {
        Self { name: name.into(), parent: None, minimum: Minimum::Members(members), topology: None }
    }

    /// A part that holds other parts.
    pub(crate) fn parent(name: impl Into<String>, sub_groups: i32) -> Self {
        Self {
            name: name.into(),
            parent: None,
            minimum: Minimum::SubGroups(sub_groups),
            topology: None,
        }
    }

    pub(crate) fn under(mut self, parent: &str) -> Self {
        self.parent = Some(parent.to_owned());
        self
    }

    pub(crate) fn placed(mut self, topology: Option<TopologyConstraint>) -> Self {
        self.topology = topology;
        self
    }
}

/// A warning for the user, recorded as an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Notice {
    /// Labels name different queues.
    #[error("queue {chosen} is used, although {} names queue {}", other.place(), other.value)]
    QueuesDisagree {
        /// The queue that counts.
        chosen: String,
        /// The label that does not.
        other: QueueLabel,
    },
    /// A priority class does not exist.
    #[error("PriorityClass {name}, from {origin}, does not exist")]
    PriorityClassMissing {
        /// Name of the missing priority class.
        name: String,
        /// Where it was named.
        origin: String,
    },
    /// The pod belongs to no part of a group that has parts.
    #[error("{pod} belongs to no sub-group of its pod group: {problem}")]
    NoSubGroup {
        /// The pod, as messages name it.
        pod: String,
        /// Why no sub-group fits.
        problem: String,
    },
    /// A value was ignored.
    #[error("{place} is ignored: {problem}")]
    Ignored {
        /// The object and its field.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
}
