//! What is left of devices that depend on each other: counters that a GPU shares with its partitions, and capacities of
//! devices that several claims share. Rule: a device takes its counters while some claim has it or a share of it; the
//! shares of a device together are never more than its capacities.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::input::devices::{Allocation, DeviceRef, DeviceSpec, NamedAmounts};
use crate::input::{SliceSpec, Text};
use crate::plugins::dynamicresources::shares;
use crate::plugins::dynamicresources::store::Claims;

/// Driver, pool, counter set and counter.
type CounterKey = (Text, Text, Text, Text);

/// What is left of counters and capacities.
#[derive(Default)]
pub(super) struct Stock {
    counters: BTreeMap<CounterKey, i64>,
    capacity: FxHashMap<DeviceRef, NamedAmounts>,
    /// Shares that are in use, by device.
    users: FxHashMap<DeviceRef, u32>,
}

/// The device depends on others: it takes shared counters, or several claims may have it.
pub(super) fn is_dependent(device: &DeviceSpec) -> bool {
    device.is_shareable || !device.consumes.is_empty()
}

impl Stock {
    /// What is left of the pools of `slices` when the claims that `counts` says keep what they have.
    pub(super) fn of<'a>(
        claims: &'a Claims,
        slices: impl Iterator<Item = &'a SliceSpec>,
        counts: impl Fn(usize) -> bool,
    ) -> Self {
        let mut stock = Self::default();
        let mut pools: FxHashSet<(&Text, &Text)> = FxHashSet::default();
        for slice in slices {
            if !pools.insert((&slice.driver, &slice.pool)) {
                continue;
            }
            let all = claims.pools.slices_of(slice).filter_map(|name| claims.slices.get(name));
            let current: Vec<&SliceSpec> = all.filter(|one| claims.pools.is_usable(one)).collect();
            for one in &current {
                stock.add_counters(one);
            }
            for one in current {
                stock.take_allocated_devices(claims, one, &counts);
            }
        }
        stock
    }

    fn add_counters(&mut self, slice: &SliceSpec) {
        for set in &slice.counter_sets {
            for (name, amount) in &set.counters {
                *self.counters.entry(counter(slice, &set.name, name)).or_default() += amount;
            }
        }
    }

    fn take_allocated_devices(
        &mut self,
        claims: &Claims,
        slice: &SliceSpec,
        counts: &impl Fn(usize) -> bool,
    ) {
        for device in slice.devices.iter().filter(|device| is_dependent(device)) {
            let id = slice.device(device);
            for holder in claims.taken.get(&id).into_iter().flatten().filter(|at| counts(**at)) {
                let given = claims.entries[*holder].state.allocation.iter();
                let results = given.flat_map(|given| &given.results);
                let mut shares = results.filter(|result| result.device == id);
                let share = shares.find_map(|result| result.share.as_ref());
                let whole = || {
                    let all = device.capacity.iter().filter(|_| device.is_shareable);
                    all.map(|(name, capacity)| (name.clone(), capacity.value)).collect()
                };
                let consumed = share.map_or_else(whole, |share| share.consumed.clone());
                self.enter(slice, device, &consumed);
            }
        }
    }

    /// Whether there is enough left for a device, or for a share that consumes as much.
    pub(super) fn has(
        &self,
        slice: &SliceSpec,
        device: &DeviceSpec,
        consumed: &NamedAmounts,
    ) -> bool {
        let id = slice.device(device);
        let is_used = self.users.contains_key(&id);
        if !device.is_shareable && is_used {
            return false;
        }
        let left = self.capacity.get(&id);
        let has_capacity = consumed.iter().all(|(name, amount)| {
            let all = device.capacity.get(name).map_or(0, |capacity| capacity.value);
            *amount <= left.and_then(|left| left.get(name)).copied().unwrap_or(all)
        });
        let has_counter = |set: &Text, name: &Text, amount: &i64| {
            self.counters.get(&counter(slice, set, name)).is_some_and(|left| amount <= left)
        };
        let mut counters = device.consumes.iter().flat_map(|one| {
            one.counters.iter().map(move |(name, amount)| (&one.set, name, amount))
        });
        has_capacity
            && (is_used || counters.all(|(set, name, amount)| has_counter(set, name, amount)))
    }

    /// Takes a device, or a share of it.
    pub(super) fn enter(
        &mut self,
        slice: &SliceSpec,
        device: &DeviceSpec,
        consumed: &NamedAmounts,
    ) {
        let users = self.users.entry(slice.device(device)).or_default();
        *users += 1;
        let is_first = *users == 1;
        self.change(slice, device, consumed, is_first, -1);
    }

    /// Gives a device, or a share of it, back.
    pub(super) fn leave(
        &mut self,
        slice: &SliceSpec,
        device: &DeviceSpec,
        consumed: &NamedAmounts,
    ) {
        let id = slice.device(device);
        let left = self.users.get(&id).map_or(0, |users| users.saturating_sub(1));
        if left == 0 {
            self.users.remove(&id);
        } else {
            self.users.insert(id, left);
        }
        self.change(slice, device, consumed, left == 0, 1);
    }

    fn change(
        &mut self,
        slice: &SliceSpec,
        device: &DeviceSpec,
        consumed: &NamedAmounts,
        with_counters: bool,
        sign: i64,
    ) {
        if !consumed.is_empty() {
            let left = self.capacity.entry(slice.device(device)).or_insert_with(|| {
                let all = device.capacity.iter();
                all.map(|(name, capacity)| (name.clone(), capacity.value)).collect()
            });
            for (name, amount) in consumed {
                *left.entry(name.clone()).or_default() += sign * amount;
            }
        }
        if with_counters {
            for one in &device.consumes {
                for (name, amount) in &one.counters {
                    let left = self.counters.entry(counter(slice, &one.set, name)).or_default();
                    *left += sign * amount;
                }
            }
        }
    }
}

