//! Bind requests as the cluster shows them, and what becomes of those that failed. `local_binds` has those of this process.

use kai_core::input::pod::PodRole;
use kai_core::input::{Delta, Object, ObjectKey, ObjectName, Text};
use kai_core::time::Timestamp;
use kai_translate::bind_request;

use super::binds::{BindFailure, Removal, RemovedRequest, is_for_another};
use super::{Cause, Planner, log_problems};
use crate::orders::Order;

impl Planner {
    /// Applies a bind request to the world, unless it is that of an earlier pod of the name.
    pub(super) fn apply_bind_request(&mut self, name: &ObjectName) {
        let Some(request) = self.binds.request(name) else { return };
        let Some(entry) = self.workloads.pod(name) else { return };
        if is_for_another(request, &entry.base.uid) {
            self.forget_object(ObjectKey::BindRequest(name.clone()));
            return;
        }
        let claim = |name: &str| entry.claims.get(name).cloned();
        let is_ours = self.settings.schedules() && entry.base.role == PodRole::Workload;
        let reason = request.status.as_ref().and_then(|status| status.reason.clone());
        let Some(spec) = log_problems(bind_request::translate(request, claim)) else { return };
        let failure = BindFailure { node: spec.node.clone(), reason: reason.unwrap_or_default() };
        let has_failed = spec.failed && is_ours;
        self.apply_delta(Delta::Set(Object::BindRequest(spec)));
        if has_failed {
            self.drop_bind_request(name, failure);
        }
    }

    /// A bind request that failed for good is removed, and its pod backs off.
    pub(super) fn drop_bind_request(&mut self, pod: &ObjectName, failure: BindFailure) {
        if let Some(id) = self.binds.local_request(pod) {
            self.fail_local_bind(pod, failure);
            self.orders.push(Order::WithdrawBind(pod.clone(), id));
            return;
        }
        let Some(Removal { request, uid }) = self.binds.fail(pod, failure) else { return };
        self.orders.push(Order::DropBindRequest(request, uid));
        self.world.forget(pod);
        self.world.require_plan();
    }

    /// A failed bind request could not be removed: that is retried when its pod's back-off ends.
    pub(super) fn bind_request_stays(&mut self, uid: &Text, now: Timestamp) {
        let Some(pod) = self.binds.pod_of_removal(uid).cloned() else { return };
        let Some(entry) = self.workloads.pod(&pod) else { return };
        self.backoffs.bind_interrupted(&pod, &entry.base.uid, now);
        self.refresh_pod(&pod);
    }

    /// Pods whose bind requests failed back off.
    pub(super) fn back_off_after_failed_requests(&mut self, now: Timestamp) {
        for (pod, failure) in self.binds.take_failures() {
            self.statuses.note_bind_failed(&pod, &failure.reason, now);
            self.measurements.metrics.note_unbound(&pod);
            self.back_off_after_bind(&pod, &failure, Cause::Request, now);
        }
    }

    /// A bind request is gone: its bind is not under way any more.
    pub(super) fn remove_bind_request(&mut self, name: &ObjectName) {
        let Some(RemovedRequest { pod, request }) = self.binds.remove_request(name) else { return };
        if self.workloads.pod(&pod).is_some_and(|entry| !is_for_another(&request, &entry.base.uid))
        {
            self.binds.end(&pod);
            self.world.forget(&pod);
        }
        self.forget_object(ObjectKey::BindRequest(pod.clone()));
        self.refresh_pod(&pod); // it may have waited for that
    }
}
