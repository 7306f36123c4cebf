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
