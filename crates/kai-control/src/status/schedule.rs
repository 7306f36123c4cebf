//! When which status is looked at again.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_settings::status::SETTLE;
use kai_translate::time::seconds;

/// The message of a pending pod changes with every other pod: it is not written more often than this.
const POD_PAUSE: Span = seconds(10);

/// An object whose status is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The condition of a pod that waits.
    Pod(ObjectName),
    /// The status of a pod group.
    Group(ObjectName),
    /// The status of a queue.
    Queue(Text),
}

impl Target {
    /// How long it is left alone after a write.
    fn pause(&self) -> Span {
        match self {
            Self::Pod(_) => POD_PAUSE,
            Self::Group(_) | Self::Queue(_) => SETTLE,
        }
    }
}

/// When which status is looked at again.
#[derive(Debug)]
pub struct Schedule {
    settle: Span,
    at: BTreeMap<Target, Timestamp>,
    order: BTreeSet<(Timestamp, Target)>,
    /// Written lately: not before this moment.
    paused: BTreeMap<Target, Timestamp>,
    /// The same by moment, so that a write does not search all pauses for those that are over.
    pause_ends: BTreeSet<(Timestamp, Target)>,
}

impl Schedule {
    /// Statuses are looked at this long after their first change.
    pub fn new(settle: Span) -> Self {
        Self {
            settle,
            at: BTreeMap::new(),
            order: BTreeSet::new(),
            paused: BTreeMap::new(),
            pause_ends: BTreeSet::new(),
        }
    }

    /// Something about it changed. Changes that follow do not put it off.
    pub fn request(&mut self, target: Target, now: Timestamp) {
        self.request_after(target, self.settle, now);
    }

    /// Looks at it again after a while.
    pub fn request_after(&mut self, target: Target, span: Span, now: Timestamp) {
        if self.at.contains_key(&target) {
            return;
        }
        let paused = self.paused.get(&target).copied();
        let moment = now.plus(span).max(paused.unwrap_or(now));
        self.order.insert((moment, target.clone()));
        self.at.insert(target, moment);
    }

    /// It is not to be looked at.
    pub fn drop(&mut self, target: &Target) {
        if let Some(moment) = self.at.remove(target) {
            self.order.remove(&(moment, target.clone()));
        }
    }

    /// The next one whose time has come.
    pub fn take(&mut self, now: Timestamp) -> Option<Target> {
        let (moment, _) = self.order.first()?;
        if *moment > now {
            return None;
        }
        let (_, target) = self.order.pop_first()?;
        self.at.remove(&target);
        Some(target)
    }

    pub fn wrote(&mut self, target: Target, now: Timestamp) {
        while self.pause_ends.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, over)) = self.pause_ends.pop_first() else { break };
            self.paused.remove(&over);
        }
        let until = now.plus(target.pause());
        if let Some(earlier) = self.paused.insert(target.clone(), until) {
            self.pause_ends.remove(&(earlier, target.clone()));
        }
        self.pause_ends.insert((until, target));
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(moment, _)| *moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: second * 1_000_000_000 }
    }

    #[test]
    fn pauses_that_are_over_are_forgotten() {
        let (pod, queue) = (Target::Pod(ObjectName::new("a", "p")), Target::Queue("q".into()));
        let mut schedule = Schedule::new(SETTLE);
        schedule.wrote(pod.clone(), at(0));
        schedule.wrote(queue.clone(), at(0));
        schedule.wrote(pod.clone(), at(5));
        assert_eq!(schedule.paused.keys().collect::<Vec<_>>(), [&pod], "the queue's is over");
        assert_eq!(schedule.pause_ends.len(), 1, "the later write of the pod counts");
        schedule.wrote(queue.clone(), at(15));
        assert_eq!(schedule.paused.keys().collect::<Vec<_>>(), [&queue]);
    }

    #[test]
    fn changes_settle_and_writes_pause() {
        let target = Target::Pod(ObjectName::new("a", "p"));
        let mut schedule = Schedule::new(SETTLE);
        schedule.request(target.clone(), at(0));
        schedule.request(target.clone(), at(5));
        assert_eq!(schedule.next(), Some(at(1)), "the first change counts");
        assert_eq!(schedule.take(at(0)), None);
        assert_eq!(schedule.take(at(1)), Some(target.clone()));
        schedule.wrote(target.clone(), at(1));
        schedule.request(target.clone(), at(2));
        assert_eq!(schedule.next(), Some(at(11)), "not at once again");
        schedule.drop(&target);
        assert_eq!(schedule.next(), None);
        let queue = Target::Queue("q".into());
        schedule.wrote(queue.clone(), at(20));
        schedule.request(queue, at(20));
        assert_eq!(schedule.next(), Some(at(21)));
    }
}
