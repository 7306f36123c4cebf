//! The garbage collector: dependents are deleted with their owners.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::api::{DeleteOptions, FOREGROUND, ORPHAN};
use crate::cluster::Cluster;
use crate::object::{self, Key, at, field, finalizers, is_terminating, items, text, uid};
use crate::store::{Event, EventKind, ResourceId};

/// Which objects own which dependents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned {
    by_owner: BTreeMap<String, BTreeSet<(ResourceId, Key)>>,
}

impl Owned {
    fn of(&self, owner: &str) -> Vec<(ResourceId, Key)> {
        self.by_owner.get(owner).into_iter().flatten().cloned().collect()
    }

    /// The objects of a resource that the owner has, by namespace and name.
    pub(super) fn of_resource(
        &self,
        owner: &str,
        resource: &ResourceId,
    ) -> impl Iterator<Item = &Key> {
        let first = (resource.clone(), Key::default());
        let owned = self.by_owner.get(owner).into_iter();
        let range = owned.flat_map(move |owned| owned.range(first.clone()..));
        range.take_while(move |(kind, _)| kind == resource).map(|(_, key)| key)
    }
}

pub(super) fn notice(cluster: &mut Cluster, event: &Event) {
    if event.kind == EventKind::Modified && has_same_owners(event) {
        return;
    }
    let item = (event.resource.clone(), event.key.clone());
    let owners = |object: &Value| -> Vec<String> {
        items(at(object, &["metadata", "ownerReferences"]))
            .map(|one| text(field(one, "uid")).to_owned())
            .collect()
    };
    if let Some(previous) = &event.previous {
        for owner in owners(previous) {
            let owned = cluster.owned.by_owner.entry(owner.clone()).or_default();
            owned.remove(&item);
            if owned.is_empty() {
                cluster.owned.by_owner.remove(&owner);
            }
        }
    }
    if event.kind == EventKind::Deleted {
        for (resource, key) in cluster.owned.of(uid(&event.object)) {
            cluster.look_at(&resource, key);
        }
    } else {
        for owner in owners(&event.object) {
            cluster.owned.by_owner.entry(owner).or_default().insert(item.clone());
        }
    }
}

/// Whether a write left the owners of the object as they were.
fn has_same_owners(event: &Event) -> bool {
    let previous = event.previous.as_ref();
    previous.is_some_and(|previous| object::owners(&event.object).eq(object::owners(previous)))
}

pub(super) fn sync(cluster: &mut Cluster, resource: &ResourceId, key: &Key) {
    let Some(object) = cluster.store.get(resource, key).cloned() else { return };
    if is_terminating(&object) {
        let waiting = finalizers(&object);
        if waiting.contains(&ORPHAN) {
            orphan(cluster, resource, &object);
        } else if waiting.contains(&FOREGROUND) {
            delete_owned(cluster, resource, &object);
        }
        return;
    }
    let mut owners = object::owners(&object).peekable();
    if owners.peek().is_some() && !owners.any(|owner| is_there(cluster, key, owner)) {
        delete(cluster, resource, key, uid(&object));
    }
}

/// Whether an owner exists. One of a kind that is not served here may exist elsewhere.
fn is_there(cluster: &Cluster, owned: &Key, owner: &Value) -> bool {
    let wanted = |key: &str| text(field(owner, key));
    let kind = cluster.kinds.of_kind(wanted("apiVersion"), wanted("kind"));
    let Some(resource) = kind else { return true };
    let space = if resource.namespaced { owned.namespace.as_str() } else { "" };
    let found = cluster.store.get(&resource.id, &Key::new(space, wanted("name")));
    found.is_some_and(|found| uid(found) == wanted("uid"))
}

fn delete(cluster: &mut Cluster, resource: &ResourceId, key: &Key, uid: &str) {
    let Some(kind) = cluster.kinds.get(resource).cloned() else { return };
    let options = DeleteOptions { uid: uid.to_owned(), ..DeleteOptions::default() };
    // Whatever went in the meantime is gone.
    let _ = cluster.delete(&kind, key, &options);
}

fn let_go(cluster: &mut Cluster, resource: &ResourceId, object: &Value, finalizer: &str) {
    let mut new = object.clone();
    let rest: Vec<&str> = finalizers(object).into_iter().filter(|one| *one != finalizer).collect();
    let is_last = rest.is_empty();
    object::set(&mut new, &["metadata", "finalizers"], json!(rest));
    if is_last {
        object::remove(&mut new, &["metadata", "finalizers"]);
    }
    let key = Key::of(&new);
    cluster.store.put(resource, new);
    if is_last {
        cluster.store.remove(resource, &key);
    }
}

/// The dependents stay and lose their owner reference.
fn orphan(cluster: &mut Cluster, resource: &ResourceId, owner: &Value) {
    for (kind, key) in cluster.owned.of(uid(owner)) {
        let Some(owned) = cluster.store.get(&kind, &key).cloned() else { continue };
        let mut new = Value::clone(&owned);
        let rest: Vec<Value> = items(at(&owned, &["metadata", "ownerReferences"]))
            .filter(|one| text(field(one, "uid")) != uid(owner))
            .cloned()
            .collect();
        if rest.is_empty() {
            object::remove(&mut new, &["metadata", "ownerReferences"]);
        } else {
            object::set(&mut new, &["metadata", "ownerReferences"], json!(rest));
        }
        cluster.store.put(&kind, new);
    }
    let_go(cluster, resource, owner, ORPHAN);
}

/// The owner is deleted when all dependents that block its deletion are gone.
fn delete_owned(cluster: &mut Cluster, resource: &ResourceId, owner: &Value) {
    let owned = cluster.owned.of(uid(owner));
    let mut blocked = false;
    for (kind, key) in owned {
        let Some(object) = cluster.store.get(&kind, &key).cloned() else { continue };
        let blocks = items(at(&object, &["metadata", "ownerReferences"])).any(|one| {
            text(field(one, "uid")) == uid(owner) && *field(one, "blockOwnerDeletion") == true
        });
        if !is_terminating(&object) {
            delete(cluster, &kind, &key, uid(&object));
        }
        blocked |= blocks && cluster.store.get(&kind, &key).is_some();
    }
    if !blocked {
        let_go(cluster, resource, owner, FOREGROUND);
    }
}
