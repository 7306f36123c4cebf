//! Bind requests that live in this process: its scheduler hands them to its binder, and the API server never sees them.
//! Nothing depends on them after a crash: reservation pods, labels and config maps show how far a bind came, the scheduler
//! plans the pod anew, and the next attempt writes over what the last one left.

use kai_api::BindRequest;
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;

use super::attempt::Outcome;
use super::request::{LocalId, Request, RequestId};
use super::{Binder, DeviceKey};

impl Binder {
    /// Takes a bind over that the scheduler of this process decided. An object that was observed meanwhile has precedence: the
    /// scheduler, which observed it too, withdraws its own.
    pub(super) fn request_bind(&mut self, name: ObjectName, id: LocalId, request: BindRequest) {
        let request = Request::local(id, request);
        if self.facts.requests_of_pod(&request.pod).next().is_none() {
            self.facts.replace_request(name.clone(), Some(request));
            self.handed_over.push(name);
        }
    }

    /// Begins the binds that were handed over, in the order of the plan: what is due is otherwise looked at by name.
    pub(super) fn look_at_handed_over(&mut self, now: Timestamp) {
        for name in std::mem::take(&mut self.handed_over) {
            let request = self.facts.request(&name);
            let devices: Vec<DeviceKey> = request.into_iter().flat_map(Request::devices).collect();
            for device in devices {
                self.look_at_device(&device, now);
            }
            self.look_at_request(&name, now);
        }
    }

    /// The scheduler of this process wants the bind no more. A write that is under way ends first.
    pub(super) fn withdraw_bind(&mut self, name: &ObjectName, id: LocalId) {
        let id = RequestId::Local(id);
        if self.facts.request(name).is_some_and(|known| known.id == id) {
            self.facts.replace_request(name.clone(), None);
        }
    }

    /// Forgets all requests of this process.
    pub(super) fn drop_local_requests(&mut self) {
        self.handed_over.clear();
        let local = self.facts.requests().filter(|(_, request)| request.is_local());
        let names: Vec<ObjectName> = local.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.facts.replace_request(name, None);
        }
    }

    /// A request of this process ended: this is reported to the scheduler, and nothing is kept of it. Its pod shows the rest.
    pub(super) fn end_local(&mut self, name: &ObjectName, request: &Request, outcome: &Outcome) {
        self.report_end(request, outcome);
        self.facts.replace_request(name.clone(), None);
    }
}
