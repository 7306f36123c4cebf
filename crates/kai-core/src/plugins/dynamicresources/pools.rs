//! Pools of devices. Rule: a driver publishes a pool as slices of one generation and says how many there are. Slices
//! of older generations are out of date. While slices of the newest generation are missing, or two of them list the
//! same device, no device of the pool is given.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::input::{SliceSpec, Text};

/// What is known of every pool, by driver and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    by_name: BTreeMap<(Text, Text), Pool>,
}

#[derive(Clone, Debug, Default)]
struct Pool {
    slices: BTreeMap<Text, PublishedSlice>,
    /// Newest generation of its slices; older slices do not count.
    generation: i64,
    /// All slices of the newest generation are there, and no two list the same device.
    is_complete: bool,
}

#[derive(Clone, Debug)]
struct PublishedSlice {
    generation: i64,
    pool_slices: Option<i64>,
    devices: Vec<Text>,
}

fn key(slice: &SliceSpec) -> (Text, Text) {
    (slice.driver.clone(), slice.pool.clone())
}

impl Pools {
    pub(super) fn add(&mut self, slice: &SliceSpec) {
        let pool = self.by_name.entry(key(slice)).or_default();
        let published = PublishedSlice {
            generation: slice.generation,
            pool_slices: slice.pool_slices,
            devices: slice.devices.iter().map(|device| device.name.clone()).collect(),
        };
        pool.slices.insert(slice.name.clone(), published);
        pool.judge();
    }

    pub(super) fn remove(&mut self, slice: &SliceSpec) {
        let Some(pool) = self.by_name.get_mut(&key(slice)) else { return };
        pool.slices.remove(&slice.name);
        if pool.slices.is_empty() {
            self.by_name.remove(&key(slice));
        } else {
            pool.judge();
        }
    }

    /// Devices of the slice may be given.
    pub(super) fn is_usable(&self, slice: &SliceSpec) -> bool {
        let pool = self.by_name.get(&key(slice));
        pool.is_some_and(|pool| pool.is_complete && pool.generation == slice.generation)
    }

    /// The pool of the slice is being updated.
    pub(super) fn is_unfinished(&self, slice: &SliceSpec) -> bool {
        self.by_name.get(&key(slice)).is_some_and(|pool| !pool.is_complete)
    }

    /// Names of all slices of the pool that a slice belongs to.
    pub(super) fn slices_of(&self, slice: &SliceSpec) -> impl Iterator<Item = &Text> {
        self.slices_in(&slice.driver, &slice.pool)
    }

    /// Names of all slices of a pool.
    pub(super) fn slices_in(&self, driver: &Text, pool: &Text) -> impl Iterator<Item = &Text> {
        let pool = self.by_name.get(&(driver.clone(), pool.clone()));
        pool.into_iter().flat_map(|pool| pool.slices.keys())
    }
}

impl Pool {
    fn judge(&mut self) {
        let newest = self.slices.values().map(|slice| slice.generation).max().unwrap_or_default();
        let current = || self.slices.values().filter(|slice| slice.generation == newest);
        let count = current().count() as i64;
        let mut names: FxHashSet<&Text> = FxHashSet::default();
        let is_whole = current().all(|slice| slice.pool_slices.is_none_or(|all| all == count));
        let is_distinct = current().flat_map(|slice| &slice.devices).all(|name| names.insert(name));
        self.generation = newest;
        self.is_complete = is_whole && is_distinct;
    }
}
