//! Pods that are left alone for a while: their bind failed, or they may not be evicted; and nodes on which binds failed.

use std::collections::BTreeMap;

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

const FIRST: Span = seconds(1);
const LONGEST: Span = seconds(60);
/// A pod whose binds keep failing, wherever, is left alone for this long at most.
const LONGEST_AFTER_BINDS: Span = seconds(300);
/// A pod whose bind the API server could not take just now is left alone for this long at most.
const LONGEST_AFTER_INTERRUPTIONS: Span = seconds(8);
/// So many failed binds of a pod in a row may be bad luck with nodes; more are a lasting failure.
const BAD_LUCK: u32 = 3;

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
    /// Binds in a row that the API server could not take; they say nothing about the pod or the node.
    interruptions: u32,
    /// None: the wait is over, the count of failures is kept.
    until: Option<Timestamp>,
}

/// A node on which binds of a pod failed.
#[derive(Clone, Debug)]
struct Avoided {
    uid: Text,
    reason: String,
    /// How often in a row, for this reason.
    failures: u32,
    /// None: the pod may go there again, the count of failures is kept.
    until: Option<Timestamp>,
}

/// A bind that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedBind<'a> {
    pub(super) node: &'a Text,
    pub(super) reason: &'a str,
    /// The API server could not take the bind, which says nothing about pod and node.
    pub(super) is_interrupted: bool,
    /// The rest of the gang needs the pod, and no failed bind request is in the way of the next bind.
    pub(super) may_be_forgiven: bool,
}

/// Pods that are left alone for a while, and nodes that they avoid.
#[derive(Clone, Debug, Default)]
pub struct Backoffs {
    entries: BTreeMap<(ObjectName, Wait), Entry>,
    avoided: BTreeMap<ObjectName, BTreeMap<Text, Avoided>>,
}

/// One second, doubled with every failure, a minute at most.
fn delay(failures: u32) -> Span {
    let nanos = FIRST.nanos.saturating_mul(1 << failures.saturating_sub(1).min(16));
    Span { nanos: nanos.min(LONGEST.nanos) }
}

/// One second for the first failures of a pod in a row, then doubled with every failure, five minutes at most.
fn delay_after_binds(failures: u32) -> Span {
    let doublings = failures.saturating_sub(BAD_LUCK).min(16);
    let nanos = FIRST.nanos.saturating_mul(1 << doublings);
    Span { nanos: nanos.min(LONGEST_AFTER_BINDS.nanos) }
}

impl Backoffs {
    /// A pod may not be evicted now: it is left alone, longer with every failure.
    pub fn eviction_refused(&mut self, pod: &ObjectName, uid: &Text, now: Timestamp) {
        let key = (pod.clone(), Wait::Eviction);
        let known = self.entries.get(&key).filter(|entry| entry.uid == *uid);
        let failures = known.map_or(0, |entry| entry.failures) + 1;
        let until = Some(now.plus(delay(failures)));
        self.entries.insert(key, Entry { uid: uid.clone(), failures, interruptions: 0, until });
    }

    /// Keeps a pod out of the next plans for a while, and longer off the node where its bind failed.
    pub(super) fn record_failed_bind(
        &mut self,
        pod: &ObjectName,
        uid: &Text,
        bind: &FailedBind<'_>,
        now: Timestamp,
    ) {
        let FailedBind { node, reason, is_interrupted, may_be_forgiven } = *bind;
        if may_be_forgiven && self.forgive_first_bind(pod, uid, node, reason) {
            // It may be bound again at once.
        } else if is_interrupted {
            self.bind_interrupted(pod, uid, now);
        } else {
            self.bind_failed(pod, uid, node, reason, now);
        }
    }

    /// A bind failed: the pod is left alone for a second, longer once binds failed several times in a row, and avoids the
    /// node, longer with every failure there for the same reason.
    pub fn bind_failed(
        &mut self,
        pod: &ObjectName,
        uid: &Text,
        node: &Text,
        reason: &str,
        now: Timestamp,
    ) {
        self.count_failed_bind(pod, uid, node, reason, Some(now));
    }

    /// The first bind of a pod failed that the rest of its gang needs: it may be bound again at once, wherever. False
    /// where it is not the first: the pod is left alone like any other.
    pub fn forgive_first_bind(
        &mut self,
        pod: &ObjectName,
        uid: &Text,
        node: &Text,
        reason: &str,
    ) -> bool {
        let is_first = !self.has_failed_bind(pod, uid);
        if is_first {
            self.count_failed_bind(pod, uid, node, reason, None);
        }
        is_first
    }

