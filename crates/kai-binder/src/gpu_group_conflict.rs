//! Two groups of a node on one device. Where a device plugin advertises each device several times, the node hands out any
//! of its replicas, and a new reservation may get the device that another group has. Such a reservation is of no use. It is
//! kept while others are tried, so that the node cannot hand out the same replica again, and discarded when one of them
//! has a device of its own.

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::device::DeviceMemory;
use super::facts::Facts;
use super::reservation::Reservation;
use super::writes::Order;
use super::{Binder, DeviceKey, Item};

/// So many reservations of one group may hold devices of others before the group is given up.
pub(super) const MOST_TRIED: usize = 16;
/// A reservation that was discarded and stays is discarded again after this time.
const DISCARD_AGAIN: Span = seconds(10);

impl Facts {
    /// The reservation that counts: of those that stay the oldest whose device no other group has; else the oldest.
    pub(super) fn reservation(&self, key: &DeviceKey) -> Option<(&ObjectName, &Reservation)> {
        let staying = self.reservations(key).filter(|(_, one)| !one.leaving);
        staying.min_by_key(|(pod, one)| (self.holder(key, pod, one).is_some(), &one.created, *pod))
    }

    /// Another group of the node that has the device of this reservation and a better right to it. Pods that were given
    /// the device keep it: another scheduler may have given it to two groups.
    pub(super) fn holder(
        &self,
        key: &DeviceKey,
        pod: &ObjectName,
        one: &Reservation,
    ) -> Option<&Text> {
        let device = one.device.as_ref()?;
        let has_it = |user: &ObjectName| {
            let given = self.pod(user).and_then(|user| user.given.get(&key.group));
            given.is_none_or(|given| given == device)
        };
        if self.users(key).any(has_it) {
            return None;
        }
        let ours = self.right(key, pod, one);
        let others = self.devices_of_node(&key.node).filter(|other| *other != key);
        let mut holders = others.filter(|other| {
            let mut theirs = self.reservations(other).filter(|(_, one)| !one.leaving);
            theirs.any(|(pod, one)| {
                one.device.as_ref() == Some(device) && self.right(other, pod, one) < ours
            })
        });
        holders.next().map(|other| &other.group)
    }

    /// Smaller is better: a group that is used, then the one that was first.
    fn right<'a>(
        &self,
        key: &DeviceKey,
        pod: &'a ObjectName,
        one: &'a Reservation,
    ) -> (bool, &'a str, &'a ObjectName) {
        (self.users(key).next().is_none(), &one.created, pod)
    }
}

impl Binder {
    /// Reservations of the device that are of no use go: all that hold devices of others, where one has its own or where
    /// the group is given up.
    pub(super) fn discard(&mut self, key: &DeviceKey, memory: &mut DeviceMemory, now: Timestamp) {
        let counts = self.facts.reservation(key).map(|(pod, _)| pod);
        let staying = self.facts.reservations(key).filter(|(_, one)| !one.leaving);
        let others: Vec<(ObjectName, Text)> = staying
            .filter(|(pod, one)| Some(*pod) != counts && self.facts.holder(key, pod, one).is_some())
            .map(|(pod, one)| (pod.clone(), one.uid.clone()))
            .collect();
        memory.discarded.retain(|pod, _| others.iter().any(|(other, _)| other == pod));
        for (pod, uid) in others {
            let again = memory.discarded.get(&pod).map(|last| last.plus(DISCARD_AGAIN));
            if again.is_none_or(|again| again <= now) {
                tracing::info!(%pod, node = %key.node, group = %key.group, "a reservation of a device of another group is discarded");
                memory.discarded.insert(pod.clone(), now);
                self.orders.push(Order::Discard { pod, uid });
            }
        }
        if !memory.discarded.is_empty() {
            self.look_again_at(now.plus(DISCARD_AGAIN), Item::Device(key.clone()));
        }
    }
}
