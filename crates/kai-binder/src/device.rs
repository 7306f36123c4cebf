//! A shared device: its reservation is made when a pod needs it, waited for, repaired when it is lost, and released
//! when no pod needs it any more.

use std::collections::BTreeMap;

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;
use kai_translate::view;

use super::facts::{Life, Vanished};
use super::gpu_group_conflict::MOST_TRIED;
use super::profile::Rung;
use super::reservation::{self, Blueprint, NEVER_CREATED, Reservation, Trouble};
use super::writes::Order;
use super::{Binder, DeviceKey, Item, PATIENCE, TRIES, delay};
use kai_client::failure::Failure;

/// After so many reservations that came to nothing, pods on the device cannot be helped any more.
const REPAIRS: u32 = 3;
/// How long a reservation that no pod needs may take to go once it is released.
const RELEASE_TIME: Span = seconds(1);
/// The eviction of a pod that stays is repeated after this time.
const EVICT_AGAIN: Span = seconds(30);

/// What is remembered of a shared device.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceMemory {
    /// A write is under way.
    busy: bool,
    /// A pod needed it since the start.
    needed: bool,
    /// Since when no pod has needed it.
    idle_since: Option<Timestamp>,
    /// Since when this reservation has been waited for.
    awaited: Option<(Text, Timestamp)>,
    /// Why the pods that wait for it cannot get it.
    failure: Option<String>,
    /// Reservations in a row that came to nothing.
    tries: u32,
    not_before: Option<Timestamp>,
    /// The reservation that is being made, and what it is given.
    making: Option<(ObjectName, Rung)>,
    /// Reservations that were discarded, and when.
    pub(super) discarded: BTreeMap<ObjectName, Timestamp>,
    /// Users that were evicted, and when.
    evicted: BTreeMap<ObjectName, Timestamp>,
}

/// Who needs a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// A request of ours, and perhaps others.
    Requested,
    /// Pods of ours that have a node.
    Used,
    /// Only pods that are not ours: it is left as it is.
    OfOthers,
}

/// What a request can expect of a device.
pub(super) enum DeviceState {
    /// The reservation keeps this device.
    Kept(Text),
    /// The reservation has not named its device yet, or is to be made.
    Awaited,
    /// There will be none, for this reason.
    Failed(String),
}

impl Binder {
    pub(super) fn device_state(&self, key: &DeviceKey) -> DeviceState {
        let failure = self.devices.get(key).and_then(|memory| memory.failure.clone());
        if let Some(reason) = failure {
            return DeviceState::Failed(reason);
        }
        let counts = self.facts.reservation(key);
        let own = counts.filter(|(pod, one)| self.facts.holder(key, pod, one).is_none());
        let device = own.and_then(|(_, one)| one.device.clone());
        device.map_or(DeviceState::Awaited, DeviceState::Kept)
    }

    pub(super) fn look_at_device(&mut self, key: &DeviceKey, now: Timestamp) {
        let mut memory = self.devices.remove(key).unwrap_or_default();
        if !memory.busy {
            let requests: Vec<ObjectName> = self.facts.requests_of_device(key).cloned().collect();
            if let Some(need) = self.need(key) {
                memory.needed = true;
                memory.idle_since = None;
                if need != Need::OfOthers {
                    self.keep(key, &mut memory, need == Need::Requested, now);
                }
                self.due.extend(requests.into_iter().map(Item::Request));
            } else {
                self.end_reservation(key);
                if !self.release(key, &mut memory, now) {
                    return; // nothing is left of it
                }
            }
        }
        self.devices.insert(key.clone(), memory);
    }

    /// Why the device is needed; none: no pod needs it.
    fn need(&self, key: &DeviceKey) -> Option<Need> {
        let holding = self.facts.requests_of_device(key).filter(|name| self.holds_devices(name));
        let waiting = holding.filter_map(|name| self.facts.subject(self.facts.request(name)?));
        let users = self.facts.users(key).filter_map(|name| self.facts.pod(name));
        let waiting: Vec<bool> = waiting.map(|pod| pod.is_ours).collect();
        let users: Vec<bool> = users.map(|pod| pod.is_ours).collect();
        if waiting.contains(&true) {
            Some(Need::Requested)
        } else if users.contains(&true) {
            Some(Need::Used)
        } else if !waiting.is_empty() || !users.is_empty() || self.is_held_by_orphan(key) {
            Some(Need::OfOthers)
        } else {
            None
        }
    }