fn counter(slice: &SliceSpec, set: &Text, name: &Text) -> CounterKey {
    (slice.driver.clone(), slice.pool.clone(), set.clone(), name.clone())
}

impl Claims {
    /// How many of these devices can be given at once: each device that several claims may share as often as its
    /// policies allow; of devices that share counters the small ones first.
    pub(super) fn at_once(&self, devices: &[(&SliceSpec, &DeviceSpec)]) -> i64 {
        let (dependent, free): (Vec<_>, Vec<_>) =
            devices.iter().copied().partition(|(_, device)| !device.consumes.is_empty());
        let mut count: i64 = free.iter().map(|(_, device)| shares::most_shares(device)).sum();
        if dependent.is_empty() {
            return count;
        }
        let size = |device: &DeviceSpec| -> i64 {
            let counters = device.consumes.iter().flat_map(|one| one.counters.values());
            counters.fold(0, |sum, amount| sum.saturating_add(*amount))
        };
        let mut by_size = dependent;
        by_size.sort_by_key(|(_, device)| (size(device), device.name.clone()));
        let mut stock = Stock::of(self, by_size.iter().map(|(slice, _)| *slice), |_| false);
        let nothing = NamedAmounts::new();
        for (slice, device) in by_size {
            if stock.has(slice, device, &nothing) {
                stock.enter(slice, device, &nothing);
                count += shares::most_shares(device);
            }
        }
        count
    }

    /// Whether an allocation that was given back in this cycle can be given again.
    pub(super) fn is_free(&self, allocation: &Allocation) -> bool {
        let is_taken = |device: &DeviceRef| self.taken.contains_key(device);
        let mut dependent = Vec::new();
        for result in &allocation.results {
            match self.dependent_device(&result.device) {
                None if is_taken(&result.device) => return false,
                None => {}
                Some(found) => dependent.push((found, result)),
            }
        }
        let slices = dependent.iter().map(|((slice, _), _)| *slice);
        let mut stock = Stock::of(self, slices, |_| true);
        let nothing = NamedAmounts::new();
        dependent.iter().all(|((slice, device), result)| {
            let consumed = result.share.as_ref().map_or(&nothing, |share| &share.consumed);
            let has = stock.has(slice, device, consumed);
            stock.enter(slice, device, consumed);
            has
        })
    }

    /// A device that depends on others, with its slice.
    fn dependent_device(&self, id: &DeviceRef) -> Option<(&SliceSpec, &DeviceSpec)> {
        let names = self.pools.slices_in(&id.driver, &id.pool);
        let slices = names.filter_map(|name| self.slices.get(name));
        let mut slices = slices.filter(|slice| self.pools.is_usable(slice));
        slices.find_map(|slice| {
            let device = slice.devices.iter().find(|device| device.name == id.device)?;
            is_dependent(device).then_some((slice, device))
        })
    }
}
