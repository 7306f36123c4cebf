//! Sets of things by what they have in common.

use std::collections::{BTreeMap, BTreeSet};

/// Sets of `V` by `K`; a set that nothing is in is forgotten.
#[derive(Debug)]
pub(super) struct Index<K, V> {
    sets: BTreeMap<K, BTreeSet<V>>,
}

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self { sets: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V: Ord + Clone> Index<K, V> {
    pub(super) fn add(&mut self, key: &K, value: &V) {
        self.sets.entry(key.clone()).or_default().insert(value.clone());
    }

    pub(super) fn remove(&mut self, key: &K, value: &V) {
        if let Some(set) = self.sets.get_mut(key) {
            set.remove(value);
            if set.is_empty() {
                self.sets.remove(key);
            }
        }
    }

    /// Removes a set and gives it.
    pub(super) fn take(&mut self, key: &K) -> BTreeSet<V> {
        self.sets.remove(key).unwrap_or_default()
    }

    /// Sets from this key on, in order.
    pub(super) fn starting_at(&self, key: K) -> impl Iterator<Item = (&K, &BTreeSet<V>)> {
        self.sets.range(key..)
    }

    pub(super) fn of(&self, key: &K) -> impl Iterator<Item = &V> + Clone {
        self.sets.get(key).into_iter().flatten()
    }
}
