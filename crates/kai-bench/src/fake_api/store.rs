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
    by_name: BTreeMap<(String, String), Bytes>,
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
        objects.by_name.get(&key(address)).cloned().ok_or(Failure::NotFound)
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
        let objects = self.lists.get(&address.list).into_iter().flat_map(|list| &list.by_name);
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
        let replaced = list.by_name.insert(key(address), text.clone());
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
        list.by_name.remove(&key(address));
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
        for object in self.by_name.values() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(list: &str, namespace: &str, name: &str) -> Address {
        Address { list: list.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn pod(name: &str) -> Address {
        at("/api/v1/pods", "bench", name)
    }

    fn with_pod(name: &str) -> Store {
        let mut store = Store::default();
        let object = json!({"metadata": {"name": name, "annotations": {}}, "spec": {}, "status": {"phase": "Pending"}});
        store.create(&pod(""), object).unwrap();
        store
    }

    /// Events that were sent so far: their types and objects.
    fn events(lines: &mut UnboundedReceiver<Bytes>) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        while let Ok(piece) = lines.try_recv() {
            let text = String::from_utf8(piece.to_vec()).unwrap();
            for line in text.lines() {
                let mut event: Value = serde_json::from_str(line).unwrap();
                let kind = event["type"].as_str().unwrap().to_owned();
                events.push((kind, event["object"].take()));
            }
        }
        events
    }

    fn kinds(lines: &mut UnboundedReceiver<Bytes>) -> Vec<String> {
        events(lines).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn streamed_list_ends_with_a_bookmark() {
        let mut store = with_pod("a");
        let mut lines = store.watch(&pod(""), WatchStart::InitialEvents);
        let events = events(&mut lines);
        assert_eq!(
            (events.len(), events[0].0.as_str(), events[1].0.as_str()),
            (2, "ADDED", "BOOKMARK")
        );
        assert_eq!(events[0].1["metadata"]["namespace"], "bench");
        let bookmark = &events[1].1["metadata"];
        assert_eq!(bookmark["annotations"]["k8s.io/initial-events-end"], "true");
        assert_eq!(bookmark["resourceVersion"], "1");
    }

    #[test]
    fn bound_pod_is_shown_on_its_node_and_then_running() {
        let mut store = with_pod("a");
        let mut lines = store.watch(&pod(""), WatchStart::After(1));
        let binding = json!({"metadata": {"annotations": {"x": "y"}}, "target": {"name": "node"}});
        store.bind(&pod("a"), &binding).unwrap();
        let events = events(&mut lines);
        let shown = |number: usize| {
            let (kind, pod) = &events[number];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (kind.clone(), text(&pod["spec"]["nodeName"]), text(&pod["status"]["phase"]))
        };
        let event = |phase: &str| ("MODIFIED".to_owned(), "node".to_owned(), phase.to_owned());
        assert_eq!((events.len(), shown(0), shown(1)), (2, event("Pending"), event("Running")));
        assert_eq!(events[1].1["metadata"]["annotations"]["x"], "y");
        assert_eq!(store.bind(&pod("a"), &binding), Err(Failure::Conflict));
        assert_eq!(store.bind(&pod("b"), &binding), Err(Failure::NotFound));
    }

    #[test]
    fn deleted_pod_ends_before_it_is_gone() {
        let mut store = with_pod("a");
        let mut lines = store.watch(&pod(""), WatchStart::After(1));
        assert_eq!(store.delete(&pod("a"), &json!("another")), Err(Failure::Conflict));
        store.delete(&pod("a"), &Value::Null).unwrap();
        let events = events(&mut lines);
        assert_eq!((events[0].0.as_str(), events[1].0.as_str()), ("MODIFIED", "DELETED"));
        assert!(events[0].1["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(store.read(&pod("a")), Err(Failure::NotFound));
    }

    #[test]
    fn watch_that_missed_an_event_has_to_list_again() {
        let mut store = with_pod("a");
        store.patch(&pod("a"), &json!({"metadata": {"labels": {"x": "y"}}})).unwrap();
        assert_eq!(kinds(&mut store.watch(&pod(""), WatchStart::After(1))), ["ERROR"]);
        assert!(kinds(&mut store.watch(&pod(""), WatchStart::After(2))).is_empty());
        // Events of other kinds do not count.
        let queues = at("/apis/scheduling.run.ai/v2/queues", "", "");
        assert!(kinds(&mut store.watch(&queues, WatchStart::After(1))).is_empty());
        assert_eq!(kinds(&mut store.watch(&queues, WatchStart::After(0))), ["ERROR"]);
    }

    #[test]
    fn patch_of_an_older_version_is_a_conflict() {
        let mut store = with_pod("a");
        let patch = |version: &str| json!({"metadata": {"resourceVersion": version, "labels": {"x": version}}});
        assert!(store.patch(&pod("a"), &patch("1")).is_ok());
        assert_eq!(store.patch(&pod("a"), &patch("1")), Err(Failure::Conflict));
        let text = store.read(&pod("a")).unwrap();
        let object: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(object["metadata"]["labels"]["x"], "1");
        assert_eq!(object["metadata"]["resourceVersion"], "2");
    }

    #[test]
    fn list_of_a_namespace_has_the_objects_of_that_namespace() {
        let mut store = with_pod("a");
        let listed = |store: &Store, namespace: &str| -> Value {
            let text = store.list(&at("/api/v1/pods", namespace, ""));
            serde_json::from_slice::<Value>(&text).unwrap()["items"].take()
        };
        store.create(&at("/api/v1/pods", "other", ""), json!({"metadata": {"name": "b"}})).unwrap();
        let again = store.create(&pod(""), json!({"metadata": {"name": "a"}}));
        assert_eq!(again, Err(Failure::AlreadyExists));
        assert_eq!(listed(&store, "").as_array().unwrap().len(), 2);
        assert_eq!(listed(&store, "other")[0]["metadata"]["name"], "b");
        assert_eq!(listed(&store, "none"), json!([]));
    }
}
