//! A pod group as an input of the planner.

use std::sync::Arc;

use crate::input::{ObjectName, Text};
use crate::time::{Span, Timestamp};

/// A pod group: the unit that is scheduled whole; a job of the planner.
#[derive(Clone, PartialEq, Debug)]
pub struct PodGroupSpec {
    /// Namespace and name of the pod group.
    pub name: ObjectName,
    /// UID; ties between groups are broken by it.
    pub uid: Text,
    /// Queue it is charged to.
    pub queue: Text,
    /// Priority in its queue; higher is served first.
    pub priority: i32,
    /// Whether it may be evicted for other jobs.
    pub preemptibility: Preemptibility,
    /// When it was created.
    pub created: Timestamp,
    /// When it last went from nothing to running.
    pub last_start: Option<Timestamp>,
    /// When it was last evicted.
    pub last_eviction: Option<Timestamp>,
    /// Since when it lacks members.
    pub stale_since: Option<Timestamp>,
    /// Since when disruption budgets delay that it reclaims from other queues.
    pub reclaim_delayed_since: Option<Timestamp>,
    /// How long it may lack members; negative: forever; none: as configured.
    pub staleness_grace: Option<Span>,
    /// How long it may not evict others after its creation or its own eviction.
    pub preemption_delay: Option<Span>,
    /// It waits for free resources: no pod is evicted or moved for it. KAI does not know such groups.
    pub never_preempts: bool,
    /// False: it asked to be left out after a failed attempt and has had it.
    pub schedulable: bool,
    /// Why its queue denies it; none: it does not. A group that is denied is not tried; its running pods stay.
    pub denied: Option<Text>,
    /// A plan placed several of its pods, and the bind of some failed: once others of it hold their places these come
    /// before everything else.
    pub half_bound: bool,
    /// The tree of members. Groups with equal trees can share it.
    pub tree: Arc<GroupSet>,
}

impl PodGroupSpec {
    /// A preemptible group with the priority of training. Its UID is its name.
    pub fn preemptible(
        name: ObjectName,
        queue: impl Into<Text>,
        tree: impl Into<Arc<GroupSet>>,
    ) -> Self {
        Self {
            uid: name.name.clone(),
            name,
            queue: queue.into(),
            priority: 50,
            preemptibility: Preemptibility::Preemptible,
            created: Timestamp::default(),
            last_start: None,
            last_eviction: None,
            stale_since: None,
            reclaim_delayed_since: None,
            staleness_grace: None,
            preemption_delay: None,
            never_preempts: false,
            schedulable: true,
            denied: None,
            half_bound: false,
            tree: tree.into(),
        }
    }
}

/// Whether a group may be evicted for other jobs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Preemptibility {
    /// It may be evicted, and may use more than its queue's quota.
    Preemptible,
    /// It may not, and must fit its queue's quota.
    NonPreemptible,
    /// Its core, the pods that its tree needs, may not and must fit the quota; pods and sub-groups beyond it may.
    SemiPreemptible,
}

/// An inner part of the tree.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct GroupSet {
    /// Name, empty for the root.
    pub name: Text,
    /// How many direct members must be satisfied; none: all.
    pub min_members: Option<u32>,
    /// Where its pods must or should be together.
    pub topology: Option<TopologyConstraint>,
    /// Leaves that are direct members.
    pub leaves: Vec<GroupLeaf>,
    /// Sets that are direct members.
    pub sets: Vec<GroupSet>,
}

/// A leaf: pods of one kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupLeaf {
    /// Name that pods refer to.
    pub name: Text,
    /// How many pods are needed.
    pub min_available: u32,
    /// Where its pods must or should be together.
    pub topology: Option<TopologyConstraint>,
}

/// Pods together in one domain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopologyConstraint {
    /// Name of the topology whose levels are meant.
    pub topology: Text,
    /// All pods in one domain of this level.
    pub required: Option<Text>,
    /// All pods in one domain of this level if possible.
    pub preferred: Option<Text>,
}

/// Name of the only leaf of a group without sub-groups.
pub const DEFAULT_LEAF: &str = "default";
