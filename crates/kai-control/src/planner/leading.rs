//! Which of our functions act. Those that do not follow the cluster all the same, so that they take over warm.

use kai_api::function::Function;
use kai_client::lease::{Leading, Turn};
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;
use kai_settings::status::Duties;

use super::pods::Membership;
use super::{Planner, Publish, Settings};
use crate::orders::Order;

impl Planner {
    /// A function begins or ceases to act.
    pub fn take_turn(&mut self, turn: Turn, now: Timestamp) {
        let Turn { function, leads } = turn;
        if leads {
            self.leading.insert(function);
        } else {
            self.leading.remove(&function);
        }
        self.statuses.set_duties(duties(&self.settings, &self.leading), now);
        match function {
            Function::Scheduler if leads => self.begin_scheduling(),
            Function::Scheduler => self.cancel_evictions(),
            Function::PodGrouper if leads && self.is_ready() => self.begin_grouping(),
            _ => {}
        }
    }

    /// Plans are made and carried out.
    pub(super) fn schedules(&self) -> bool {
        self.settings.schedules && self.leading.contains(&Function::Scheduler)
    }

    /// Groups are written.
    pub(super) fn groups_pods(&self) -> bool {
        self.settings.grouper.is_some() && self.leading.contains(&Function::PodGrouper)
    }

    fn begin_scheduling(&mut self) {
        self.dirty = true;
        let requests: Vec<ObjectName> = self.bind_requests.keys().cloned().collect();
        for request in requests {
            self.tell_bind_request(&request);
        }
    }

    fn begin_grouping(&mut self) {
        self.group_all();
        if self.settings.publish != Publish::Always {
            return;
        }
        for entry in self.pods.values_mut() {
            if let Membership::Own { plan, published: published @ false } = &mut entry.group {
                *published = true;
                self.orders.push(Order::Publish(Box::new(entry.view.clone()), plan.clone()));
            }
        }
    }
}

/// What those who lead have to tell.
pub(super) fn duties(settings: &Settings, leading: &Leading) -> Duties {
    let wanted = settings.status.duties;
    Duties {
        verdicts: wanted.verdicts && leading.contains(&Function::Scheduler),
        groups: wanted.groups && leading.contains(&Function::PodGroupController),
        queues: wanted.queues && leading.contains(&Function::QueueController),
    }
}
