//! The latest writes, for watches and for lists of the past.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::ResourceId;
use crate::object::Key;

/// Kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It did not exist before.
    Added,
    /// The object existed before.
    Modified,
    /// It exists no more.
    Deleted,
}

/// One write to the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Resource version of the write.
    pub version: u64,
    /// Resource of the object.
    pub resource: ResourceId,
    /// Namespace and name of the object.
    pub key: Key,
    /// Whether the object was added, modified or deleted.
    pub kind: EventKind,
    /// The object after it; of a removal, as it was last, with the version of the removal.
    pub object: Arc<Value>,
    /// The object before it.
    pub previous: Option<Arc<Value>>,
}

/// The requested version is older than the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten;

/// The latest writes, from which watches resume.
#[derive(Clone, Debug, Default)]
pub struct Log {
    events: VecDeque<Arc<Event>>,
    /// The version of the latest write that is forgotten.
    forgotten: u64,
}

impl Log {
    /// How many writes are remembered.
    pub const CAPACITY: usize = 8192;

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.events.push_back(event);
        if self.events.len() > Self::CAPACITY
            && let Some(oldest) = self.events.pop_front()
        {
            self.forgotten = oldest.version;
        }
    }

    /// The writes after a version, oldest first.
    pub fn since(
        &self,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Forgotten> {
        if version < self.forgotten {
            return Err(Forgotten);
        }
        let start = self.events.partition_point(|event| event.version <= version);
        Ok(self.events.range(start..))
    }
}
