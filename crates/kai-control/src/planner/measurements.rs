//! What is measured: metrics, and past usage of queues, which a plan reads again.

use kai_core::fairness::Amounts;
use kai_core::input::{Delta, Object, ObjectKey, UsageSpec};
use kai_core::time::{Span, Timestamp};
use kai_settings::planner::Settings;
use kai_settings::usage::Source;

use crate::metrics::Metrics;
use crate::orders::Order;
use crate::usage::Usages;
use crate::usage::history::History;
use crate::usage::store::{MOST_BYTES, Place, STORE_EVERY};

/// Metrics and past usage.
pub(super) struct Measurements {
    pub(super) metrics: Metrics,
    pub(super) usage: PastUsage,
}

/// Past usage of queues, from Prometheus or from our own record.
pub(super) struct PastUsage {
    /// Usage that the world has.
    applied: Usages,
    recorder: Option<Recorder>,
}

/// Our own record, and when it is sampled, applied and stored.
struct Recorder {
    history: History,
    place: Place,
    /// Time between two updates of the world.
    fetch_interval: Span,
    sample_at: Timestamp,
    apply_at: Timestamp,
    /// None: the record of an earlier process is not known yet.
    store_at: Option<Timestamp>,
}

/// What a sample requires.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sampled {
    /// The record is to be written.
    pub(super) store: Option<Order>,
    /// Usage that the world is to have.
    pub(super) usages: Option<Usages>,
}

impl PastUsage {
    pub(super) fn new(settings: &Settings) -> Self {
        let wanted = settings.usage.as_ref().filter(|_| settings.schedules);
        let own = wanted.filter(|usage| usage.source == Source::Recorder);
        let recorder = own.map(|usage| Recorder {
            history: History::new(usage.window.clone(), usage.half_life),
            place: Place::of(settings),
            fetch_interval: usage.fetch_interval,
            sample_at: Timestamp::default(),
            apply_at: Timestamp::default(),
            store_at: None,
        });
        Self { applied: Usages::new(), recorder }
    }

    /// When usage is sampled; none where it is not recorded.
    pub(super) fn sample_at(&self) -> Option<Timestamp> {
        self.recorder.as_ref().map(|recorder| recorder.sample_at)
    }

    /// Samples the usage of now.
    pub(super) fn sample(&mut self, now: Timestamp, capacity: Amounts, used: Usages) -> Sampled {
        let Some(recorder) = &mut self.recorder else { return Sampled::default() };
        recorder.history.look(now, capacity, used);
        recorder.sample_at = now.plus(recorder.history.step(now));
        let mut sampled = Sampled::default();
        if recorder.store_at.is_some_and(|due| due <= now) {
            recorder.store_at = Some(now.plus(STORE_EVERY));
            sampled.store = recorder.record();
        }
        if recorder.apply_at <= now {
            recorder.apply_at = now.plus(recorder.fetch_interval);
            sampled.usages = Some(recorder.history.usage(now));
        }
        sampled
    }

    /// The record at the end of the process; none while that of an earlier process is not known.
    pub(super) fn last_record(&self) -> Option<Order> {
        let recorder = self.recorder.as_ref()?;
        recorder.store_at.and_then(|_| recorder.record())
    }

    /// Continues the record of an earlier process, where there is one.
    pub(super) fn restore(&mut self, text: Option<&str>, now: Timestamp) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(Err(why)) = text.map(|text| recorder.history.restore(text)) {
            let name = &recorder.place.name;
            tracing::warn!(name, why, "the record of past usage is no record");
        }
        recorder.store_at = Some(now.plus(STORE_EVERY));
        recorder.apply_at = Timestamp::default();
    }

    /// The changes that give the world this usage.
    pub(super) fn set(&mut self, usages: &Usages) -> Vec<Delta> {
        let gone = self.applied.keys().filter(|queue| !usages.contains_key(*queue));
        let gone = gone.map(|queue| Delta::Remove(ObjectKey::Usage(queue.clone())));
        let changed =
            usages.iter().filter(|(queue, usage)| self.applied.get(*queue) != Some(usage));
        let changed = changed.map(|(queue, usage)| {
            Delta::Set(Object::Usage(UsageSpec { queue: queue.clone(), usage: *usage }))
        });
        let deltas = gone.chain(changed).collect();
        self.applied.clone_from(usages);
        deltas
    }
}

impl Recorder {
    fn record(&self) -> Option<Order> {
        let text = self.history.text(MOST_BYTES)?;
        Some(Order::StoreUsage(self.place.clone(), text))
    }
}

#[cfg(test)]
mod tests {
    use kai_settings::usage::UsageSettings;
    use kai_settings::usage::window::Window;
    use kai_translate::time::seconds;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: second * 1_000_000_000 }
    }

    fn usages(queues: &[(&str, f64)]) -> Usages {
        let amounts = |share: f64| Amounts::from_fn(|_| share);
        queues.iter().map(|(queue, share)| ((*queue).into(), amounts(*share))).collect()
    }

    #[test]
    fn only_changed_usage_reaches_the_world() {
        let mut past = PastUsage { applied: Usages::new(), recorder: None };
        assert_eq!(past.set(&usages(&[("a", 0.5), ("b", 0.5)])).len(), 2);
        assert!(past.set(&usages(&[("a", 0.5), ("b", 0.5)])).is_empty());
        let deltas = past.set(&usages(&[("a", 0.25)]));
        assert!(matches!(&deltas[0], Delta::Remove(ObjectKey::Usage(queue)) if **queue == *"b"));
        assert!(matches!(&deltas[1], Delta::Set(Object::Usage(spec)) if *spec.queue == *"a"));
        assert_eq!(deltas.len(), 2);
    }

    #[test]
    fn a_record_is_stored_only_after_the_earlier_one_is_known() {
        let usage = UsageSettings {
            source: Source::Recorder,
            window: Window::Sliding(seconds(3600)),
            half_life: None,
            fetch_interval: seconds(60),
            staleness: seconds(300),
            wait: Span::ZERO,
        };
        let settings = Settings { usage: Some(usage), ..Settings::default() };
        let mut past = PastUsage::new(&settings);
        assert_eq!(past.sample_at(), Some(Timestamp::default()));
        let capacity = Amounts::from_fn(|_| 8.0);
        let sampled = past.sample(at(1), capacity, usages(&[("a", 4.0)]));
        assert!(sampled.store.is_none() && sampled.usages.is_some());
        assert!(past.last_record().is_none());
        past.restore(None, at(2));
        assert!(past.last_record().is_some());
        let sampled = past.sample(at(2).plus(STORE_EVERY), capacity, usages(&[("a", 4.0)]));
        assert!(sampled.store.is_some());
    }

    #[test]
    fn without_a_recorder_nothing_is_sampled() {
        let mut past = PastUsage::new(&Settings::default());
        assert_eq!(past.sample_at(), None);
        let sampled = past.sample(at(1), Amounts::from_fn(|_| 8.0), Usages::new());
        assert_eq!(sampled, Sampled::default());
    }
}
