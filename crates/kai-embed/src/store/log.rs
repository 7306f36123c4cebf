//! The latest writes, for watches and for lists of the past.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

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

/// The version up to which a watch has read. The log keeps later writes for it.
#[derive(Clone, Debug)]
pub(crate) struct Position(Arc<AtomicU64>);

impl Position {
    pub(crate) fn version(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, version: u64) {
        self.0.store(version, Ordering::Relaxed);
    }
}

/// The latest writes, from which watches resume. A watch reads the writes of its resource only.
#[derive(Clone, Debug, Default)]
pub struct Log {
    by_resource: BTreeMap<ResourceId, ResourceLog>,
}

#[derive(Clone, Debug, Default)]
struct ResourceLog {
    events: VecDeque<Arc<Event>>,
    /// The version of the latest write that is forgotten.
    forgotten: u64,
    readers: Vec<Weak<AtomicU64>>,
}

impl Log {
    /// Writes of a resource that are remembered although every watch has read them.
    pub const CAPACITY: usize = 1024;
    /// A watch that is further behind has to list again: its client reads nothing.
    const MOST: usize = 1 << 20;

    pub(super) fn push(&mut self, event: Arc<Event>) {
        let log = match self.by_resource.get_mut(&event.resource) {
            Some(log) => log,
            None => self.by_resource.entry(event.resource.clone()).or_default(),
        };
        log.events.push_back(event);
        if log.events.len() > Self::CAPACITY {
            log.forget_read();
        }
    }

    /// A watch reads the resource from this version on.
    pub(super) fn read_from(&mut self, resource: &ResourceId, version: u64) -> Position {
        let position = Arc::new(AtomicU64::new(version));
        let log = self.by_resource.entry(resource.clone()).or_default();
        log.readers.push(Arc::downgrade(&position));
        Position(position)
    }

    /// The writes of a resource after a version, oldest first.
    pub fn since(
        &self,
        resource: &ResourceId,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Forgotten> {
        let log = self.by_resource.get(resource);
        if log.is_some_and(|log| version < log.forgotten) {
            return Err(Forgotten);
        }
        Ok(log.into_iter().flat_map(move |log| {
            let start = log.events.partition_point(|event| event.version <= version);
            log.events.range(start..)
        }))
    }
}

impl ResourceLog {
    /// Drops the oldest writes that every watch has read, down to the capacity.
    fn forget_read(&mut self) {
        self.readers.retain(|reader| reader.strong_count() > 0);
        let positions = self.readers.iter().filter_map(Weak::upgrade);
        let read = positions.map(|position| position.load(Ordering::Relaxed)).min();
        while let Some(oldest) = self.events.front() {
            let is_read = read.is_none_or(|read| oldest.version <= read);
            if self.events.len() <= Log::CAPACITY || !(is_read || self.events.len() > Log::MOST) {
                return;
            }
            self.forgotten = oldest.version;
            self.events.pop_front();
        }
    }
}
