//! Nominations: a preemptor's pods prefer the nodes that a plan nominated them to, until they run or until no plan has
//! renewed the nomination for a while.

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::Planner;

/// How long a nomination lasts that no plan renews.
const NOMINATION_LASTS: Span = seconds(60);

impl Planner {
    /// The pod prefers this node. False where it did before: most plans only renew nominations.
    pub(super) fn nominate(&mut self, pod: &ObjectName, node: &Text, now: Timestamp) -> bool {
        self.nominations.insert(pod.clone(), now);
        self.set_nominated_node(pod, Some(node.clone()))
    }

    /// Forgets nominations that were not renewed for long. Called after a plan, never before: a nomination from before a
    /// long time without plans still counts.
    pub(super) fn expire_nominations(&mut self, now: Timestamp) {
        let expired =
            self.nominations.iter().filter(|(_, made)| made.plus(NOMINATION_LASTS) <= now);
        let expired: Vec<ObjectName> = expired.map(|(pod, _)| pod.clone()).collect();
        for pod in expired {
            self.nominations.remove(&pod);
            self.set_nominated_node(&pod, None);
        }
    }

    fn set_nominated_node(&mut self, pod: &ObjectName, node: Option<Text>) -> bool {
        let Some(entry) = self.pods.get_mut(pod) else { return false };
        if entry.nominated == node {
            return false;
        }
        entry.nominated = node;
        let dirty = self.dirty;
        self.refresh_pod(pod);
        self.dirty = dirty; // only the pod's preference changed: no plan is due for that
        true
    }
}
