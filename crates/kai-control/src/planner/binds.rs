//! Binds in flight: pods that a plan bound and that do not show it yet, their bind requests, wherever these live, and the
//! requests that failed and are being removed.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::BindRequest;
use kai_binder::{LocalId, RequestId};
use kai_core::input::pod::RetryAfter;
use kai_core::input::{ObjectName, PodSpec, Text};
use kai_core::plan::{Step, StepKind};
use kai_core::time::Timestamp;

/// A bind request that failed: the node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BindFailure {
    pub(super) node: Text,
    pub(super) reason: String,
}

/// A bind request that is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) request: ObjectName,
    pub(super) uid: Text,
}

/// A bind request that is gone.
#[derive(Clone, Debug)]
pub(super) struct RemovedRequest {
    pub(super) pod: ObjectName,
    pub(super) request: BindRequest,
}

/// A bind request and where it lives.
#[derive(Debug)]
struct KnownRequest {
    id: RequestId,
    object: BindRequest,
}

impl KnownRequest {
    fn local_id(&self) -> Option<LocalId> {
        match self.id {
            RequestId::Local(id) => Some(id),
            RequestId::Object(_) => None,
        }
    }
}

/// Binds that are under way.
#[derive(Debug, Default)]
pub(super) struct Binds {
    /// Bind requests by pod, whether they are for the one that exists now or not.
    requests: BTreeMap<ObjectName, KnownRequest>,
    /// How many requests the binder of this process was handed.
    handed_over: u64,
    /// UIDs of bind requests that failed and are being removed, by pod.
    removals: BTreeMap<ObjectName, Text>,
    /// Pods whose bind requests failed since the latest plan.
    failures: BTreeMap<ObjectName, BindFailure>,
    /// Pods that a plan bound and that do not show it yet.
    in_flight: BTreeSet<ObjectName>,
    /// Volume claims that have their volume: they need no preparation.
    bound_claims: BTreeSet<ObjectName>,
}

impl Binds {
    /// A bind request of the API server was observed. Returns its pod, and the request of this process that it replaces.
    pub(super) fn set_request(
        &mut self,
        name: ObjectName,
        request: BindRequest,
    ) -> (ObjectName, Option<LocalId>) {
        let mut pod = name;
        // Earlier releases of KAI gave requests names of their own.
        if let Some(named) = request.spec.pod_name.as_deref().filter(|named| !named.is_empty()) {
            pod.name = named.into();
        }
        let uid = request.metadata.uid.as_deref().unwrap_or_default().into();
        let known = KnownRequest { id: RequestId::Object(uid), object: request };
        let replaced = self.requests.insert(pod.clone(), known);
        (pod, replaced.and_then(|known| known.local_id()))
    }

    /// The binder of this process is handed the request for a bind of the pod.
    pub(super) fn hand_over(&mut self, pod: ObjectName, request: BindRequest) -> LocalId {
        self.handed_over += 1;
        let id = LocalId(self.handed_over);
        self.requests.insert(pod, KnownRequest { id: RequestId::Local(id), object: request });
        id
    }

    /// The request for a bind of the pod that lives in this process.
    pub(super) fn local_request(&self, pod: &ObjectName) -> Option<LocalId> {
        self.requests.get(pod)?.local_id()
    }

    /// Pods whose bind requests live in this process.
    pub(super) fn locally_requested_pods(&self) -> Vec<ObjectName> {
        let local = self.requests.iter().filter(|(_, known)| known.local_id().is_some());
        local.map(|(pod, _)| pod.clone()).collect()
    }

    /// The request for a bind of the pod lives in this process no more. The node that the pod should have got.
    pub(super) fn remove_local_request(&mut self, pod: &ObjectName) -> Option<(LocalId, Text)> {
        let id = self.local_request(pod)?;
        let known = self.requests.remove(pod)?;
        Some((id, known.object.spec.selected_node.unwrap_or_default().into()))
    }

    /// The request of this process says more than the pod does once that has its node: its device claims show what they were
    /// given by themselves, later.
    pub(super) fn allocates_claims(&self, pod: &ObjectName) -> bool {
        let request = self.request(pod);
        request.is_some_and(|request| {
            let spec = &request.spec;
            !spec.resource_claim_allocations.is_empty()
                || spec.extended_resource_claim_allocation.is_some()
        })
    }

    /// The bind of the pod failed, and no request is in the way of the next.
    pub(super) fn record_failure(&mut self, pod: ObjectName, failure: BindFailure) {
        self.failures.insert(pod, failure);
    }