    /// Removes reservations that vanished, unless a pod needs them: then creating them again shows what became of the last.
    pub(super) fn clear_vanished(&mut self) {
        for Vanished { device, pod, uid } in self.facts.take_vanished() {
            let needed = self.need(&device).is_some();
            let memory = self.devices.entry(device.clone()).or_default();
            if !memory.busy && !needed {
                memory.busy = true;
                self.orders.push(Order::Release { device, pod, uid });
            }
        }
    }

    /// Removes the reservations of a device that no pod needs. False where none is left.
    fn release(&mut self, key: &DeviceKey, memory: &mut DeviceMemory, now: Timestamp) -> bool {
        let Some((pod, one)) = self.facts.reservations(key).find(|(_, one)| !one.leaving) else {
            return false;
        };
        let since = *memory.idle_since.get_or_insert(now);
        let due = since.plus(PATIENCE);
        if !memory.needed && now < due {
            // Its user may not have been observed yet.
            self.look_again_at(due, Item::Device(key.clone()));
            return true;
        }
        if let Some(moment) = memory.not_before.filter(|moment| now < *moment) {
            self.look_again_at(moment, Item::Device(key.clone()));
            return true;
        }
        let order = Order::Release { device: key.clone(), pod: pod.clone(), uid: one.uid.clone() };
        self.orders.push(order);
        memory.busy = true;
        true
    }

    /// A pod needs the device: there is one good reservation of it, or there will be.
    fn keep(
        &mut self,
        key: &DeviceKey,
        memory: &mut DeviceMemory,
        requested: bool,
        now: Timestamp,
    ) {
        let Some((pod, one)) = self.facts.reservation(key) else {
            self.reserve(key, memory, requested, now);
            return;
        };
        let (pod, one) = (pod.clone(), one.clone());
        if self.facts.holder(key, &pod, &one).is_some() && self.tries_another(key, memory, now) {
            return;
        }
        self.discard(key, memory, now);
        if one.device.is_none() {
            self.limits.count(key, now);
        }
        if let Some(reason) = self.fault(key, &pod, &one, memory, now) {
            self.end_reservation(key);
            memory.failure = Some(format!("reservation pod {pod}: {reason}"));
            if !requested && self.facts.users(key).next().is_some() {
                // Requests would fail and let it go; users can only be given another.
                self.orders.push(Order::Release { device: key.clone(), pod, uid: one.uid });
                memory.busy = true;
            }
            return;
        }
        if let Some(device) = one.device.clone() {
            memory.failure = None;
            memory.tries = 0;
            let waiting = self.limits.answered(key, now);
            self.due.extend(waiting.into_iter().map(Item::Device));
            self.rung_worked(&key.node, &one);
            self.evict_users_of_other(key, memory, &device, now);
        }
    }

    /// Why the reservation is of no use.
    fn fault(
        &mut self,
        key: &DeviceKey,
        pod: &ObjectName,
        one: &Reservation,
        memory: &mut DeviceMemory,
        now: Timestamp,
    ) -> Option<String> {
        if let Some(Trouble { reason, blames_rung }) = &one.trouble {
            if *blames_rung {
                self.rung_failed(&key.node, one, reason);
            }
            return Some(reason.clone());
        }
        if let Some(device) = &one.device {
            let other = self.facts.holder(key, pod, one)?;
            return Some(format!("it got device {device}, which is that of gpu group <{other}>"));
        }
        let since = match &memory.awaited {
            Some((uid, since)) if *uid == one.uid => *since,
            _ => now,
        };
        memory.awaited = Some((one.uid.clone(), since));
        let wait = self.settings.reservation.wait;
        let late = self.limits.deadline(&key.node, since, wait);
        if now < late {
            self.look_again_at(late, Item::Device(key.clone()));
            return None;
        }
        let mut reason = format!("it did not report its device within {} s", wait.as_seconds());
        if one.is_being_created {
            reason = format!("{reason}; {NEVER_CREATED}");
        }
        self.rung_failed(&key.node, one, &reason);
        Some(reason)
    }

