//! Nodes on which a pod of another scheduler appeared. Neither scheduler observes the other's bind in time, and the API server
//! checks no capacity, so both may bind to the same GPUs. Where that exceeds a node, our latest binds there are reverted, as long
//! as the node has not started the pods: a bind request is removed, a bound pod is evicted so that its controller creates another.
//! A pod without a controller is left to its node, which admits only what fits; an event explains that.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::check::{Rule, Violation, node_violations};
use kai_core::ids::NodeId;
use kai_core::input::pod::PodRole;
use kai_core::input::{ObjectName, PodSpec, Text};
use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::{Planner, Wait};
use crate::orders::{Order, Rejection, Victim};

/// How long a bind that was under way may take to be observed after the other pod was.
const CONTESTED_FOR: Span = seconds(60);

/// Nodes on which pods of other schedulers appeared.
#[derive(Debug, Default)]
pub(super) struct ContestedNodes {
    /// The latest such pod by node, and until when binds there are compared with it; none before the next plan.
    contests: BTreeMap<Text, (ObjectName, Option<Timestamp>)>,
    /// Nodes of which something changed since they were checked.
    unchecked: BTreeSet<Text>,
    /// Pods whose eviction was ordered or that are left to their nodes, with their UIDs.
    reverted: BTreeMap<ObjectName, Text>,
}

/// A bind of ours that can be reverted.
struct Revertible {
    pod: ObjectName,
    bound: Option<Timestamp>,
    uid: Text,
    has_controller: bool,
}

impl ContestedNodes {
    pub(super) fn forget(&mut self, pod: &ObjectName) {
        self.reverted.remove(pod);
    }
}

impl Planner {
    /// Takes over that a pod is observed on a node, before anything else of it is.
    pub(super) fn note_contest(&mut self, pod: &PodSpec) {
        let Some(node) = pod.node.as_ref().filter(|_| pod.status.is_alive()) else { return };
        let known = self.pods.get(&pod.name).map(|entry| &entry.base);
        let is_new = known.is_none_or(|known| known.node.is_none());
        match pod.role {
            PodRole::Foreign if is_new => {
                self.contested.contests.insert(node.clone(), (pod.name.clone(), None));
            }
            PodRole::Workload if self.contested.contests.contains_key(node) => {}
            _ => return,
        }
        self.contested.unchecked.insert(node.clone());
        self.dirty = true;
    }

    /// Reverts binds to nodes that would have to hold more than they have because of a pod of another scheduler.
    pub(super) fn revert_contested_binds(&mut self, now: Timestamp) {
        for (_, until) in self.contested.contests.values_mut() {
            until.get_or_insert(now.plus(CONTESTED_FOR));
        }
        self.contested.contests.retain(|_, (_, until)| until.is_none_or(|until| now < until));
        for node in std::mem::take(&mut self.contested.unchecked) {
            self.revert_binds_to(&node, now);
        }
    }

    fn revert_binds_to(&mut self, node: &Text, now: Timestamp) {
        let Some(other) = self.contested.contests.get(node).map(|(pod, _)| pod.clone()) else {
            return;
        };
        let Some(id) = self.world.node_named(node) else { return };
        let mut reverted: BTreeSet<ObjectName> = self.contested.reverted.keys().cloned().collect();
        for exceeded in self.exceeded(id, &reverted) {
            let found = self.binds_beyond(id, node, &exceeded, &reverted);
            for bind in found {
                reverted.insert(bind.pod.clone());
                self.revert_bind(&bind, node, &other, &exceeded, now);
            }
        }
        if !self.exceeded(id, &reverted).is_empty() {
            // A bind that is under way now can be reverted once it is observed.
            self.contested.unchecked.insert(node.clone());
        }
    }

    /// What pods of a node hold beyond what it has, without these.
    fn exceeded(&self, node: NodeId, without: &BTreeSet<ObjectName>) -> Vec<Violation> {
        let mut found = node_violations(&self.world, node, without);
        found.retain(|one| matches!(one.rule, Rule::DeviceCount | Rule::NodeAmount));
        found
    }

    /// The latest binds without which the node has enough; none if it had too little all the same.
    fn binds_beyond(
        &self,
        id: NodeId,
        node: &Text,
        exceeded: &Violation,
        reverted: &BTreeSet<ObjectName>,
    ) -> Vec<Revertible> {
        let excess = |without: &BTreeSet<ObjectName>| {
            let now = self.exceeded(id, without);
            now.iter().find(|one| one.is_about_the_same_as(exceeded)).map_or(0.0, Violation::excess)
        };
        let mut without = reverted.clone();
        let mut left = excess(&without);
        let mut found = Vec::new();
        for bind in self.revertible_binds(node) {
            if left <= 0.0 {
                break;
            }
            without.insert(bind.pod.clone());
            let now = excess(&without);
            if now < left {
                left = now;
                found.push(bind);
            } else {
                without.remove(&bind.pod);
            }
        }
        if left > 0.0 { Vec::new() } else { found }
    }

