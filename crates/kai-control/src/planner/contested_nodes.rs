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
use kai_core::world::World;
use kai_translate::time::seconds;

use super::Wait;
use super::backoff::Backoffs;
use super::binds::Binds;
use super::pod_entry::PodEntry;
use super::workloads::Workloads;
use crate::orders::Rejection;

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

/// What decides which binds are reverted.
#[derive(Clone, Copy)]
pub(super) struct BindState<'a> {
    pub(super) world: &'a World,
    pub(super) workloads: &'a Workloads,
    pub(super) binds: &'a Binds,
    pub(super) backoffs: &'a Backoffs,
}

/// A bind that is reverted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revert {
    pub(super) pod: ObjectName,
    pub(super) uid: Text,
    pub(super) node: Text,
    /// The pod of the other scheduler.
    pub(super) other: ObjectName,
    pub(super) reason: String,
    pub(super) by: RevertBy,
}

/// How a bind is reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RevertBy {
    /// The bind request is removed.
    RemoveRequest,
    /// The pod is evicted, and its controller creates another.
    Evict,
    /// No controller would create another: the node decides which pod runs.
    LeaveToNode,
}

/// A bind of ours that can be reverted.
struct Revertible {
    pod: ObjectName,
    bound: Option<Timestamp>,
    uid: Text,
    by: RevertBy,
}

impl ContestedNodes {
    /// A pod was observed; `had_node` is whether it had its node before. True when a plan is due to compare binds with it.
    pub(super) fn observe(&mut self, pod: &PodSpec, had_node: bool) -> bool {
        let Some(node) = pod.node.as_ref().filter(|_| pod.status.is_alive()) else { return false };
        match pod.role {
            PodRole::Foreign if !had_node => {
                self.contests.insert(node.clone(), (pod.name.clone(), None));
            }
            PodRole::Workload if self.contests.contains_key(node) => {}
            _ => return false,
        }
        self.unchecked.insert(node.clone());
        true
    }

    /// A pod is gone.
    pub(super) fn forget(&mut self, pod: &ObjectName) {
        self.reverted.remove(pod);
    }

    /// The API server refused to evict a pod whose bind is reverted: the node is checked again after the pod's back-off.
    pub(super) fn retry(&mut self, pod: &ObjectName, node: Option<Text>) {
        if self.reverted.remove(pod).is_some() {
            self.unchecked.extend(node);
        }
    }

    /// Binds to nodes that would have to hold more than they have because of a pod of another scheduler. They count as reverted.
    pub(super) fn take_reverts(&mut self, state: BindState<'_>, now: Timestamp) -> Vec<Revert> {
        for (_, until) in self.contests.values_mut() {
            until.get_or_insert(now.plus(CONTESTED_FOR));
        }
        self.contests.retain(|_, (_, until)| until.is_none_or(|until| now < until));
        let nodes = std::mem::take(&mut self.unchecked);
        nodes.iter().flat_map(|node| self.reverts_on(node, state)).collect()
    }

    fn reverts_on(&mut self, node: &Text, state: BindState<'_>) -> Vec<Revert> {
        let Some((other, _)) = self.contests.get(node) else { return Vec::new() };
        let Some(id) = state.world.node_named(node) else { return Vec::new() };
        let mut reverted: BTreeSet<ObjectName> = self.reverted.keys().cloned().collect();
        let mut reverts = Vec::new();
        for exceeded in state.exceeded(id, &reverted) {
            let found = state.binds_beyond(id, node, &exceeded, &reverted);
            let reason = reason(node, other, &exceeded);
            for Revertible { pod, uid, by, .. } in found {
                reverted.insert(pod.clone());
                let (node, other, reason) = (node.clone(), other.clone(), reason.clone());
                reverts.push(Revert { pod, uid, node, other, reason, by });
            }
        }
        if !state.exceeded(id, &reverted).is_empty() {
            // A bind that is under way now can be reverted once it is observed.
            self.unchecked.insert(node.clone());
        }
        let stay = reverts.iter().filter(|revert| revert.by != RevertBy::RemoveRequest);
        self.reverted.extend(stay.map(|revert| (revert.pod.clone(), revert.uid.clone())));
        reverts
    }

