//! A record of what queues used, kept by ourselves: amounts times time, in buckets that are few however long the window is.
//! Pure.

use std::collections::{BTreeMap, VecDeque};

use kai_core::fairness::{Amounts, QueueResource};
use kai_core::input::Text;
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;
use serde::{Deserialize, Serialize};

use super::Usages;
use kai_settings::usage::window::Window;

/// A window is recorded in about so many buckets.
const BUCKETS: i64 = 128;
/// After so many half-lives use does not count any more.
const LIVES: i64 = 16;
/// No bucket is shorter, and nothing is looked at more often.
const SHORTEST: Span = seconds(1);
/// Nothing is looked at less often.
const LONGEST_STEP: Span = seconds(60);

/// What was used in a stretch of time, in amounts times seconds.
#[derive(Clone, Debug, PartialEq)]
struct Bucket {
    from: Timestamp,
    until: Timestamp,
    capacity: Amounts,
    queues: BTreeMap<Text, Amounts>,
}

/// What is used at a moment.
struct Sample {
    at: Timestamp,
    capacity: Amounts,
    queues: Usages,
}

/// Usage of queues over time, in buckets that cover the window.
pub struct History {
    window: Window,
    half_life: Option<Span>,
    buckets: VecDeque<Bucket>,
    latest: Option<Sample>,
}

impl History {
    /// A history that no sample was added to.
    pub fn new(window: Window, half_life: Option<Span>) -> Self {
        Self { window, half_life, buckets: VecDeque::new(), latest: None }
    }

    /// How long a bucket is.
    fn width(&self, now: Timestamp) -> Span {
        let length = self.window.length(now);
        let lives = self.half_life.map_or(length.nanos, |life| life.nanos.saturating_mul(LIVES));
        Span { nanos: length.nanos.min(lives) / BUCKETS }.max(SHORTEST)
    }

    /// How long after a look the next one is due.
    pub fn step(&self, now: Timestamp) -> Span {
        self.width(now).min(LONGEST_STEP)
    }

    /// What is used from now on, and what there is. The sample before counts until now.
    pub fn look(&mut self, now: Timestamp, capacity: Amounts, queues: Usages) {
        if let Some(sample) = self.latest.take() {
            self.add(&sample, now);
        }
        self.latest = Some(Sample { at: now, capacity, queues });
        let earliest = self.earliest(now);
        while self.buckets.front().is_some_and(|bucket| bucket.until <= earliest) {
            self.buckets.pop_front();
        }
    }

    fn earliest(&self, now: Timestamp) -> Timestamp {
        let began = self.window.began(now);
        let lives = self.half_life.map(|life| life.nanos.saturating_mul(LIVES));
        lives.map_or(began, |lives| began.max(Timestamp { nanos: now.nanos - lives }))
    }

    /// Records that `sample` was so until `now`, bucket by bucket.
    fn add(&mut self, sample: &Sample, now: Timestamp) {
        let width = self.width(now).nanos;
        let mut from = sample.at;
        while from < now {
            if self.buckets.back().is_none_or(|last| last.until <= from) {
                let end = Timestamp { nanos: (from.nanos.div_euclid(width) + 1) * width };
                let (capacity, queues) = (Amounts::ZERO, BTreeMap::new());
                self.buckets.push_back(Bucket { from, until: end, capacity, queues });
            }
            let Some(bucket) = self.buckets.back_mut() else { return };
            let until = bucket.until.min(now);
            let time = until.since(from).as_seconds();
            bucket.capacity += times(sample.capacity, time);
            for (queue, amounts) in &sample.queues {
                if *amounts != Amounts::ZERO {
                    *bucket.queues.entry(queue.clone()).or_default() += times(*amounts, time);
                }
            }
            from = until;
        }
    }

    /// Share of what there was that each queue used, within the window.
    pub fn usage(&self, now: Timestamp) -> Usages {
        let began = self.window.began(now);
        let (mut capacity, mut used) = (Amounts::ZERO, Usages::new());
        for bucket in &self.buckets {
            let weight = self.weight(bucket, began, now);
            capacity += times(bucket.capacity, weight);
            for (queue, amounts) in &bucket.queues {
                *used.entry(queue.clone()).or_default() += times(*amounts, weight);
            }
        }
        let share = |used: &Amounts, resource: QueueResource| {
            let (used, all) = (used[resource], capacity[resource]);
            if all > 0.0 { rounded(used / all) } else { 0.0 }
        };
        let shares = used
            .into_iter()
            .map(|(queue, used)| (queue, Amounts::from_fn(|resource| share(&used, resource))));
        shares.filter(|(_, shares)| *shares != Amounts::ZERO).collect()
    }