    /// Binds of ours to the node that it has not started, the latest first.
    fn revertible_binds(&self, node: &Text) -> Vec<Revertible> {
        let ours = self.pods.iter().filter(|(name, entry)| {
            let base = &entry.base;
            let is_bound = base.node.as_ref() == Some(node)
                && base.status == Status::Bound
                && !entry.is_on_its_node;
            let request = self.bind_requests.get(*name).filter(|_| self.is_being_bound(name));
            let is_requested = base.node.is_none()
                && request
                    .is_some_and(|request| request.spec.selected_node.as_deref() == Some(&**node));
            let may_be_evicted = !self.contested.reverted.contains_key(*name)
                && self.backoffs.until(name, &base.uid, Wait::Eviction).is_none();
            base.role == PodRole::Workload && (is_bound || is_requested) && may_be_evicted
        });
        let mut binds: Vec<Revertible> = ours
            .map(|(name, entry)| Revertible {
                pod: name.clone(),
                bound: entry.started().filter(|_| entry.base.node.is_some()),
                uid: entry.base.uid.clone(),
                has_controller: !entry.view.metadata.owner_references.is_empty(),
            })
            .collect();
        // A bind that is only asked for is later than any that was made.
        let lateness = |bind: &Revertible| bind.bound.unwrap_or(Timestamp { nanos: i64::MAX });
        binds.sort_by(|one, other| {
            lateness(other).cmp(&lateness(one)).then_with(|| other.uid.cmp(&one.uid))
        });
        binds
    }

    fn revert_bind(
        &mut self,
        bind: &Revertible,
        node: &Text,
        other: &ObjectName,
        exceeded: &Violation,
        now: Timestamp,
    ) {
        let Revertible { pod, uid, .. } = bind;
        let what = exceeded.object.split(" of node ").next().unwrap_or_default();
        let reason = format!(
            "pod {other} of another scheduler was bound to node {node} at the same time, and the node has too few {what} for both"
        );
        if bind.bound.is_none()
            && let Some(request) = self.bind_requests.get(pod)
        {
            let name = request.metadata.name.as_deref().unwrap_or_default();
            let name = ObjectName::new(pod.namespace.clone(), name);
            let request_uid: Text = request.metadata.uid.clone().unwrap_or_default().into();
            tracing::info!(%pod, %node, %other, "withdrew a bind request to a contested node");
            self.drop_bind_request(pod, name, request_uid, (node.clone(), reason));
            return;
        }
        self.contested.reverted.insert(pod.clone(), uid.clone());
        if !bind.has_controller {
            tracing::warn!(%pod, %node, %other, "left a pod without a controller to its contested node");
            let message = format!("{reason}. The node decides which of them runs");
            self.statuses.note_contest(pod, uid, &message, now);
            return;
        }
        tracing::info!(%pod, %node, %other, "reverted a bind to a contested node");
        let message = format!("{reason}. The pod had not started and is evicted");
        self.statuses.note_contest(pod, uid, &message, now);
        let victim = Victim {
            pod: pod.clone(),
            uid: uid.clone(),
            message: message.into(),
            overrides_budget: false,
        };
        self.orders.push(Order::Evict(self.evict_by(), victim));
    }

    /// The API server refused to evict a pod whose bind is reverted: it is tried again after the pod's back-off.
    pub(super) fn retry_revert(&mut self, pod: &ObjectName) {
        if self.contested.reverted.remove(pod).is_none() {
            return;
        }
        let node = self.pods.get(pod).and_then(|entry| entry.base.node.clone());
        self.contested.unchecked.extend(node);
    }

    /// A pod of ours is gone before its node had started it, and we did not delete it: its node may have rejected it. The watch leaves
    /// out pods that failed.
    pub(super) fn ask_for_rejection(&mut self, pod: &ObjectName) {
        let Some(entry) = self.pods.get(pod) else { return };
        let base = &entry.base;
        let is_rejectable = base.role == PodRole::Workload
            && base.node.is_some()
            && base.status == Status::Bound
            && !self.evictions.is_assumed(pod, &base.uid);
        if is_rejectable && self.is_ready() && self.schedules() {
            self.orders.push(Order::AskRejection(pod.clone(), base.uid.clone()));
        }
    }

    /// A node rejected a pod that was bound to it: an event says why, and what to do.
    pub(super) fn explain_rejection(&mut self, rejection: &Rejection, now: Timestamp) {
        let Rejection { pod, uid, node, reason, has_controller } = rejection;
        let cause = match self.contested.contests.get(node) {
            Some((other, _)) => {
                format!("pod {other} of another scheduler took the capacity at the same time")
            }
            None => "the node had less capacity than it reported".to_owned(),
        };
        let remedy = if *has_controller {
            ""
        } else {
            ". A pod without a controller does not come back: create it again"
        };
        let message = format!("node {node} rejected the pod ({reason}): {cause}{remedy}");
        tracing::warn!(%pod, %node, reason, "a node rejected a pod");
        self.statuses.note_contest(pod, uid, &message, now);
    }
}
