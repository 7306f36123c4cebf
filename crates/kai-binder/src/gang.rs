//! Gangs: no pod of a group is bound before all that are to be bound with it are ready.

use kai_core::input::ObjectName;

use super::attempt::Attempt;
use super::facts::PodFacts;
use super::request::Request;
use super::{Binder, Item};

impl Binder {
    /// Pods of the group of the request's pod that have a node or are ready to be bound, this one among them.
    pub(super) fn ready_members(&self, request: &Request, pod: &PodFacts) -> u32 {
        let Some(gang) = &pod.gang else { return request.members_needed };
        self.ready_and(gang, Some(&request.pod))
    }

    /// Pods of a gang that have a node or are ready to be bound, and this one.
    fn ready_and(&self, gang: &ObjectName, own: Option<&ObjectName>) -> u32 {
        let ready = self.facts.members(gang).filter(|member| {
            own == Some(*member) || self.is_placed(member) || {
                let mut requests = self.facts.requests_of_pod(member);
                requests.any(|name| self.attempts.get(name).is_some_and(Attempt::is_ready))
            }
        });
        u32::try_from(ready.count()).unwrap_or(u32::MAX)
    }

    /// Pods of the group of the request's pod that have a node or whose requests are being carried out, this one among them.
    pub(super) fn open_members(&self, request: &Request, pod: &PodFacts) -> u32 {
        let Some(gang) = &pod.gang else { return request.members_needed };
        let open = self.facts.members(gang).filter(|member| {
            **member == request.pod || self.is_placed(member) || {
                let mut requests = self.facts.requests_of_pod(member);
                requests.any(|name| {
                    self.attempts.get(name).is_some_and(|attempt| !attempt.is_failing())
                })
            }
        });
        u32::try_from(open.count()).unwrap_or(u32::MAX)
    }

    fn is_placed(&self, pod: &ObjectName) -> bool {
        self.facts.pod(pod).is_some_and(PodFacts::is_placed)
    }

    /// Requests of the other pods of the group.
    fn companions(&self, request: &Request) -> Vec<ObjectName> {
        let gang = self.facts.subject(request).and_then(|pod| pod.gang.as_ref());
        let members = gang.into_iter().flat_map(|gang| self.facts.members(gang));
        let others = members.filter(|member| **member != request.pod);
        others.flat_map(|member| self.facts.requests_of_pod(member)).cloned().collect()
    }

    /// One more is ready: those that wait for it are looked at.
    pub(super) fn look_at_companions(&mut self, request: &Request) {
        let Some(pod) = self.facts.subject(request) else { return };
        let Some(gang) = &pod.gang else { return };
        self.due.extend(self.completed(gang, self.ready_members(request, pod)));
    }

    pub(super) fn look_at_gang(&mut self, gang: &ObjectName) {
        self.due.extend(self.completed(gang, self.ready_and(gang, None)));
    }

    /// Requests of a gang that are ready and need no more pods than these. Those that wait for a slot are named when they get it: looking
    /// at all of them whenever one is bound would take the third power of the gang's size.
    fn completed(&self, gang: &ObjectName, ready: u32) -> Vec<Item> {
        let waits = |name: &&ObjectName| {
            let attempt = self.attempts.get(*name);
            attempt.is_some_and(|one| one.is_ready() && !self.slots.is_waiting(one.id()))
                && self.facts.request(name).is_some_and(|one| one.members_needed <= ready)
        };
        let requests =
            self.facts.members(gang).flat_map(|member| self.facts.requests_of_pod(member));
        requests.filter(waits).cloned().map(Item::Request).collect()
    }

    /// The pod of the request is bound: a later failure does not cancel the binds of the other pods. The request itself may be
    /// gone by then.
    pub(super) fn mark_gang_begun(&mut self, request: &Request) {
        if request.members_needed <= 1 {
            return;
        }
        for name in self.companions(request) {
            if let Some(attempt) = self.attempts.get_mut(&name) {
                attempt.mark_gang_begun();
            }
        }
    }

    /// Cancels all binds of a gang of which no pod is bound yet.
    pub(super) fn cancel_companions(&mut self, request: &Request, reason: &str) {
        if request.members_needed <= 1 {
            return;
        }
        let companions = self.companions(request);
        let has_begun = companions.iter().any(|name| {
            self.attempts.get(name).is_some_and(Attempt::binds)
                || self.facts.request(name).is_some_and(|other| self.is_placed(&other.pod))
        });
        if has_begun {
            return;
        }
        for name in companions {
            if let Some(attempt) = self.attempts.get_mut(&name)
                && !attempt.is_failing()
            {
                attempt.cancel(reason);
                self.due.extend(attempt.devices().map(Item::Device));
                self.due.insert(Item::Request(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kai_api::names::{scheduling, workload};
    use kai_client::watch::Change;
    use kai_core::time::Timestamp;
    use kai_translate::view;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::facts::NEEDED;
    use crate::request::LocalId;
    use crate::writes::BindStep;
    use crate::{BinderSettings, Order};

    fn read<T: DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).expect("an object")
    }

    /// A pod of the gang, which an event with this version shows.
    fn pod(name: &str, version: &str, node: Option<&str>) -> Change {
        Change::Pod(Box::new(read::<view::Pod>(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": version,
                "annotations": {workload::POD_GROUP_NAME: "g"}},
            "spec": {"schedulerName": "kai-scheduler", "nodeName": node},
        }))))
    }

    /// A gang of two, of which the first is ready to be bound.
    fn binder() -> Binder {
        let mut binder = Binder::new(BinderSettings::default());
        let node = read::<view::Node>(json!({"metadata": {"name": "n"}}));
        binder.apply(&Change::Node(Box::new(node)));
        binder.apply(&pod("first", "1", None));
        binder.apply(&pod("second", "1", None));
        for kind in NEEDED {
            binder.apply(&Change::Listed(kind));
        }
        let request = read(json!({
            "apiVersion": "scheduling.run.ai/v1alpha2",
            "kind": "BindRequest",
            "metadata": {"name": "first", "namespace": "a", "annotations": {scheduling::GANG_SIZE: "2"}},
            "spec": {"podName": "first", "selectedNode": "n", "receivedResourceType": "Regular"},
        }));
        binder.request_bind(ObjectName::new("a", "first"), LocalId(1), request);
        assert_eq!(bound(&mut binder), Vec::<String>::new(), "the second is not ready");
        binder
    }

    /// Pods whose binds are ordered by the next step.
    fn bound(binder: &mut Binder) -> Vec<String> {
        binder.step(Timestamp { nanos: 0 });
        let orders = binder.take_orders().into_iter();
        let bound = orders.filter_map(|order| match order {
            Order::Write { pod, write: BindStep::Bind { .. }, .. } => Some(pod.name.to_string()),
            _ => None,
        });
        bound.collect()
    }

    #[test]
    fn member_that_another_process_placed_completes_the_gang() {
        let mut binder = binder();
        binder.apply(&pod("second", "2", Some("n")));
        assert_eq!(bound(&mut binder), ["first"]);
    }

    #[test]
    fn other_changes_of_a_member_make_no_bind_of_its_gang_due() {
        let mut binder = binder();
        binder.apply(&pod("second", "2", None));
        let own = Item::Pod(ObjectName::new("a", "second"));
        assert_eq!(binder.facts.take_touched().into_iter().collect::<Vec<_>>(), [own]);
    }
}