    /// How much a bucket counts: less the older it is, and not where it is outside the window.
    fn weight(&self, bucket: &Bucket, began: Timestamp, now: Timestamp) -> f64 {
        let (from, until) = (bucket.from.max(began), bucket.until.min(now));
        let whole = bucket.until.min(now).since(bucket.from).as_seconds();
        let inside = until.since(from).as_seconds();
        if inside <= 0.0 || whole <= 0.0 {
            return 0.0;
        }
        let age = now.since(from).as_seconds() - inside / 2.0;
        let decay = self.half_life.map_or(1.0, |life| 0.5_f64.powf(age / life.as_seconds()));
        inside / whole * decay
    }

    /// The record as text of at most `most` bytes; where it is longer, neighbours become one.
    pub fn text(&self, most: usize) -> Option<String> {
        let mut buckets: Vec<Bucket> = self.buckets.iter().cloned().collect();
        if let (Some(bucket), Some(sample)) = (buckets.last_mut(), &self.latest) {
            bucket.until = bucket.until.min(sample.at); // what follows is not recorded yet
        }
        loop {
            let stored = Stored { buckets: buckets.iter().map(StoredBucket::of).collect() };
            let text = serde_json::to_string(&stored).ok()?;
            if text.len() <= most || buckets.len() < 2 {
                return (text.len() <= most).then_some(text);
            }
            buckets = buckets.chunks(2).filter_map(joined).collect();
        }
    }

    /// Takes over what an earlier process recorded before this one began.
    pub fn restore(&mut self, text: &str) -> Result<(), String> {
        let stored: Stored = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let first = self.buckets.front().map(|bucket| bucket.from);
        let began = self.latest.as_ref().map(|sample| sample.at);
        let ours = [first, began].into_iter().flatten().min();
        let before = |bucket: &Bucket| ours.is_none_or(|ours| bucket.until <= ours);
        let mut earlier: VecDeque<Bucket> =
            stored.buckets.into_iter().map(StoredBucket::bucket).filter(before).collect();
        earlier.append(&mut self.buckets);
        self.buckets = earlier;
        Ok(())
    }
}

fn joined(pair: &[Bucket]) -> Option<Bucket> {
    let mut all = pair.first()?.clone();
    for other in pair.iter().skip(1) {
        all.until = other.until;
        all.capacity += other.capacity;
        for (queue, amounts) in &other.queues {
            *all.queues.entry(queue.clone()).or_default() += *amounts;
        }
    }
    Some(all)
}

fn times(amounts: Amounts, factor: f64) -> Amounts {
    Amounts::from_fn(|resource| amounts[resource] * factor)
}