    /// All reservations of the group have devices of others: another one is made beside them, if there may be more.
    fn tries_another(
        &mut self,
        key: &DeviceKey,
        memory: &mut DeviceMemory,
        now: Timestamp,
    ) -> bool {
        let reservations = self.facts.reservations(key).count();
        if reservations >= MOST_TRIED || memory.failure.is_some() {
            return false;
        }
        self.make(key, memory, now);
        true
    }

    fn reserve(
        &mut self,
        key: &DeviceKey,
        memory: &mut DeviceMemory,
        requested: bool,
        now: Timestamp,
    ) {
        let leaves = self.facts.reservations(key).next().is_some();
        if leaves || (requested && memory.failure.is_some()) {
            return; // its name is still taken, or those who wait are about to give up
        }
        memory.failure = self.scaling_up(key).filter(|_| requested);
        if memory.failure.is_some() {
            return;
        }
        if !requested && memory.tries >= REPAIRS {
            self.evict_users(
                key,
                memory,
                "the GPU it shares was lost and cannot be had again",
                now,
            );
        }
        self.make(key, memory, now);
    }

    /// Why no device of the node may be reserved now: the scaling pods of those who wait for it may be about to get it.
    fn scaling_up(&self, key: &DeviceKey) -> Option<String> {
        let node = self.facts.node(&key.node)?;
        let requests = self.facts.requests_of_device(key).filter(|name| self.holds_devices(name));
        let requests = requests.filter_map(|name| self.facts.request(name));
        let pods = requests.map(|request| &request.pod);
        let pod = self.facts.scaling.that_may_come_to(&node.view, pods)?;
        Some(format!(
            "cluster is scaling up, could not create reservation pod: scaling pod {pod} has no node yet"
        ))
    }

    /// Makes a reservation, when its time has come.
    fn make(&mut self, key: &DeviceKey, memory: &mut DeviceMemory, now: Timestamp) {
        if let Some(moment) = memory.not_before.filter(|moment| now < *moment) {
            self.look_again_at(moment, Item::Device(key.clone()));
            return;
        }
        if let Some(moment) = self.leftovers_go_by(key, now) {
            self.look_again_at(moment, Item::Device(key.clone()));
            return;
        }
        let tolerations = self.tolerations(key);
        let settings = &self.settings.reservation;
        let taken: Vec<&ObjectName> = self.facts.reservations(key).map(|(pod, _)| pod).collect();
        let mut names = (0..).map(|number| reservation::name(key, number, settings));
        let Some(name) = names.find(|name| !taken.contains(&name)) else { return };
        let Some(rung) = self.next_rung(&key.node) else { return };
        if !self.limits.admit(key, now) {
            return; // looked at again when there are fewer
        }
        let Some(node) = self.facts.node(&key.node) else {
            self.end_reservation(key);
            return;
        };
        let allowed = self.allowed_rungs(node);
        let blueprint = Blueprint {
            name: &name,
            device: key,
            tolerations: &tolerations,
            is_fake: node.is_fake(),
            rung,
            platform: allowed.platform,
            class: allowed.class,
            observes_processes: false,
        };
        let plain = Box::new(reservation::manifest(blueprint, &self.settings.reservation));
        let observes = self.settings.observes_processes() && !blueprint.is_fake;
        let observing = observes.then(|| {
            let blueprint = Blueprint { observes_processes: true, ..blueprint };
            Box::new(reservation::manifest(blueprint, &self.settings.reservation))
        });
        self.facts.expect_reservation(name.clone());
        self.orders.push(Order::Reserve { device: key.clone(), plain, observing });
        memory.making = Some((name, rung));
        memory.busy = true;
    }

    /// When reservations of the node are gone that an earlier process made and no pod needs. A new one beside them could find
    /// no device left, and the kubelet would reject it.
    fn leftovers_go_by(&self, key: &DeviceKey, now: Timestamp) -> Option<Timestamp> {
        let others = self.facts.devices_of_node(&key.node).filter(|other| *other != key);
        let idle = others.filter_map(|other| self.devices.get(other));
        let idle = idle.filter(|memory| !memory.needed).filter_map(|memory| memory.idle_since);
        let gone = idle.map(|since| since.plus(PATIENCE).plus(RELEASE_TIME)).max();
        gone.filter(|moment| now < *moment)
    }