    /// Counts a failure; without a moment the pod does not wait.
    fn count_failed_bind(
        &mut self,
        pod: &ObjectName,
        uid: &Text,
        node: &Text,
        reason: &str,
        now: Option<Timestamp>,
    ) {
        let key = (pod.clone(), Wait::Bind);
        let known = self.entries.get(&key).filter(|entry| entry.uid == *uid);
        let failures = known.map_or(0, |entry| entry.failures) + 1;
        let until = now.map(|now| now.plus(delay_after_binds(failures)));
        self.entries.insert(key, Entry { uid: uid.clone(), failures, interruptions: 0, until });
        let nodes = self.avoided.entry(pod.clone()).or_default();
        nodes.retain(|_, avoided| avoided.uid == *uid);
        let known = nodes.get(node).filter(|avoided| avoided.reason == reason);
        let failures = known.map_or(0, |avoided| avoided.failures) + 1;
        let until = now.map(|now| now.plus(delay(failures)));
        let avoided = Avoided { uid: uid.clone(), reason: reason.to_owned(), failures, until };
        nodes.insert(node.clone(), avoided);
    }

    /// The API server could not take the bind of a pod, or the removal of its failed bind request, just now: the pod is left
    /// alone for a moment, and avoids no node.
    pub fn bind_interrupted(&mut self, pod: &ObjectName, uid: &Text, now: Timestamp) {
        let key = (pod.clone(), Wait::Bind);
        let known = self.entries.get(&key).filter(|entry| entry.uid == *uid);
        let (failures, interruptions) =
            known.map_or((0, 0), |entry| (entry.failures, entry.interruptions));
        let interruptions = interruptions + 1;
        let pause = delay(interruptions).min(LONGEST_AFTER_INTERRUPTIONS);
        let until = Some(now.plus(pause));
        self.entries.insert(key, Entry { uid: uid.clone(), failures, interruptions, until });
    }

    /// The latest bind of the pod of this UID failed, whether it is left alone or not.
    pub fn has_failed_bind(&self, pod: &ObjectName, uid: &Text) -> bool {
        let entry = self.entries.get(&(pod.clone(), Wait::Bind));
        entry.is_some_and(|entry| entry.uid == *uid)
    }

    /// Pods whose latest bind failed, with their UIDs.
    pub fn failed_binds(&self) -> impl Iterator<Item = (&ObjectName, &Text)> {
        let binds = self.entries.iter().filter(|((_, wait), _)| *wait == Wait::Bind);
        binds.map(|((pod, _), entry)| (pod, &entry.uid))
    }

    /// Nodes that the pod of this UID avoids.
    pub fn avoided(&self, pod: &ObjectName, uid: &Text) -> Vec<Text> {
        let nodes = self.avoided.get(pod).into_iter().flatten();
        let now = nodes.filter(|(_, avoided)| avoided.uid == *uid && avoided.until.is_some());
        now.map(|(node, _)| node.clone()).collect()
    }

    /// The bind of a pod went well.
    pub fn clear_bind(&mut self, pod: &ObjectName) {
        self.entries.remove(&(pod.clone(), Wait::Bind));
        self.avoided.remove(pod);
    }

    /// A pod is gone.
    pub fn clear(&mut self, pod: &ObjectName) {
        self.clear_bind(pod);
        self.entries.remove(&(pod.clone(), Wait::Eviction));
    }

    /// Until when the pod of this UID is left alone; none: it is not.
    pub fn until(&self, pod: &ObjectName, uid: &Text, wait: Wait) -> Option<Timestamp> {
        let entry = self.entries.get(&(pod.clone(), wait));
        entry.filter(|entry| entry.uid == *uid).and_then(|entry| entry.until)
    }

