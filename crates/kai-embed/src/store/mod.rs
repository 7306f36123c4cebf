//! Everything that exists, with one version that every write raises, and the latest writes.

mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

pub(crate) use log::Position;
pub use log::{Event, EventKind, Forgotten, Log};

use crate::object::{self, Key};

/// What is stored together: the objects of one resource, in whatever version they are served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// API group; empty for the core.
    pub group: Arc<str>,
    /// Name in paths, such as `pods`.
    pub plural: Arc<str>,
}

impl ResourceId {
    /// The resource of this group and name.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// Name and group, as messages have it: `pods`, `queues.scheduling.run.ai`.
    pub fn full_name(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

type Objects = BTreeMap<Key, Arc<Value>>;

/// All objects of the cluster, with one version counter for all writes.
#[derive(Clone, Debug, Default)]
pub struct Store {
    version: u64,
    objects: BTreeMap<ResourceId, Objects>,
    log: Log,
    /// Writes that the controllers have not processed yet. The log may drop them before that.
    unseen: Vec<Arc<Event>>,
    /// Resources that were written since the watches were woken.
    written: BTreeSet<ResourceId>,
}

impl Store {
    /// The version of the latest write.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The latest writes, for watches.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// An object by resource and key; none if it does not exist.
    pub fn get(&self, resource: &ResourceId, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(resource)?.get(key)
    }

    /// All objects of a resource, by namespace and name.
    pub fn all<'a>(
        &'a self,
        resource: &ResourceId,
    ) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        self.objects.get(resource).into_iter().flat_map(BTreeMap::values)
    }

    /// Objects of a resource in a namespace, by name.
    pub fn of_namespace<'a>(
        &'a self,
        resource: &ResourceId,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        let objects = self.objects.get(resource).into_iter();
        let range = objects.flat_map(move |all| all.range(Key::new(namespace, "")..));
        range.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
    }

    /// Every resource with at least one stored object.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceId> {
        self.objects.iter().filter(|(_, objects)| !objects.is_empty()).map(|(id, _)| id)
    }

    /// The objects of a resource as they were at a version.
    pub fn at(&self, resource: &ResourceId, version: u64) -> Result<Objects, Forgotten> {
        let mut objects = self.objects.get(resource).cloned().unwrap_or_default();
        for event in self.log.since(resource, version)?.rev() {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), Arc::clone(previous)),
                None => objects.remove(&event.key),
            };
        }
        Ok(objects)
    }

    /// Writes an object, new or not, and gives it the next version.
    pub fn put(&mut self, resource: &ResourceId, mut object: Value) -> Arc<Value> {
        self.version += 1;
        let version = Value::from(self.version.to_string());
        object::set(&mut object, &["metadata", "resourceVersion"], version);
        let key = Key::of(&object);
        let object = Arc::new(object);
        let objects = self.objects.entry(resource.clone()).or_default();
        let previous = objects.insert(key.clone(), Arc::clone(&object));
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        let event = Event {
            version: self.version,
            resource: resource.clone(),
            key,
            kind,
            object: Arc::clone(&object),
            previous,
        };
        self.record(event);
        object
    }

    fn record(&mut self, event: Event) {
        if !self.written.contains(&event.resource) {
            self.written.insert(event.resource.clone());
        }
        let event = Arc::new(event);
        self.unseen.push(Arc::clone(&event));
        self.log.push(event);
    }

    /// The writes since the last call, oldest first.
    pub(crate) fn take_unseen(&mut self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.unseen)
    }

    /// The resources that were written since the last call.
    pub(crate) fn take_written(&mut self) -> BTreeSet<ResourceId> {
        std::mem::take(&mut self.written)
    }

    /// A watch reads a resource from this version on. The log keeps later writes until the watch has read them or is dropped.
    pub(crate) fn read_from(&mut self, resource: &ResourceId, version: u64) -> Position {
        self.log.read_from(resource, version)
    }

    /// Removes an object; the removal has a version too.
    pub fn remove(&mut self, resource: &ResourceId, key: &Key) -> Option<Arc<Value>> {
        let previous = self.objects.get_mut(resource)?.remove(key)?;
        self.version += 1;
        let mut object = Value::clone(&previous);
        let version = Value::from(self.version.to_string());
        object::set(&mut object, &["metadata", "resourceVersion"], version);
        let object = Arc::new(object);
        self.record(Event {
            version: self.version,
            resource: resource.clone(),
            key: key.clone(),
            kind: EventKind::Deleted,
            object: Arc::clone(&object),
            previous: Some(previous),
        });
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str, value: u64) -> Value {
        json!({"metadata": {"name": name, "namespace": "a"}, "value": value})
    }

    #[test]
    fn the_past_can_be_read_while_it_is_remembered() {
        let pods = ResourceId::new("", "pods");
        let mut store = Store::default();
        store.put(&pods, named("x", 1));
        store.put(&pods, named("y", 1));
        let then = store.version();
        store.put(&pods, named("x", 2));
        store.remove(&pods, &Key::new("a", "y"));
        store.put(&pods, named("z", 1));
        let past = store.at(&pods, then).expect("remembered");
        let values: Vec<_> =
            past.iter().map(|(key, object)| (&*key.name, &object["value"])).collect();
        assert_eq!(values, [("x", &json!(1)), ("y", &json!(1))]);
        assert_eq!(store.of_namespace(&pods, "a").count(), 2);
        assert_eq!(store.of_namespace(&pods, "b").count(), 0);
        for _ in 0..Log::CAPACITY {
            store.put(&pods, named("x", 3));
        }
        assert_eq!(store.at(&pods, then), Err(Forgotten));
    }

    #[test]
    fn writes_are_kept_until_every_watch_has_read_them() {
        let (pods, nodes) = (ResourceId::new("", "pods"), ResourceId::new("", "nodes"));
        let mut store = Store::default();
        let slow = store.read_from(&pods, 0);
        let unread = Log::CAPACITY + 10;
        for _ in 0..unread {
            store.put(&pods, named("x", 1));
            store.put(&nodes, named("n", 1));
        }
        let since = |store: &Store, of: &ResourceId| Some(store.log().since(of, 0).ok()?.count());
        assert_eq!(since(&store, &pods), Some(unread));
        assert_eq!(since(&store, &nodes), None, "no watch reads nodes");
        slow.advance(store.version());
        store.put(&pods, named("x", 2));
        assert_eq!(since(&store, &pods), None);
    }
}
