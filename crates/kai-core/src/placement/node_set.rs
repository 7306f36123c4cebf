//! A set of nodes that are tried.

use std::sync::Arc;

use crate::world::index::RankSet;

/// All nodes, or some of them by rank. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    ranks: Option<Arc<RankSet>>,
}

impl NodeSet {
    /// The set of all nodes, whatever their number.
    pub fn all() -> Self {
        Self { ranks: None }
    }

    /// The nodes at these ranks.
    pub fn of(ranks: RankSet) -> Self {
        Self { ranks: Some(Arc::new(ranks)) }
    }

    /// Whether it is all nodes.
    pub fn is_all(&self) -> bool {
        self.ranks.is_none()
    }

    /// Whether the node at `rank` is in.
    #[inline]
    pub fn contains(&self, rank: usize) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.contains(rank))
    }

    /// Ranks in ascending order, of `len` nodes in all.
    pub fn iter(&self, len: usize) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = match &self.ranks {
                None => (from < len).then_some(from),
                Some(ranks) => ranks.next(from),
            }?;
            from = found + 1;
            Some(found)
        })
    }
}
