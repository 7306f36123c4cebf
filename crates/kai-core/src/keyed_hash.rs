//! Hashes of what tenants write. They depend on a secret of the process, so that no tenant can choose names that fill one bucket of
//! a table, or constraints that pass for those of another tenant's job. Ids of the model have `FxHashMap`.

use std::hash::BuildHasher;

use foldhash::{fast, quality};

/// A table by texts of tenants. Its order differs from run to run: nothing iterates over it without sorting.
#[expect(clippy::disallowed_types, reason = "the one definition")]
pub type KeyedMap<K, V> = std::collections::HashMap<K, V, fast::RandomState>;

/// A set of what tenants write.
#[expect(clippy::disallowed_types, reason = "the one definition")]
pub type KeyedSet<T> = std::collections::HashSet<T, fast::RandomState>;

/// Numbers that stand for whole values: two values share a number by chance only, which no tenant can influence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signing(quality::RandomState);

impl Signing {
    /// A hasher whose result is compared with results of the same `Signing` only.
    pub(crate) fn hasher(&self) -> impl std::hash::Hasher + use<> {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{Hash, Hasher};

    use super::Signing;

    #[test]
    fn a_number_is_known_to_its_process_alone() {
        let number = |signing: &Signing| {
            let mut hasher = signing.hasher();
            "zone-a".hash(&mut hasher);
            hasher.finish()
        };
        let (one, other) = (Signing::default(), Signing::default());
        assert_eq!(number(&one), number(&one.clone()));
        assert_ne!(number(&one), number(&other));
    }
}
