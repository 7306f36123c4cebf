//! Evictions: victims of plans and reverted binds into orders, answers back into the world. A victim that was not sent yet stays
//! when its preemptor no longer needs its capacity and no pod was bound that depends on it.

use kai_client::request::EvictBy;
use kai_core::input::pod::PodRole;
use kai_core::input::{ObjectName, PodSpec};
use kai_core::status::Status;
use kai_core::time::Timestamp;

use super::Planner;
use super::binds::BindFailure;
use super::contested_nodes::{BindState, ContestedNodes, Revert, RevertBy};
use super::eviction_queue::EvictionQueue;
use crate::orders::{Order, Rejection, Victim};

/// Pods that are to be evicted: victims of plans, and pods whose binds are reverted.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    pub(super) queue: EvictionQueue,
    pub(super) contested: ContestedNodes,
}

impl Evictions {
    /// The pod is gone.
    pub(super) fn forget(&mut self, pod: &ObjectName) {
        self.queue.forget(pod);
        self.contested.forget(pod);
    }
}

impl Planner {
    /// Orders the evictions that may be sent now.
    pub fn order_evictions(&mut self, now: Timestamp) {
        let by = self.settings.evict_by();
        while let Some((number, plan)) = self.evictions.queue.next_plan() {
            // Without a preemptor the victims are evicted for their own sake.
            let is_pending = plan.for_job.as_ref().is_none_or(|job| self.workloads.is_pending(job));
            if !self.settings.schedules() || !(plan.is_counted_on || is_pending) {
                let preemptor = plan.for_job.as_ref().map(ToString::to_string).unwrap_or_default();
                let spared = self.evictions.queue.cancel(number);
                tracing::info!(preemptor, pods = spared.len(), "spared victims");
                self.spare(&spared);
                continue;
            }
            if !self.evictions.queue.is_open(now) {
                return;
            }
            let per_second = self.settings.evictions_per_second;
            let workloads = &self.workloads;
            let gang = self.evictions.queue.send_next(number, per_second, now, |victim| {
                workloads.is_current(&victim.pod, &victim.uid)
            });
            self.orders.extend(gang.into_iter().map(|victim| {
                let by = if victim.overrides_budget { EvictBy::MarkedDelete } else { by };
                Order::Evict(by, victim)
            }));
        }
    }

    /// Victims stay: they count as running again.
    fn spare(&mut self, pods: &[ObjectName]) {
        for pod in pods {
            self.world.forget(pod);
            self.statuses.note_spared(pod);
        }
        if !pods.is_empty() {
            self.world.require_plan();
        }
    }

    /// The API server accepted an eviction.
    pub(super) fn eviction_accepted(&mut self, pod: &ObjectName, now: Timestamp) {
        self.statuses.note_evicted(pod, now);
        self.evictions.queue.accept(pod);
    }

    /// The API server refused an eviction: the rest of its plan that was not sent stays too.
    pub(super) fn eviction_refused(&mut self, victim: &ObjectName, now: Timestamp) {
        let spared = self.evictions.queue.refuse(victim);
        self.spare(&spared);
        let entry = self.workloads.pod(victim);
        let node = entry.and_then(|entry| entry.base.node.clone());
        if let Some(entry) = entry {
            self.backoffs.eviction_refused(victim, &entry.base.uid, now);
            self.refresh_pod(victim);
        }
        self.evictions.contested.retry(victim, node);
    }

    /// Another process plans from now on: victims that were not sent stay.
    pub(super) fn cancel_evictions(&mut self) {
        let spared = self.evictions.queue.cancel_all();
        self.spare(&spared);
    }

    /// The observed pod only shows the eviction that we ordered.
    pub(super) fn confirms_eviction(&self, observed: &PodSpec) -> bool {
        let known = self.workloads.pod(&observed.name);
        known.is_some_and(|known| self.evictions.queue.confirms(&known.base, observed))
    }

    /// The watch shows that a victim ends. `was_dirty` is whether a plan was due before. The last victim makes one due: the
    /// preemptor may fit beside victims that still end, where they used quota and not its device.
    pub(super) fn confirm_eviction(&mut self, pod: &PodSpec, was_dirty: bool) {
        self.evictions.queue.forget(&pod.name);
        self.world.restore_dirty(was_dirty || self.evictions.queue.all_are_shown());
        if let Some(stuck_at) = pod.stuck_at {
            self.world.wake_by(stuck_at);
        }
    }

    /// Takes over that a pod is observed on a node, before anything else of it is.
    pub(super) fn observe_contest(&mut self, pod: &PodSpec) {
        let known = self.workloads.pod(&pod.name);
        let had_node = known.is_some_and(|known| known.base.node.is_some());
        if self.evictions.contested.observe(pod, had_node) {
            self.world.require_plan();
        }
    }

    /// Reverts binds to nodes that would have to hold more than they have because of a pod of another scheduler.
    pub(super) fn revert_contested_binds(&mut self, now: Timestamp) {
        let state = BindState {
            world: self.world.world(),
            workloads: &self.workloads,
            binds: &self.binds,
            backoffs: &self.backoffs,
        };
        for revert in self.evictions.contested.take_reverts(state, now) {
            self.revert_bind(revert, now);
        }
    }

    fn revert_bind(&mut self, revert: Revert, now: Timestamp) {
        let message = revert.message();
        let Revert { pod, uid, node, other, reason, by } = revert;
        match by {
            RevertBy::RemoveRequest => {
                tracing::info!(%pod, %node, %other, "withdrew a bind request to a contested node");
                self.drop_bind_request(&pod, BindFailure { node, reason });
                return;
            }
            RevertBy::LeaveToNode => {
                tracing::warn!(%pod, %node, %other, "left a pod without a controller to its contested node");
            }
            RevertBy::Evict => {
                tracing::info!(%pod, %node, %other, "reverted a bind to a contested node");
            }
        }
        self.statuses.note_contest(&pod, &uid, &message, now);
        if by == RevertBy::Evict {
            let victim = Victim { pod, uid, message: message.into(), overrides_budget: false };
            self.orders.push(Order::Evict(self.settings.evict_by(), victim));
        }
    }

    /// A pod of ours is gone before its node had started it, and we did not delete it: its node may have rejected it. The watch leaves
    /// out pods that failed.
    pub(super) fn find_rejection(&mut self, pod: &ObjectName) {
        let Some(entry) = self.workloads.pod(pod) else { return };
        let base = &entry.base;
        let is_rejectable = base.role == PodRole::Workload
            && base.node.is_some()
            && base.status == Status::Bound
            && !self.evictions.queue.is_assumed(pod, &base.uid);
        if is_rejectable && self.is_ready() && self.settings.schedules() {
            self.orders.push(Order::FindRejection(pod.clone(), base.uid.clone()));
        }
    }

    /// A node rejected a pod that was bound to it: an event says why, and what to do.
    pub(super) fn explain_rejection(&mut self, rejection: &Rejection, now: Timestamp) {
        let Rejection { pod, uid, node, reason, .. } = rejection;
        let message = self.evictions.contested.explain(rejection);
        tracing::warn!(%pod, %node, reason, "a node rejected a pod");
        self.statuses.note_contest(pod, uid, &message, now);
    }
}
