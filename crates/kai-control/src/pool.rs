//! Values that many objects have, each kept once: labels, constraints and requests of pods that were created from one template.

use std::hash::Hash;
use std::sync::Arc;

use kai_core::keyed_hash::KeyedSet;

/// Values that are not used any more stay until there are as many entries as this, or twice those in use.
const FEWEST: usize = 256;

/// Shared values of one type.
#[derive(Clone, Debug)]
pub(crate) struct Pool<T: ?Sized> {
    values: KeyedSet<Arc<T>>,
    purge_at: usize,
}

impl<T: ?Sized + Hash + Eq> Default for Pool<T> {
    fn default() -> Self {
        Self { values: KeyedSet::default(), purge_at: FEWEST }
    }
}

impl<T: ?Sized + Hash + Eq> Pool<T> {
    /// The copy that others have of this value.
    pub(crate) fn get(&self, value: &T) -> Option<Arc<T>> {
        self.values.get(value).cloned()
    }

    /// The same value, in the copy that others have.
    pub(crate) fn share(&mut self, value: &Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.purge_at {
            self.values.retain(|known| Arc::strong_count(known) > 1);
            self.purge_at = FEWEST.max(2 * self.values.len());
        }
        self.values.insert(Arc::clone(value));
        Arc::clone(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_become_one() {
        let mut pool = Pool::<str>::default();
        let first = pool.share(&"a".into());
        let second = pool.share(&"a".into());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &pool.share(&"b".into())));
    }

    #[test]
    fn values_that_no_object_has_any_more_are_dropped() {
        let mut pool = Pool::<str>::default();
        let kept: Vec<Arc<str>> =
            (0..10).map(|n| pool.share(&format!("kept-{n}").into())).collect();
        for number in 0..100 * FEWEST {
            pool.share(&format!("gone-{number}").into());
        }
        assert!(pool.values.len() <= 2 * FEWEST, "{}", pool.values.len());
        assert!(kept.iter().all(|one| Arc::ptr_eq(one, &pool.share(&(**one).into()))));
    }
}
