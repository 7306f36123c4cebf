//! Devices that wait to be reserved, in the order in which they were requested. Thousands may wait on nodes that can take no more,
//! so that nothing here looks at all of them.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::input::Text;

use super::DeviceKey;

/// Devices that wait, by the number of their request.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingDevices {
    requested: u64,
    numbers: BTreeMap<DeviceKey, u64>,
    /// Groups that wait on each node.
    by_node: BTreeMap<Text, BTreeMap<u64, Text>>,
    /// The first device of each node that can take one.
    next: BTreeSet<(u64, Text)>,
}

impl WaitingDevices {
    /// Puts a device behind all others, unless it waits already. [`Self::set_open`] says whether its node can take one.
    pub(super) fn push(&mut self, key: &DeviceKey) {
        if self.numbers.contains_key(key) {
            return;
        }
        self.requested += 1;
        self.numbers.insert(key.clone(), self.requested);
        let groups = self.by_node.entry(key.node.clone()).or_default();
        groups.insert(self.requested, key.group.clone());
    }

    /// The device waits no longer.
    pub(super) fn remove(&mut self, key: &DeviceKey) {
        let Some(number) = self.numbers.remove(key) else { return };
        self.next.remove(&(number, key.node.clone()));
        if let Some(groups) = self.by_node.get_mut(&key.node) {
            groups.remove(&number);
            if groups.is_empty() {
                self.by_node.remove(&key.node);
            }
        }
    }

    /// Says whether the node can take a device now: after every change of the node or of what waits on it.
    pub(super) fn set_open(&mut self, node: &Text, is_open: bool) {
        let groups = self.by_node.get(node);
        let Some((first, _)) = groups.and_then(BTreeMap::first_key_value) else { return };
        let place = (*first, node.clone());
        if is_open {
            self.next.insert(place);
        } else {
            self.next.remove(&place);
        }
    }

    /// Takes the device that waited longest on a node that can take one.
    pub(super) fn pop(&mut self) -> Option<DeviceKey> {
        let (number, node) = self.next.first()?.clone();
        let group = self.by_node.get(&node)?.get(&number)?.clone();
        let key = DeviceKey { node, group };
        self.remove(&key);
        Some(key)
    }
}
