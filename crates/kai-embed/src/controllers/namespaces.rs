//! Namespaces: each has a default account; the objects of a namespace that ends are deleted before it.

use serde_json::{Value, json};

use crate::api::{DeleteOptions, Writer};
use crate::cluster::Cluster;
use crate::kinds::{NAMESPACES, SERVICE_ACCOUNTS, id};
use crate::object::{self, Key, is_terminating};

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(namespace) = cluster.store.get(&id(NAMESPACES), key).cloned() else { return };
    if is_terminating(&namespace) {
        empty(cluster, key, &namespace);
        return;
    }
    let accounts = id(SERVICE_ACCOUNTS);
    if cluster.store.get(&accounts, &Key::new(key.name.as_str(), "default")).is_none() {
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": key.name},
        });
        if let Some(resource) = cluster.kinds.get(&accounts).cloned() {
            // The namespace is there, so the account can be made.
            let _ = cluster.create(&resource, account, &Writer::named("kube-controller-manager"));
        }
    }
}

fn empty(cluster: &mut Cluster, key: &Key, namespace: &Value) {
    let resources: Vec<_> = cluster.kinds.all().filter(|one| one.namespaced).cloned().collect();
    let mut left = false;
    for resource in resources {
        let inside: Vec<Key> = cluster
            .store
            .of_namespace(&resource.id, &key.name)
            .map(|object| Key::of(object))
            .collect();
        for item in inside {
            let going =
                cluster.store.get(&resource.id, &item).is_some_and(|one| is_terminating(one));
            if !going {
                // What is gone in the meantime is what is wanted.
                let _ = cluster.delete(&resource, &item, &DeleteOptions::default());
            }
            left |= cluster.store.get(&resource.id, &item).is_some();
        }
    }
    if !left {
        let mut done = namespace.clone();
        object::remove(&mut done, &["spec", "finalizers"]);
        cluster.store.put(&id(NAMESPACES), done);
        cluster.store.remove(&id(NAMESPACES), key);
    }
}
