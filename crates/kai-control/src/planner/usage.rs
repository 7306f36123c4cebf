//! Past usage into the world, and what is used now into the record of it.

use kai_core::fairness::{Amounts, QueueResource};
use kai_core::input::{Delta, Object, ObjectKey, UsageSpec};
use kai_core::time::{Span, Timestamp};
use kai_settings::usage::Source;

use super::{Planner, Settings};
use crate::orders::Order;
use crate::usage::Usages;
use crate::usage::history::History;
use crate::usage::store::{MOST_BYTES, Place, STORE_EVERY};

/// What is known of past usage.
pub(super) struct PastUsage {
    /// What the world was told.
    told: Usages,
    recorder: Option<Recorder>,
}

/// Our own record, and when something is done with it.
struct Recorder {
    history: History,
    place: Place,
    /// Time between two looks of the planner at the record.
    fetch_interval: Span,
    look_at: Timestamp,
    tell_at: Timestamp,
    /// None: what an earlier process wrote is not known yet.
    store_at: Option<Timestamp>,
}

impl PastUsage {
    pub(super) fn new(settings: &Settings) -> Self {
        let wanted = settings.usage.as_ref().filter(|_| settings.schedules);
        let own = wanted.filter(|usage| usage.source == Source::Recorder);
        let recorder = own.map(|usage| Recorder {
            history: History::new(usage.window.clone(), usage.half_life),
            place: Place::of(settings),
            fetch_interval: usage.fetch_interval,
            look_at: Timestamp::default(),
            tell_at: Timestamp::default(),
            store_at: None,
        });
        Self { told: Usages::new(), recorder }
    }
}

impl Planner {
    /// When what is used is looked at.
    pub fn record_at(&self) -> Option<Timestamp> {
        let recorder = self.usage.recorder.as_ref().filter(|_| self.is_ready())?;
        Some(recorder.look_at)
    }

    /// Looks at what is used, where it is time.
    pub fn record_usage(&mut self, now: Timestamp) {
        if self.record_at().is_none_or(|due| now < due) {
            return;
        }
        let (capacity, used) = (self.world.cluster_amounts(), self.used_now());
        let leads = self.schedules();
        let Some(recorder) = &mut self.usage.recorder else { return };
        recorder.history.look(now, capacity, used);
        recorder.look_at = now.plus(recorder.history.step(now));
        if recorder.store_at.is_some_and(|due| due <= now) {
            recorder.store_at = Some(now.plus(STORE_EVERY));
            self.orders.extend(recorder.record().filter(|_| leads));
        }
        if recorder.tell_at <= now {
            recorder.tell_at = now.plus(recorder.fetch_interval);
            let usages = recorder.history.usage(now);
            self.set_usage(usages);
        }
    }

    /// The record as it is at the end.
    pub fn last_record(&self) -> Option<Order> {
        let recorder = self.usage.recorder.as_ref()?;
        recorder.store_at.and_then(|_| recorder.record()).filter(|_| self.schedules())
    }

    /// Takes over what an earlier process recorded.
    pub(super) fn restore_usage(&mut self, text: Option<&str>, now: Timestamp) {
        let Some(recorder) = &mut self.usage.recorder else { return };
        if let Some(Err(why)) = text.map(|text| recorder.history.restore(text)) {
            tracing::warn!(
                name = recorder.place.name,
                why,
                "the record of past usage is no record"
            );
        }
        recorder.store_at = Some(now.plus(STORE_EVERY));
        recorder.tell_at = Timestamp::default();
    }

    /// Past usage, where it differs from what the world was told.
    pub(super) fn set_usage(&mut self, usages: Usages) {
        let gone: Vec<_> =
            self.usage.told.keys().filter(|queue| !usages.contains_key(*queue)).cloned().collect();
        for queue in gone {
            self.tell(Delta::Remove(ObjectKey::Usage(queue)));
        }
        for (queue, usage) in &usages {
            if self.usage.told.get(queue) != Some(usage) {
                let spec = UsageSpec { queue: queue.clone(), usage: *usage };
                self.tell(Delta::Set(Object::Usage(spec)));
            }
        }
        self.metrics.note_usage(&usages);
        self.usage.told = usages;
    }

    /// What every queue has, with all below it.
    fn used_now(&self) -> Usages {
        let accounts = self.statuses.accounts();
        let used = |queue: &str| {
            let allocated = accounts.usage(queue).allocated;
            Amounts::from_fn(|resource: QueueResource| allocated.in_planner_units(resource))
        };
        accounts.queues().map(|queue| (queue.name.clone(), used(&queue.name))).collect()
    }
}

impl Recorder {
    fn record(&self) -> Option<Order> {
        let text = self.history.text(MOST_BYTES)?;
        Some(Order::StoreUsage(self.place.clone(), text))
    }
}
