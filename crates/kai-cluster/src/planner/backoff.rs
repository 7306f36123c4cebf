//! Pods that are left alone for a while: their bind failed, or they may not be evicted.

use std::collections::BTreeMap;

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

const FIRST: Span = seconds(1);
const LONGEST: Span = seconds(60);

/// What a pod waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// To be bound again.
    Bind,
    /// To be evicted again.
    Eviction,
}

#[derive(Clone, Debug)]
struct Entry {
    uid: Text,
    failures: u32,
    /// None: the wait is over, the count of failures is kept.
    until: Option<Timestamp>,
}

/// Pods that are left alone for a while.
#[derive(Clone, Debug, Default)]
pub struct Backoffs {
    entries: BTreeMap<(ObjectName, Wait), Entry>,
}

impl Backoffs {
    /// A pod failed: it is left alone, longer with every failure.
    pub fn begin(&mut self, pod: &ObjectName, uid: &Text, wait: Wait, now: Timestamp) {
        let key = (pod.clone(), wait);
        let known = self.entries.get(&key).filter(|entry| entry.uid == *uid);
        let failures = known.map_or(0, |entry| entry.failures) + 1;
        let nanos = FIRST.nanos.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST.nanos);
        let until = Some(now.plus(Span { nanos }));
        self.entries.insert(key, Entry { uid: uid.clone(), failures, until });
    }

    /// The bind of a pod went well.
    pub fn clear_bind(&mut self, pod: &ObjectName) {
        self.entries.remove(&(pod.clone(), Wait::Bind));
    }

    /// A pod is gone, or its bind went well.
    pub fn clear(&mut self, pod: &ObjectName) {
        for wait in [Wait::Bind, Wait::Eviction] {
            self.entries.remove(&(pod.clone(), wait));
        }
    }

    /// Is the pod of this UID left alone?
    pub fn holds(&self, pod: &ObjectName, uid: &Text, wait: Wait) -> bool {
        let entry = self.entries.get(&(pod.clone(), wait));
        entry.is_some_and(|entry| entry.uid == *uid && entry.until.is_some())
    }

    /// When the next wait ends.
    pub fn next(&self) -> Option<Timestamp> {
        self.entries.values().filter_map(|entry| entry.until).min()
    }

    /// Ends the waits whose time has come.
    pub fn expire(&mut self, now: Timestamp) -> Vec<ObjectName> {
        let mut pods = Vec::new();
        for ((pod, _), entry) in &mut self.entries {
            if entry.until.is_some_and(|until| until <= now) {
                entry.until = None;
                pods.push(pod.clone());
            }
        }
        pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: second * 1_000_000_000 }
    }

    #[test]
    fn waits_grow_and_end() {
        let (pod, uid): (ObjectName, Text) = (ObjectName::new("a", "p"), "u".into());
        let mut backoffs = Backoffs::default();
        backoffs.begin(&pod, &uid, Wait::Bind, at(0));
        assert!(backoffs.holds(&pod, &uid, Wait::Bind));
        assert!(!backoffs.holds(&pod, &uid, Wait::Eviction));
        assert!(!backoffs.holds(&pod, &"other".into(), Wait::Bind));
        assert_eq!(backoffs.next(), Some(at(1)));
        assert_eq!(backoffs.expire(at(1)), std::slice::from_ref(&pod));
        assert!(!backoffs.holds(&pod, &uid, Wait::Bind));
        assert_eq!(backoffs.next(), None);
        backoffs.begin(&pod, &uid, Wait::Bind, at(1));
        assert_eq!(backoffs.next(), Some(at(3)));
        for _ in 0..40 {
            backoffs.begin(&pod, &uid, Wait::Bind, at(3));
        }
        assert_eq!(backoffs.next(), Some(at(63)));
        backoffs.begin(&pod, &"re-created".into(), Wait::Bind, at(3));
        assert_eq!(backoffs.next(), Some(at(4)));
        backoffs.clear(&pod);
        assert_eq!(backoffs.next(), None);
    }
}