    /// A bind request is gone, and with it its removal.
    pub(super) fn remove_request(&mut self, name: &ObjectName) -> Option<RemovedRequest> {
        let is_it = |(pod, known): &(&ObjectName, &KnownRequest)| {
            let own_name = known.object.metadata.name.as_deref();
            let is_object = known.local_id().is_none();
            is_object && pod.namespace == name.namespace && own_name == Some(&*name.name)
        };
        let by_name = self.requests.get_key_value(name).filter(|found| is_it(found));
        let found = by_name.or_else(|| self.requests.iter().find(is_it));
        let pod = found.map(|(pod, _)| pod.clone())?;
        self.removals.remove(&pod);
        let request = self.requests.remove(&pod)?.object;
        Some(RemovedRequest { pod, request })
    }

    /// The bind request of a pod.
    pub(super) fn request(&self, pod: &ObjectName) -> Option<&BindRequest> {
        self.requests.get(pod).map(|known| &known.object)
    }

    /// Pods that have a bind request.
    pub(super) fn requested_pods(&self) -> Vec<ObjectName> {
        self.requests.keys().cloned().collect()
    }

    /// The pod has a bind request that has not failed.
    pub(super) fn is_requested(&self, pod: &ObjectName) -> bool {
        self.requests.contains_key(pod) && !self.removals.contains_key(pod)
    }

    /// A plan bound the pod.
    pub(super) fn begin(&mut self, pod: ObjectName) {
        self.in_flight.insert(pod);
    }

    /// The pod has its node, will not get it, or is gone.
    pub(super) fn end(&mut self, pod: &ObjectName) {
        self.in_flight.remove(pod);
    }

    /// A plan bound the pod, and the pod does not show it yet.
    pub(super) fn is_in_flight(&self, pod: &ObjectName) -> bool {
        self.in_flight.contains(pod)
    }

    /// The bind request of a pod, an object, failed for good. Returns what is to be removed; none where that was ordered before.
    pub(super) fn fail(&mut self, pod: &ObjectName, failure: BindFailure) -> Option<Removal> {
        let removal = removal_of(pod, self.request(pod)?);
        if self.removals.get(pod) == Some(&removal.uid) {
            return None;
        }
        self.removals.insert(pod.clone(), removal.uid.clone());
        self.failures.insert(pod.clone(), failure);
        Some(removal)
    }

    /// A later bind of the pod failed, which says why.
    pub(super) fn forget_failure(&mut self, pod: &ObjectName) {
        self.failures.remove(pod);
    }

    /// The removal of the pod's bind request does not count as ordered.
    pub(super) fn forget_removal(&mut self, pod: &ObjectName) {
        self.removals.remove(pod);
    }

    /// Bind requests that failed since the latest call, by pod.
    pub(super) fn take_failures(&mut self) -> BTreeMap<ObjectName, BindFailure> {
        std::mem::take(&mut self.failures)
    }

    /// The pod whose failed bind request has this UID.
    pub(super) fn pod_of_removal(&self, uid: &Text) -> Option<&ObjectName> {
        self.removals.iter().find(|(_, known)| *known == uid).map(|(pod, _)| pod)
    }

    /// The failed bind request of the pod, where it is still there.
    pub(super) fn pending_removal(&self, pod: &ObjectName) -> Option<Removal> {
        let uid = self.removals.get(pod)?;
        let request = self.request(pod)?;
        Some(Removal { uid: uid.clone(), ..removal_of(pod, request) })
    }

    /// When the pod may be bound again; none: now. `until` is the end of its back-off.
    pub(super) fn retry_after(
        &self,
        pod: &ObjectName,
        until: Option<Timestamp>,
    ) -> Option<RetryAfter> {
        if self.removals.contains_key(pod) {
            return Some(RetryAfter::Cleanup);
        }
        until.filter(|_| !self.is_requested(pod)).map(RetryAfter::Moment)
    }

    /// Whether a volume claim has its volume.
    pub(super) fn set_volume_claim(&mut self, claim: ObjectName, is_bound: bool) {
        if is_bound {
            self.bound_claims.insert(claim);
        } else {
            self.bound_claims.remove(&claim);
        }
    }

    /// The bind of the pod needs several steps: GPU groups, device claims or volumes.
    pub(super) fn needs_preparation(&self, step: &Step, pod: &PodSpec) -> bool {
        let StepKind::Bind { gpu_groups, claims, .. } = &step.kind else { return true };
        let mut volumes = pod.constraints.volume_claims.iter();
        let has_unbound_volumes = volumes.any(|claim| {
            let namespace = pod.name.namespace.clone();
            !self.bound_claims.contains(&ObjectName { namespace, name: claim.clone() })
        });
        let has_claims = !claims.is_empty() || !pod.claims.is_empty();
        !gpu_groups.is_empty() || has_claims || has_unbound_volumes
    }
}