    /// The device's reservation is not waited for any more: others may be made.
    fn end_reservation(&mut self, key: &DeviceKey) {
        let waiting = self.limits.end(key);
        self.due.extend(waiting.into_iter().map(Item::Device));
    }

    /// Taints that the first who needs the device tolerates.
    fn tolerations(&self, key: &DeviceKey) -> Vec<view::Toleration> {
        let requests = self.facts.requests_of_device(key).filter(|name| self.holds_devices(name));
        let requests = requests.filter_map(|name| self.facts.request(name));
        let waiting = requests.filter_map(|request| self.facts.subject(request));
        let users = self.facts.users(key).filter_map(|name| self.facts.pod(name));
        let mut pods = waiting.chain(users);
        pods.next().map(|pod| pod.tolerations.clone()).unwrap_or_default()
    }

    /// Pods that were given another device than the one that is reserved now would use one that is not theirs.
    fn evict_users_of_other(
        &mut self,
        key: &DeviceKey,
        memory: &mut DeviceMemory,
        device: &Text,
        now: Timestamp,
    ) {
        let other = |name: &ObjectName| {
            let given = self.facts.pod(name).and_then(|pod| pod.given.get(&key.group));
            given.is_some_and(|given| given != device)
        };
        if self.facts.users(key).any(other) {
            let message = format!("the GPU it shares was lost; its group has {device} now");
            self.evict_users(key, memory, &message, now);
        }
    }

    fn evict_users(
        &mut self,
        key: &DeviceKey,
        memory: &mut DeviceMemory,
        message: &str,
        now: Timestamp,
    ) {
        let users: Vec<ObjectName> = self.facts.users(key).cloned().collect();
        memory.evicted.retain(|pod, _| users.contains(pod));
        for pod in users {
            let last = memory.evicted.get(&pod).map(|last| last.plus(EVICT_AGAIN));
            let Some(facts) = self.facts.pod(&pod) else { continue };
            if facts.life == Life::Alive && last.is_none_or(|again| again <= now) {
                let uid = facts.uid.clone();
                self.orders.push(Order::Evict {
                    pod: pod.clone(),
                    uid,
                    message: message.to_owned(),
                });
                memory.evicted.insert(pod, now);
            }
        }
        self.look_again_at(now.plus(EVICT_AGAIN), Item::Device(key.clone()));
    }

    pub(super) fn reserved(
        &mut self,
        key: &DeviceKey,
        ended: Result<Box<view::Pod>, Failure>,
        now: Timestamp,
    ) {
        let memory = self.devices.entry(key.clone()).or_default();
        memory.busy = false;
        let made = memory.making.take();
        if let Some((name, _)) = &made {
            self.facts.take_reservation(name, ended.as_deref().ok());
        }
        match ended {
            Ok(_) => {
                if self.facts.reservation(key).is_none() {
                    memory.tries += 1; // it is terminating, or it is none of ours
                    memory.not_before = Some(now.plus(delay(memory.tries)));
                }
            }
            Err(failure) => {
                memory.tries += 1;
                memory.not_before = Some(now.plus(delay(memory.tries)));
                let is_refused = !failure.may_pass();
                if is_refused || memory.tries >= TRIES {
                    memory.failure = Some(failure.to_string());
                }
                if let Some((_, rung)) = made.filter(|_| is_refused) {
                    self.rung_refused(&key.node, rung, &failure.to_string());
                }
                self.end_reservation(key);
            }
        }
        self.due.insert(Item::Device(key.clone()));
    }

    pub(super) fn released(
        &mut self,
        key: &DeviceKey,
        pod: &ObjectName,
        ended: Result<(), Failure>,
        now: Timestamp,
    ) {
        let memory = self.devices.entry(key.clone()).or_default();
        memory.busy = false;
        memory.tries += 1;
        memory.not_before = Some(now.plus(delay(memory.tries)));
        match ended {
            Ok(()) => {
                tracing::info!(node = %key.node, group = %key.group, "a device was released");
                self.facts.forget_reservation(pod);
            }
            Err(failure) => {
                tracing::warn!(node = %key.node, group = %key.group, reason = %failure, "a device was not released");
            }
        }
        self.due.insert(Item::Device(key.clone()));
    }
}
