//! Pods that a kubelet has taken, found by UID, by pod and by node.

use std::collections::{BTreeMap, BTreeSet};

use super::kubelet::PodRun;
use crate::object::Key;

/// Pods that a kubelet has taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    by_uid: BTreeMap<String, PodRun>,
    uids_of_pod: BTreeMap<Key, BTreeSet<String>>,
    uids_of_node: BTreeMap<String, BTreeSet<String>>,
}

impl Runs {
    pub(super) fn get(&self, uid: &str) -> Option<&PodRun> {
        self.by_uid.get(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &str) -> Option<&mut PodRun> {
        self.by_uid.get_mut(uid)
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    /// The pods of a node, by UID.
    pub(super) fn of_node(&self, node: &str) -> impl Iterator<Item = &PodRun> {
        let uids = self.uids_of_node.get(node).into_iter().flatten();
        uids.filter_map(|uid| self.by_uid.get(uid))
    }

    pub(super) fn insert(&mut self, uid: &str, run: PodRun) {
        self.remove(uid);
        self.uids_of_pod.entry(run.pod.clone()).or_default().insert(uid.to_owned());
        self.uids_of_node.entry(run.node.clone()).or_default().insert(uid.to_owned());
        self.by_uid.insert(uid.to_owned(), run);
    }

    pub(super) fn remove(&mut self, uid: &str) {
        let Some(run) = self.by_uid.remove(uid) else { return };
        remove_from(&mut self.uids_of_pod, &run.pod, uid);
        remove_from(&mut self.uids_of_node, &run.node, uid);
    }

    /// Removes what ran under this name and is not the pod with this UID.
    pub(super) fn keep_only(&mut self, pod: &Key, uid: Option<&str>) {
        let known = self.uids_of_pod.get(pod).into_iter().flatten();
        let others: Vec<String> =
            known.filter(|known| Some(known.as_str()) != uid).cloned().collect();
        for other in others {
            self.remove(&other);
        }
    }
}

fn remove_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<String>>, key: &K, uid: &str) {
    if let Some(uids) = index.get_mut(key) {
        uids.remove(uid);
        if uids.is_empty() {
            index.remove(key);
        }
    }
}