/// The request was made for an earlier pod of the name.
pub(super) fn is_for_another(request: &BindRequest, pod: &Text) -> bool {
    let mut owners = request.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Pod" && *owner.uid != **pod)
}

fn removal_of(pod: &ObjectName, request: &BindRequest) -> Removal {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    Removal {
        request: ObjectName::new(pod.namespace.clone(), name),
        uid: request.metadata.uid.clone().unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("a", name)
    }

    fn request(own_name: &str, uid: &str, pod: &str) -> BindRequest {
        let mut request =
            BindRequest::new(own_name, kai_api::bind_request::BindRequestSpec::default());
        request.metadata.uid = Some(uid.to_owned());
        request.spec.pod_name = Some(pod.to_owned());
        request
    }

    fn failure() -> BindFailure {
        BindFailure { node: "n1".into(), reason: "no device".to_owned() }
    }

    #[test]
    fn requests_are_found_by_pod_and_removed_by_their_own_name() {
        let mut binds = Binds::default();
        let (pod, _) = binds.set_request(name("p-xyz"), request("p-xyz", "u", "p"));
        assert_eq!(pod, name("p"));
        assert!(binds.is_requested(&pod));
        assert!(binds.remove_request(&name("p")).is_none(), "the name of the pod is another");
        let removed = binds.remove_request(&name("p-xyz")).map(|removed| removed.pod);
        assert_eq!(removed, Some(pod.clone()));
        assert!(!binds.is_requested(&pod));
    }

    #[test]
    fn a_failed_request_is_removed_once_and_blocks_its_pod_until_it_is_gone() {
        let mut binds = Binds::default();
        let (pod, _) = binds.set_request(name("p"), request("p", "u", "p"));
        let removal = Removal { request: name("p"), uid: "u".into() };
        assert_eq!(binds.fail(&pod, failure()), Some(removal.clone()));
        assert_eq!(binds.fail(&pod, failure()), None, "ordered before");
        assert!(!binds.is_requested(&pod));
        assert_eq!(binds.retry_after(&pod, None), Some(RetryAfter::Cleanup));
        assert_eq!(binds.pod_of_removal(&"u".into()), Some(&pod));
        assert_eq!(binds.pending_removal(&pod), Some(removal));
        assert_eq!(binds.take_failures(), BTreeMap::from([(pod.clone(), failure())]));
        assert!(binds.take_failures().is_empty());
        binds.remove_request(&pod);
        assert_eq!(binds.retry_after(&pod, None), None);
    }

    #[test]
    fn back_off_counts_only_while_no_request_is_under_way() {
        let until = Some(Timestamp { nanos: 5 });
        let mut binds = Binds::default();
        assert_eq!(binds.retry_after(&name("p"), until), until.map(RetryAfter::Moment));
        binds.set_request(name("p"), request("p", "u", "p"));
        assert_eq!(binds.retry_after(&name("p"), until), None);
    }

    #[test]
    fn local_request_stays_when_an_object_of_its_name_is_gone() {
        let mut binds = Binds::default();
        let first = binds.hand_over(name("p"), request("p", "", "p"));
        assert!(binds.is_requested(&name("p")) && binds.remove_request(&name("p")).is_none());
        assert_eq!(binds.local_request(&name("p")), Some(first));
        let second = binds.hand_over(name("q"), request("q", "", "q"));
        assert_ne!(first, second);
        assert_eq!(binds.locally_requested_pods(), [name("p"), name("q")]);
        assert_eq!(binds.remove_local_request(&name("q")).map(|(id, _)| id), Some(second));
        assert!(!binds.is_requested(&name("q")));
    }

    #[test]
    fn object_of_the_api_server_replaces_the_local_request_of_its_pod() {
        let mut binds = Binds::default();
        let id = binds.hand_over(name("p"), request("p", "", "p"));
        let observed = binds.set_request(name("p-xyz"), request("p-xyz", "u", "p"));
        assert_eq!(observed, (name("p"), Some(id)));
        assert_eq!(binds.local_request(&name("p")), None);
        assert!(binds.remove_local_request(&name("p")).is_none() && binds.is_requested(&name("p")));
    }

    #[test]
    fn a_pod_is_in_flight_from_the_plan_to_its_node() {
        let mut binds = Binds::default();
        binds.begin(name("p"));
        assert!(binds.is_in_flight(&name("p")) && !binds.is_requested(&name("p")));
        binds.end(&name("p"));
        assert!(!binds.is_in_flight(&name("p")));
    }
}