/// Six digits behind the point, so that a queue that uses the same all the time comes to rest.
fn rounded(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

#[derive(Serialize, Deserialize)]
struct Stored {
    buckets: Vec<StoredBucket>,
}

/// Milliseconds since 1970, and amounts of CPU, memory and GPUs times seconds.
#[derive(Serialize, Deserialize)]
struct StoredBucket {
    from: i64,
    until: i64,
    capacity: [f64; 3],
    queues: BTreeMap<String, [f64; 3]>,
}

const MILLI: i64 = 1_000_000;

impl StoredBucket {
    fn of(bucket: &Bucket) -> Self {
        let queues = bucket.queues.iter();
        Self {
            from: bucket.from.nanos / MILLI,
            until: bucket.until.nanos / MILLI,
            capacity: numbers(&bucket.capacity),
            queues: queues.map(|(name, used)| (name.to_string(), numbers(used))).collect(),
        }
    }

    fn bucket(self) -> Bucket {
        let moment = |millis: i64| Timestamp { nanos: millis.saturating_mul(MILLI) };
        let queues = self.queues.into_iter();
        Bucket {
            from: moment(self.from),
            until: moment(self.until),
            capacity: amounts(self.capacity),
            queues: queues.map(|(name, used)| (name.as_str().into(), amounts(used))).collect(),
        }
    }
}

/// A thousandth of anything is enough, and short.
fn numbers(amounts: &Amounts) -> [f64; 3] {
    QueueResource::ALL.map(|resource| (amounts[resource] * 1e3).round() / 1e3)
}

fn amounts([cpu, memory, gpu]: [f64; 3]) -> Amounts {
    Amounts::new(cpu, memory, gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::default().plus(seconds(1_767_225_600 + second))
    }

    fn gpus(queue: &str, count: f64) -> Usages {
        BTreeMap::from([(queue.into(), Amounts::new(0.0, 0.0, count))])
    }

    const ALL: Amounts = Amounts::new(1000.0, 1e9, 4.0);

    fn gpu_share(history: &History, queue: &str, second: i64) -> f64 {
        let usage = history.usage(at(second));
        usage.get(queue).map_or(0.0, |shares| shares[QueueResource::Gpu])
    }

    #[test]
    fn use_counts_within_the_window_only() {
        let mut history = History::new(Window::Sliding(seconds(100)), None);
        history.look(at(0), ALL, gpus("a", 4.0));
        history.look(at(50), ALL, gpus("b", 2.0));
        history.look(at(100), ALL, Usages::new());
        assert_eq!((gpu_share(&history, "a", 100), gpu_share(&history, "b", 100)), (0.5, 0.25));
        history.look(at(150), ALL, Usages::new());
        assert_eq!((gpu_share(&history, "a", 150), gpu_share(&history, "b", 150)), (0.0, 0.25));
        history.look(at(400), ALL, Usages::new());
        assert_eq!(history.usage(at(400)), Usages::new());
    }

    #[test]
    fn older_use_counts_less() {
        let mut history = History::new(Window::Sliding(seconds(1000)), Some(seconds(10)));
        for second in 0..=100 {
            let (queue, count) = if second < 90 { ("a", 4.0) } else { ("b", 4.0) };
            history.look(at(second), ALL, gpus(queue, count));
        }
        // The last half-life weighs as much as everything before it.
        let (a, b) = (gpu_share(&history, "a", 100), gpu_share(&history, "b", 100));
        assert!((a - 0.5).abs() < 0.01 && (b - 0.5).abs() < 0.01, "{a} {b}");
    }

    #[test]
    fn a_window_that_tumbles_forgets() {
        let window = Window::Tumbling { start: at(0), size: seconds(60) };
        let mut history = History::new(window, None);
        for second in 0..=59 {
            history.look(at(second), ALL, gpus("a", 4.0));
        }
        assert_eq!(gpu_share(&history, "a", 59), 1.0);
        history.look(at(61), ALL, gpus("b", 1.0));
        history.look(at(65), ALL, gpus("b", 1.0));
        assert!(gpu_share(&history, "b", 65) > 0.19, "{:?}", history.usage(at(65)));
        history.look(at(119), ALL, gpus("b", 1.0));
        assert!(gpu_share(&history, "a", 119) < 0.02, "{:?}", history.usage(at(119)));
    }

    #[test]
    fn a_record_survives_and_never_exceeds_its_size() {
        let new = || History::new(Window::Sliding(seconds(86_400)), None);
        let mut history = new();
        for minute in 0..=1440 {
            history.look(at(minute * 60), ALL, gpus(&format!("queue-{}", minute % 7), 4.0));
        }
        assert!(history.buckets.len() as i64 <= BUCKETS + 2, "{}", history.buckets.len());
        let whole = history.text(1 << 20).expect("it fits");
        let short = history.text(whole.len() / 3).expect("it fits");
        assert!(short.len() * 3 <= whole.len());
        for text in [&whole, &short] {
            let mut later = new();
            later.look(at(86_400), ALL, Usages::new());
            later.restore(text).expect("it can be read");
            later.look(at(86_460), ALL, Usages::new());
            let (was, is) = (history.usage(at(86_400)), later.usage(at(86_460)));
            for (queue, shares) in was {
                let gone = shares[QueueResource::Gpu] - is[&queue][QueueResource::Gpu];
                assert!(gone.abs() < 0.01, "{queue}: {gone}");
            }
        }
        assert!(new().restore("{").is_err());
        assert_eq!(history.text(10), None);
    }

    #[test]
    fn what_two_processes_recorded_counts_once() {
        let mut first = History::new(Window::Sliding(seconds(100)), None);
        first.look(at(0), ALL, gpus("a", 4.0));
        first.look(at(60), ALL, Usages::new());
        let text = first.text(1 << 20).expect("it fits");
        let mut second = History::new(Window::Sliding(seconds(100)), None);
        second.look(at(30), ALL, gpus("a", 4.0));
        second.look(at(60), ALL, Usages::new());
        second.restore(&text).expect("it can be read");
        assert_eq!(gpu_share(&second, "a", 60), 1.0);
        let total: f64 =
            second.buckets.iter().map(|bucket| bucket.capacity[QueueResource::Gpu]).sum();
        assert!((total - 240.0).abs() < 1e-6, "{total}");
    }
}