    /// When the next wait ends.
    pub fn next(&self) -> Option<Timestamp> {
        let avoided = self.avoided.values().flatten().filter_map(|(_, avoided)| avoided.until);
        self.entries.values().filter_map(|entry| entry.until).chain(avoided).min()
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
        for (pod, nodes) in &mut self.avoided {
            for avoided in nodes.values_mut() {
                if avoided.until.is_some_and(|until| until <= now) {
                    avoided.until = None;
                    pods.push(pod.clone());
                }
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
    fn the_first_failed_bind_of_a_gang_is_forgiven_and_an_interruption_avoids_no_node() {
        let (pod, uid, node): (ObjectName, Text, Text) =
            (ObjectName::new("a", "p"), "u".into(), "n1".into());
        let bind = FailedBind {
            node: &node,
            reason: "no device",
            is_interrupted: false,
            may_be_forgiven: true,
        };
        let mut backoffs = Backoffs::default();
        backoffs.record_failed_bind(&pod, &uid, &bind, at(0));
        assert_eq!(backoffs.until(&pod, &uid, Wait::Bind), None);
        backoffs.record_failed_bind(&pod, &uid, &bind, at(0));
        assert_eq!(backoffs.until(&pod, &uid, Wait::Bind), Some(at(1)));
        assert_eq!(backoffs.avoided(&pod, &uid), std::slice::from_ref(&node));
        let other = ObjectName::new("a", "q");
        let bind = FailedBind { is_interrupted: true, may_be_forgiven: false, ..bind };
        backoffs.record_failed_bind(&other, &uid, &bind, at(0));
        assert_eq!(backoffs.until(&other, &uid, Wait::Bind), Some(at(1)));
        assert!(backoffs.avoided(&other, &uid).is_empty());
    }

    #[test]
    fn waits_grow_and_end() {
        let (pod, uid): (ObjectName, Text) = (ObjectName::new("a", "p"), "u".into());
        let mut backoffs = Backoffs::default();
        backoffs.eviction_refused(&pod, &uid, at(0));
        assert!(backoffs.until(&pod, &uid, Wait::Eviction).is_some());
        assert!(backoffs.until(&pod, &uid, Wait::Bind).is_none());
        assert!(backoffs.until(&pod, &"other".into(), Wait::Eviction).is_none());
        assert_eq!(backoffs.next(), Some(at(1)));
        assert_eq!(backoffs.expire(at(1)), std::slice::from_ref(&pod));
        assert!(backoffs.until(&pod, &uid, Wait::Eviction).is_none());
        assert_eq!(backoffs.next(), None);
        backoffs.eviction_refused(&pod, &uid, at(1));
        assert_eq!(backoffs.next(), Some(at(3)));
        for _ in 0..40 {
            backoffs.eviction_refused(&pod, &uid, at(3));
        }
        assert_eq!(backoffs.next(), Some(at(63)));
        backoffs.eviction_refused(&pod, &"re-created".into(), at(3));
        assert_eq!(backoffs.next(), Some(at(4)));
        backoffs.clear(&pod);
        assert_eq!(backoffs.next(), None);
    }

    #[test]
    fn a_busy_api_server_delays_a_bind_for_seconds() {
        let (pod, uid): (ObjectName, Text) = (ObjectName::new("a", "p"), "u".into());
        let mut backoffs = Backoffs::default();
        for _ in 0..20 {
            backoffs.bind_interrupted(&pod, &uid, at(0));
        }
        assert_eq!(backoffs.next(), Some(at(8)));
        assert!(backoffs.avoided(&pod, &uid).is_empty());
        backoffs.bind_failed(&pod, &uid, &"n".into(), "refused", at(10));
        assert_eq!(backoffs.next(), Some(at(11)), "interruptions count as no failure");
    }

    #[test]
    fn a_node_is_avoided_longer_when_the_same_happens_there_again() {
        let (pod, uid): (ObjectName, Text) = (ObjectName::new("a", "p"), "u".into());
        let mut backoffs = Backoffs::default();
        backoffs.bind_failed(&pod, &uid, &"n".into(), "refused", at(0));
        backoffs.expire(at(1));
        assert!(backoffs.avoided(&pod, &uid).is_empty());
        backoffs.bind_failed(&pod, &uid, &"n".into(), "refused", at(1));
        backoffs.expire(at(2));
        assert!(backoffs.until(&pod, &uid, Wait::Bind).is_none(), "it may go elsewhere");
        assert_eq!(backoffs.avoided(&pod, &uid), [Text::from("n")]);
        assert_eq!(backoffs.next(), Some(at(3)));
        backoffs.bind_failed(&pod, &uid, &"n".into(), "another reason", at(2));
        assert_eq!(backoffs.next(), Some(at(3)), "counted from the start");
        backoffs.bind_failed(&pod, &"re-created".into(), &"m".into(), "refused", at(2));
        assert!(backoffs.avoided(&pod, &uid).is_empty());
        backoffs.clear_bind(&pod);
        assert_eq!(backoffs.next(), None);
    }

    #[test]
    fn binds_that_keep_failing_on_any_node_are_tried_every_few_minutes() {
        let (pod, uid): (ObjectName, Text) = (ObjectName::new("a", "p"), "u".into());
        let mut backoffs = Backoffs::default();
        let mut waits = Vec::new();
        for number in 0..14 {
            backoffs.bind_failed(&pod, &uid, &format!("n{number}").into(), "lasting", at(0));
            let entry = &backoffs.entries[&(pod.clone(), Wait::Bind)];
            waits.extend(entry.until.map(|until| until.since(at(0)).as_seconds()));
        }
        assert_eq!(
            waits,
            [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0, 300.0]
        );
        backoffs.clear_bind(&pod);
        backoffs.bind_failed(&pod, &uid, &"n".into(), "lasting", at(0));
        assert_eq!(backoffs.next(), Some(at(1)), "a bind that went well ends the row");
    }

    #[test]
    fn one_failure_is_forgiven_where_a_gang_waits() {
        let (pod, uid): (ObjectName, Text) = (ObjectName::new("a", "p"), "u".into());
        let mut backoffs = Backoffs::default();
        assert!(backoffs.forgive_first_bind(&pod, &uid, &"n".into(), "refused"));
        assert!(backoffs.has_failed_bind(&pod, &uid) && backoffs.next().is_none());
        assert!(backoffs.avoided(&pod, &uid).is_empty());
        assert!(!backoffs.forgive_first_bind(&pod, &uid, &"n".into(), "refused"), "only one");
        backoffs.bind_failed(&pod, &uid, &"n".into(), "refused", at(0));
        assert!(backoffs.until(&pod, &uid, Wait::Bind).is_some());
        backoffs.expire(at(1));
        assert_eq!(backoffs.avoided(&pod, &uid), [Text::from("n")], "the second of its kind there");
        assert!(backoffs.forgive_first_bind(&pod, &"re-created".into(), &"n".into(), "refused"));
    }
}
