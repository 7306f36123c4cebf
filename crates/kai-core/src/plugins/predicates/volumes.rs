//! Volumes: claims, volumes, classes and capacities, and what they say about nodes.

use crate::input::storage::{StorageKey, StorageObject};

/// Everything known of volumes.
#[derive(Clone, Debug, Default)]
pub struct Volumes {}

impl Volumes {
    /// Takes an object over.
    pub(crate) fn set(&mut self, _object: StorageObject) {}

    /// Forgets an object; false when it was not known.
    pub(crate) fn remove(&mut self, _key: &StorageKey) -> bool {
        false
    }
}