    /// Why a node rejected a pod that was bound to it, and what to do.
    pub(super) fn explain(&self, rejection: &Rejection) -> String {
        let Rejection { node, reason, has_controller, .. } = rejection;
        let cause = match self.contests.get(node) {
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
        format!("node {node} rejected the pod ({reason}): {cause}{remedy}")
    }
}

impl Revert {
    /// The event of the pod.
    pub(super) fn message(&self) -> String {
        let reason = &self.reason;
        match self.by {
            RevertBy::LeaveToNode => format!("{reason}. The node decides which of them runs"),
            _ => format!("{reason}. The pod had not started and is evicted"),
        }
    }
}

fn reason(node: &Text, other: &ObjectName, exceeded: &Violation) -> String {
    let what = exceeded.object.split(" of node ").next().unwrap_or_default();
    format!(
        "pod {other} of another scheduler was bound to node {node} at the same time, and the node has too few {what} for both"
    )
}

impl BindState<'_> {
    /// What pods of a node hold beyond what it has, without these.
    fn exceeded(&self, node: NodeId, without: &BTreeSet<ObjectName>) -> Vec<Violation> {
        let mut found = node_violations(self.world, node, without);
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
        for bind in self.revertible_binds(node, reverted) {
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
    fn revertible_binds(&self, node: &Text, reverted: &BTreeSet<ObjectName>) -> Vec<Revertible> {
        let ours = self.workloads.pods().filter(|(name, entry)| {
            let may_be_evicted = !reverted.contains(*name)
                && self.backoffs.until(name, &entry.base.uid, Wait::Eviction).is_none();
            let is_ours = entry.base.role == PodRole::Workload;
            is_ours && may_be_evicted && self.is_unstarted_on(name, entry, node)
        });
        let mut binds: Vec<Revertible> = ours
            .map(|(name, entry)| {
                let bound = entry.started.filter(|_| entry.base.node.is_some());
                let by = match bound {
                    None if self.binds.request(name).is_some() => RevertBy::RemoveRequest,
                    _ if entry.has_controller => RevertBy::Evict,
                    _ => RevertBy::LeaveToNode,
                };
                Revertible { pod: name.clone(), bound, uid: entry.base.uid.clone(), by }
            })
            .collect();
        // A bind that is only requested is later than any that was made.
        let lateness = |bind: &Revertible| bind.bound.unwrap_or(Timestamp { nanos: i64::MAX });
        binds.sort_by(|one, other| {
            lateness(other).cmp(&lateness(one)).then_with(|| other.uid.cmp(&one.uid))
        });
        binds
    }

    /// The pod is bound to the node, or a bind request names the node, and the node has not started the pod.
    fn is_unstarted_on(&self, name: &ObjectName, entry: &PodEntry, node: &Text) -> bool {
        let base = &entry.base;
        let is_bound = base.node.as_ref() == Some(node)
            && base.status == Status::Bound
            && !entry.is_on_its_node;
        let request = self.binds.request(name).filter(|_| self.binds.is_requested(name));
        let selected = request.and_then(|request| request.spec.selected_node.as_deref());
        is_bound || (base.node.is_none() && selected == Some(&**node))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pod_entry::tests::{entry, pod};
    use super::*;

    fn foreign(name: &str) -> PodSpec {
        let other = json!({"spec": {"schedulerName": "default-scheduler", "nodeName": "n1"}});
        entry(&pod(name, other)).base
    }

    #[test]
    fn only_a_new_pod_of_another_scheduler_contests_a_node() {
        let mut contested = ContestedNodes::default();
        let ours = entry(&pod("p", json!({"spec": {"nodeName": "n1"}}))).base;
        assert!(!contested.observe(&ours, false), "no other scheduler is there");
        assert!(!contested.observe(&foreign("old"), true), "it had its node before");
        assert!(contested.observe(&foreign("new"), false));
        assert!(contested.observe(&ours, false), "our bind is compared with it");
    }

    #[test]
    fn a_rejection_names_the_pod_of_the_other_scheduler_and_the_remedy() {
        let mut contested = ContestedNodes::default();
        let rejection = Rejection {
            pod: ObjectName::new("a", "p"),
            uid: "u".into(),
            node: "n1".into(),
            reason: "OutOfnvidia.com/gpu".to_owned(),
            has_controller: true,
        };
        let text = contested.explain(&rejection);
        assert!(text.ends_with("the node had less capacity than it reported"), "{text}");
        contested.observe(&foreign("other"), false);
        let text = contested.explain(&Rejection { has_controller: false, ..rejection });
        assert!(text.contains("pod a/other of another scheduler"), "{text}");
        assert!(text.ends_with("create it again"), "{text}");
    }
}
