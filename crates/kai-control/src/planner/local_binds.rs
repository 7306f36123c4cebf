//! Bind requests that the binder of this process is handed in memory. They live while this process leads as scheduler and as
//! binder. What a crash leaves of them is read off the pods.

use kai_api::BindRequest;
use kai_binder::{EndedBind, RequestId};
use kai_core::input::{ObjectKey, ObjectName};
use kai_core::time::Timestamp;

use super::binds::BindFailure;
use super::{Cause, Planner};
use crate::orders::Order;

impl Planner {
    /// The binder of this process is handed the request for a bind of the pod; otherwise it has to be an object.
    pub(super) fn hands_over(&self, pod: &ObjectName) -> bool {
        // The cluster shows one: the API server decides between the two.
        let has_object =
            self.binds.request(pod).is_some() && self.binds.local_request(pod).is_none();
        !has_object && self.settings.hands_binds_over()
    }

    /// Orders the bind from the binder of this process. The plan counts with it already: no other plan is due. A bind that was
    /// handed over before is withdrawn: its node is gone, or the plan would not place the pod again.
    pub(super) fn hand_over(&mut self, pod: ObjectName, request: BindRequest) {
        self.withdraw_local_bind(&pod);
        let id = self.binds.hand_over(pod.clone(), request.clone());
        let was_dirty = self.world.is_dirty();
        self.apply_bind_request(&pod);
        self.world.restore_dirty(was_dirty);
        self.orders.push(Order::HandOverBind(pod, id, Box::new(request)));
    }

    /// The binder of this process ended a bind. One that went well is kept until the pod shows its node.
    pub(super) fn end_local_bind(&mut self, ended: &EndedBind) {
        let RequestId::Local(id) = &ended.request else { return };
        let Some(reason) = ended.failure.clone() else { return };
        if self.binds.local_request(&ended.pod) == Some(*id) {
            self.fail_local_bind(&ended.pod, BindFailure { node: ended.node.clone(), reason });
        }
    }

    /// A bind of this process failed: its pod backs off before the next plan.
    pub(super) fn fail_local_bind(&mut self, pod: &ObjectName, failure: BindFailure) {
        self.remove_local_bind(pod);
        self.binds.record_failure(pod.clone(), failure);
        self.world.forget(pod);
        self.world.require_plan();
    }

    /// The pod shows its node, and with it what its request said.
    pub(super) fn finish_local_bind(&mut self, pod: &ObjectName) {
        let has_node = self.workloads.pod(pod).is_some_and(|entry| entry.base.node.is_some());
        if has_node && !self.binds.allocates_claims(pod) {
            self.remove_local_bind(pod);
        }
    }

    /// The pod is gone, or gets another bind: the one that was handed over is not wanted any more.
    pub(super) fn withdraw_local_bind(&mut self, pod: &ObjectName) {
        if let Some((id, _)) = self.binds.remove_local_request(pod) {
            self.orders.push(Order::WithdrawBind(pod.clone(), id));
        }
    }

    /// This process does not lead as scheduler and binder any more. A bind may have been carried out, and the answer be lost:
    /// pods are planned again after a while, once the watch would have shown it.
    pub(super) fn abandon_local_binds(&mut self, now: Timestamp) {
        for pod in self.binds.locally_requested_pods() {
            if self.workloads.pod(&pod).is_some_and(|entry| entry.base.node.is_some()) {
                continue; // it is bound, and its claims are kept for it until they show that
            }
            let Some((id, node)) = self.binds.remove_local_request(&pod) else { continue };
            tracing::info!(%pod, %node, "abandoned a bind: this process does not lead any more");
            self.orders.push(Order::WithdrawBind(pod.clone(), id));
            self.forget_object(ObjectKey::BindRequest(pod.clone()));
            self.world.forget(&pod);
            self.measurements.metrics.note_unbound(&pod);
            let failure = BindFailure { node, reason: "the binder lost its lease".to_owned() };
            self.back_off_after_bind(&pod, &failure, Cause::LostLease, now);
        }
    }

    fn remove_local_bind(&mut self, pod: &ObjectName) {
        if self.binds.remove_local_request(pod).is_some() {
            self.forget_object(ObjectKey::BindRequest(pod.clone()));
        }
    }
}
