//! Objects of the fake API and the watches of them.
//!
//! Objects are kept as JSON text, which is what watches send; only writes parse them.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde_json::{Value, json};

use super::routes::{Address, WatchStart};

/// Initial events are sent in pieces of at least so many bytes.
const PIECE: usize = 64 << 10;

/// Why a write or read failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NotFound,
    AlreadyExists,
    /// A precondition (UID or resource version) does not hold, or the pod is bound already.
    Conflict,
}

/// Everything that exists.
#[derive(Default)]
pub(crate) struct Store {
    /// The latest resource version.
    version: u64,
    lists: BTreeMap<String, Objects>,
}

/// All objects of a kind.
#[derive(Default)]
struct Objects {
    /// By namespace and name.
    objects: BTreeMap<(String, String), Bytes>,
    watches: Vec<UnboundedSender<Bytes>>,
    /// Resource version of the latest event.
    changed: u64,
}

impl Objects {
    fn send(&mut self, event: &Bytes) {
        self.watches.retain(|watch| watch.unbounded_send(event.clone()).is_ok());
    }
}

fn key(address: &Address) -> (String, String) {
    (address.namespace.clone(), address.name.clone())
}

fn add_event(text: &mut BytesMut, kind: &str, object: &[u8]) {
    text.extend_from_slice(b"{\"type\":\"");
    text.extend_from_slice(kind.as_bytes());
    text.extend_from_slice(b"\",\"object\":");
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
}

fn event(kind: &str, object: &[u8]) -> Bytes {
    let mut text = BytesMut::with_capacity(object.len() + 40);
    add_event(&mut text, kind, object);
    text.freeze()
}

impl Store {
    fn list_mut(&mut self, list: &str) -> &mut Objects {
        self.lists.entry(list.to_owned()).or_default()
    }

    /// The object as JSON.
    pub(crate) fn read(&self, address: &Address) -> Result<Bytes, Failure> {
        let objects = self.lists.get(&address.list).ok_or(Failure::NotFound)?;
        objects.objects.get(&key(address)).cloned().ok_or(Failure::NotFound)
    }

    fn parse(&self, address: &Address) -> Result<Value, Failure> {
        // The store holds only what it wrote itself.
        Ok(serde_json::from_slice(&self.read(address)?).unwrap_or_default())
    }

    /// A list as JSON, of one namespace where the address names one.
    pub(crate) fn list(&self, address: &Address) -> Bytes {
        let head =
            format!("{{\"metadata\":{{\"resourceVersion\":\"{}\"}},\"items\":[", self.version);
        let mut text = BytesMut::from(head.as_bytes());
        let objects = self.lists.get(&address.list).into_iter().flat_map(|list| &list.objects);
        let is_listed =
            |namespace: &str| address.namespace.is_empty() || namespace == address.namespace;
        let listed = objects.filter(|((namespace, _), _)| is_listed(namespace));
        for (number, (_, object)) in listed.enumerate() {
            if number > 0 {
                text.extend_from_slice(b",");
            }
            text.extend_from_slice(object);
        }
        text.extend_from_slice(b"]}");
        text.freeze()
    }

    /// Lines of a watch. Events are not kept: a watch from an older version than the latest event ends with 410, so that
    /// the client lists again.
    pub(crate) fn watch(
        &mut self,
        address: &Address,
        start: WatchStart,
    ) -> UnboundedReceiver<Bytes> {
        let version = self.version;
        let list = self.list_mut(&address.list);
        let (sender, lines) = unbounded();
        match start {
            WatchStart::InitialEvents => list.send_initial_events(&sender, version),
            WatchStart::After(seen) if seen < list.changed || seen == 0 => {
                let gone = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
                let _ = sender.unbounded_send(event("ERROR", gone.to_string().as_bytes()));
                return lines;
            }
            WatchStart::After(_) => {}
        }
        list.watches.push(sender);
        lines
    }

