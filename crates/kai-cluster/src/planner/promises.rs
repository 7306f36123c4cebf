//! Nodes that plans promised: a pod prefers its node until it runs, or until no plan has renewed the promise for a while.

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::Planner;

/// How long a promise lasts that no plan renews.
const PROMISE_LASTS: Span = seconds(60);

impl Planner {
    /// The pod prefers the node it was promised.
    pub(super) fn promise(&mut self, pod: &ObjectName, node: &Text, now: Timestamp) {
        self.promises.insert(pod.clone(), now);
        self.set_promised(pod, Some(node.clone()));
    }

    /// Forgets promises that were not renewed for long. That happens after a plan, never before: one that was made before
    /// nothing happened for a long time counts.
    pub(super) fn lapse_promises(&mut self, now: Timestamp) {
        let lapsed = self.promises.iter().filter(|(_, made)| made.plus(PROMISE_LASTS) <= now);
        let lapsed: Vec<ObjectName> = lapsed.map(|(pod, _)| pod.clone()).collect();
        for pod in lapsed {
            self.promises.remove(&pod);
            self.set_promised(&pod, None);
        }
    }

    fn set_promised(&mut self, pod: &ObjectName, node: Option<Text>) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        if entry.promised != node {
            entry.promised = node;
            let dirty = self.dirty;
            self.refresh_pod(pod);
            self.dirty = dirty; // only its preference changed: no plan need be made for that
        }
    }
}
