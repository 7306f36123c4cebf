//! Reservation pods that were created and have not named their device yet: how many there may be. Kubelets start pods at a
//! limited rate; without a limit a burst of requests makes all reservations slow, and the last ones too slow.

use std::collections::BTreeMap;

use kai_core::input::Text;
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::DeviceKey;
use super::waiting_devices::WaitingDevices;

/// Unanswered reservations in the cluster.
const MOST_IN_ALL: usize = 256;
/// Unanswered reservations on one node.
const MOST_PER_NODE: usize = 4;
/// A reservation may take this many times as long as the slowest of late.
const TIMES_SLOWEST: i64 = 3;
/// A reservation may take this long at most, however slow others are.
const LONGEST_WAIT: Span = seconds(600);

/// Unanswered reservations, and devices that wait until there are fewer.
#[derive(Clone, Debug, Default)]
pub(super) struct ReservationLimits {
    /// Groups by node, and since when each is counted.
    unanswered: BTreeMap<Text, BTreeMap<Text, Timestamp>>,
    /// Sum of the above.
    number: usize,
    /// Devices that are not reserved yet.
    waiting: WaitingDevices,
    /// When a reservation of the node last named its device.
    answered_at: BTreeMap<Text, Timestamp>,
    /// How long the slowest answers of late took; every faster answer lowers it by an eighth.
    slowest: Span,
}

impl ReservationLimits {
    /// Counts a reservation that is to be made; false where it has to wait until there are fewer.
    pub(super) fn admit(&mut self, key: &DeviceKey, now: Timestamp) -> bool {
        if self.is_counted(key) {
            return true;
        }
        if self.number >= MOST_IN_ALL || !self.is_open(&key.node, 0) {
            self.waiting.push(key);
            self.waiting.set_open(&key.node, self.is_open(&key.node, 0));
            return false;
        }
        self.count(key, now);
        true
    }

    /// Counts a reservation that exists, whatever the limits say.
    pub(super) fn count(&mut self, key: &DeviceKey, now: Timestamp) {
        self.waiting.remove(key);
        let groups = self.unanswered.entry(key.node.clone()).or_default();
        if !groups.contains_key(&key.group) {
            groups.insert(key.group.clone(), now);
            self.number += 1;
        }
        self.waiting.set_open(&key.node, self.is_open(&key.node, 0));
    }

    /// The reservation named its device.
    pub(super) fn answered(&mut self, key: &DeviceKey, now: Timestamp) -> Vec<DeviceKey> {
        let groups = self.unanswered.get(&key.node);
        let Some(since) = groups.and_then(|groups| groups.get(&key.group)).copied() else {
            return Vec::new();
        };
        let lowered = self.slowest.nanos - self.slowest.nanos / 8;
        self.slowest = Span { nanos: lowered.max(now.since(since).nanos) };
        self.answered_at.insert(key.node.clone(), now);
        self.end(key)
    }

    /// The reservation is no longer unanswered, or is not needed. Devices that may be reserved now.
    pub(super) fn end(&mut self, key: &DeviceKey) -> Vec<DeviceKey> {
        self.waiting.remove(key);
        if let Some(groups) = self.unanswered.get_mut(&key.node) {
            self.number -= usize::from(groups.remove(&key.group).is_some());
            if groups.is_empty() {
                self.unanswered.remove(&key.node);
            }
        }
        self.waiting.set_open(&key.node, self.is_open(&key.node, 0));
        self.take_waiting()
    }

    /// Takes devices off the queue that may be reserved now; they are counted once they are requested again.
    fn take_waiting(&mut self) -> Vec<DeviceKey> {
        let mut taken: Vec<DeviceKey> = Vec::new();
        while self.number + taken.len() < MOST_IN_ALL {
            let Some(key) = self.waiting.pop() else { break };
            let node = key.node.clone();
            taken.push(key);
            let on_node = taken.iter().filter(|other| other.node == node).count();
            self.waiting.set_open(&node, self.is_open(&node, on_node));
        }
        taken
    }

    fn is_counted(&self, key: &DeviceKey) -> bool {
        self.unanswered.get(&key.node).is_some_and(|groups| groups.contains_key(&key.group))
    }

    /// Whether the node may have another unanswered reservation beside those counted and `more`.
    fn is_open(&self, node: &Text, more: usize) -> bool {
        self.unanswered.get(node).map_or(0, BTreeMap::len) + more < MOST_PER_NODE
    }