    /// Writes an object and sends the event to the watches.
    fn write(&mut self, address: &Address, mut object: Value) -> Bytes {
        self.version += 1;
        let version = self.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let text = Bytes::from(object.to_string());
        let list = self.list_mut(&address.list);
        list.changed = version;
        let replaced = list.objects.insert(key(address), text.clone());
        list.send(&event(if replaced.is_some() { "MODIFIED" } else { "ADDED" }, &text));
        text
    }

    /// Creates an object; the address is that of its list.
    pub(crate) fn create(&mut self, list: &Address, mut object: Value) -> Result<Bytes, Failure> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let address = Address { name, ..list.clone() };
        if self.read(&address).is_ok() {
            return Err(Failure::AlreadyExists);
        }
        let metadata = &mut object["metadata"];
        if !address.namespace.is_empty() {
            metadata["namespace"] = json!(address.namespace);
        }
        metadata["uid"] = json!(format!("00000000-0000-4000-8000-{:012x}", self.version + 1));
        metadata["creationTimestamp"] = json!(now());
        Ok(self.write(&address, object))
    }

    /// Merges fields into an object (RFC 7386; lists are replaced).
    pub(crate) fn patch(&mut self, address: &Address, patch: &Value) -> Result<Bytes, Failure> {
        let mut object = self.parse(address)?;
        for precondition in ["uid", "resourceVersion"] {
            let required = &patch["metadata"][precondition];
            if required.is_string() && *required != object["metadata"][precondition] {
                return Err(Failure::Conflict);
            }
        }
        json_patch::merge(&mut object, patch);
        Ok(self.write(address, object))
    }

    /// Deletes a pod as its kubelet does, which first shows that it ends, and other objects at once.
    pub(crate) fn delete(&mut self, address: &Address, uid: &Value) -> Result<Bytes, Failure> {
        let object = self.parse(address)?;
        if uid.is_string() && *uid != object["metadata"]["uid"] {
            return Err(Failure::Conflict);
        }
        if address.list.ends_with("/pods") {
            self.patch(address, &json!({"metadata": {"deletionTimestamp": now()}}))?;
        }
        let mut object = self.parse(address)?;
        self.version += 1;
        let version = self.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let text = Bytes::from(object.to_string());
        let list = self.list_mut(&address.list);
        list.changed = version;
        list.objects.remove(&key(address));
        list.send(&event("DELETED", &text));
        Ok(text)
    }

    /// Binds a pod, which then runs: the watches show both, one after the other.
    pub(crate) fn bind(&mut self, address: &Address, binding: &Value) -> Result<(), Failure> {
        let mut pod = self.parse(address)?;
        let uid = &binding["metadata"]["uid"];
        let is_other = uid.is_string() && *uid != pod["metadata"]["uid"];
        if pod["spec"]["nodeName"].is_string() || is_other {
            return Err(Failure::Conflict);
        }
        let moment = now();
        let scheduled =
            json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": moment});
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        json_patch::merge(&mut pod["metadata"]["annotations"], &binding["metadata"]["annotations"]);
        pod["status"]["conditions"] = json!([scheduled]);
        self.write(address, pod.clone());
        pod["status"]["phase"] = json!("Running");
        pod["status"]["startTime"] = json!(moment);
        self.write(address, pod);
        Ok(())
    }
}

impl Objects {
    fn send_initial_events(&self, watch: &UnboundedSender<Bytes>, version: u64) {
        let mut piece = BytesMut::new();
        for object in self.objects.values() {
            add_event(&mut piece, "ADDED", object);
            if piece.len() >= PIECE {
                let _ = watch.unbounded_send(piece.split().freeze());
            }
        }
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
        let bookmark = json!({"kind": "any", "apiVersion": "any", "metadata": metadata});
        add_event(&mut piece, "BOOKMARK", bookmark.to_string().as_bytes());
        let _ = watch.unbounded_send(piece.freeze());
    }
}

/// The current time as the API writes it.
fn now() -> String {
    k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