    /// Until when a reservation that exists since `since` may take to name its device: the wait counts anew with every
    /// answer from the same node, and is longer while others are slow, so that what would have succeeded a moment later
    /// is not reverted.
    pub(super) fn deadline(&self, node: &Text, since: Timestamp, wait: Span) -> Timestamp {
        let since = self.answered_at.get(node).map_or(since, |answered| since.max(*answered));
        let slow = self.slowest.nanos.saturating_mul(TIMES_SLOWEST).min(LONGEST_WAIT.nanos);
        since.plus(Span { nanos: wait.nanos.max(slow) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(node: usize, group: usize) -> DeviceKey {
        DeviceKey { node: format!("n{node}").into(), group: format!("g{group}").into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: seconds(second).nanos }
    }

    #[test]
    fn a_node_and_the_cluster_have_a_limit_and_who_waits_comes_in_order() {
        let mut limits = ReservationLimits::default();
        let admitted = (0..6).filter(|group| limits.admit(&device(0, *group), at(0))).count();
        assert_eq!(admitted, MOST_PER_NODE);
        assert!(limits.admit(&device(1, 0), at(0)), "another node");
        assert_eq!(limits.end(&device(0, 0)), [device(0, 4)]);
        assert!(limits.admit(&device(0, 4), at(0)) && !limits.admit(&device(0, 5), at(0)));
        for node in 2..500 {
            limits.admit(&device(node, 0), at(0));
        }
        assert_eq!(limits.number, MOST_IN_ALL);
        let next = limits.end(&device(1, 0));
        assert_eq!(next.len(), 1, "{next:?}");
    }

    #[test]
    fn devices_of_all_nodes_come_in_the_order_of_their_requests() {
        let mut limits = ReservationLimits::default();
        let (nodes, groups) = (MOST_IN_ALL / MOST_PER_NODE, MOST_PER_NODE);
        for group in 0..groups {
            (0..nodes).for_each(|node| assert!(limits.admit(&device(node, group), at(0))));
        }
        let late: Vec<DeviceKey> = [(70, 0), (3, 9), (71, 0), (5, 9), (3, 8), (70, 1)]
            .map(|(node, group)| device(node, group))
            .to_vec();
        for key in late.iter().chain(&late) {
            assert!(!limits.admit(key, at(1)), "the cluster has as many as it may");
        }
        let mut reserved = Vec::new();
        for node in [9, 8, 3, 7, 3] {
            let group = reserved.iter().filter(|key: &&DeviceKey| key.node == device(node, 0).node);
            let passed = limits.end(&device(node, group.count()));
            for key in &passed {
                assert!(limits.admit(key, at(2)));
            }
            reserved.extend(passed);
        }
        assert_eq!(reserved, [&late[0], &late[2], &late[1], &late[5], &late[4]].map(Clone::clone));
        assert!(limits.end(&late[4]).is_empty(), "node n5 has as many as it may");
        assert_eq!(limits.number, MOST_IN_ALL - 1);
    }

    #[test]
    fn a_device_that_is_not_needed_any_more_lets_the_next_pass() {
        let mut limits = ReservationLimits::default();
        for group in 0..6 {
            limits.admit(&device(0, group), at(0));
        }
        assert_eq!(limits.end(&device(0, 0)), [device(0, 4)]);
        assert_eq!(limits.end(&device(0, 4)), [device(0, 5)], "it was not counted again");
        assert!(limits.admit(&device(0, 5), at(0)));
        assert!(limits.end(&device(0, 1)).is_empty());
    }

    #[test]
    fn the_wait_counts_anew_with_every_answer_of_the_node() {
        let mut limits = ReservationLimits::default();
        assert_eq!(limits.deadline(&"n0".into(), at(0), seconds(40)), at(40));
        limits.count(&device(0, 0), at(25));
        limits.answered(&device(0, 0), at(30));
        assert_eq!(limits.deadline(&"n0".into(), at(0), seconds(40)), at(70));
        assert_eq!(limits.deadline(&"n1".into(), at(0), seconds(40)), at(40));
    }

    #[test]
    fn a_reservation_may_take_three_times_as_long_as_the_slowest_of_late() {
        let mut limits = ReservationLimits::default();
        limits.count(&device(0, 0), at(0));
        limits.answered(&device(0, 0), at(35));
        assert_eq!(limits.deadline(&"n1".into(), at(0), seconds(40)), at(105));
        for group in 1..20 {
            limits.count(&device(0, group), at(40));
            limits.answered(&device(0, group), at(42));
        }
        assert_eq!(limits.deadline(&"n1".into(), at(0), seconds(40)), at(40), "fast again");
        limits.count(&device(0, 0), at(0));
        limits.answered(&device(0, 0), at(5000));
        assert_eq!(limits.deadline(&"n1".into(), at(0), seconds(40)), at(600), "not for ever");
    }
}
