//! Nominations: a preemptor's pods prefer the nodes that a plan nominated them to, until they have a node or until no plan has
//! renewed the nomination for a while.

use std::collections::BTreeMap;

use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

/// How long a nomination lasts that no plan renews.
const NOMINATION_LASTS: Span = seconds(60);

#[derive(Clone, Debug)]
struct Nomination {
    node: Text,
    renewed: Timestamp,
}

/// The node that each pod was nominated to.
#[derive(Clone, Debug, Default)]
pub(super) struct Nominations {
    nominations: BTreeMap<ObjectName, Nomination>,
}

impl Nominations {
    /// A plan nominated the pod to a node. False where it did before: most plans only renew nominations.
    pub(super) fn nominate(&mut self, pod: &ObjectName, node: &Text, now: Timestamp) -> bool {
        let nomination = Nomination { node: node.clone(), renewed: now };
        let before = self.nominations.insert(pod.clone(), nomination);
        before.is_none_or(|before| before.node != *node)
    }

    /// The node that the pod prefers.
    pub(super) fn node_of(&self, pod: &ObjectName) -> Option<&Text> {
        self.nominations.get(pod).map(|nomination| &nomination.node)
    }

    /// The pod has a node, or is gone.
    pub(super) fn remove(&mut self, pod: &ObjectName) {
        self.nominations.remove(pod);
    }

    /// Ends nominations that were not renewed for long, and returns their pods. Called after a plan, never before: a nomination
    /// from before a long time without plans still counts.
    pub(super) fn expire(&mut self, now: Timestamp) -> Vec<ObjectName> {
        let is_over = |nomination: &Nomination| nomination.renewed.plus(NOMINATION_LASTS) <= now;
        self.nominations.extract_if(.., |_, one| is_over(one)).map(|(pod, _)| pod).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: second * 1_000_000_000 }
    }

    #[test]
    fn a_renewed_nomination_is_no_news_and_lasts_longer() {
        let (pod, node) = (ObjectName::new("a", "p"), Text::from("n1"));
        let mut nominations = Nominations::default();
        assert!(nominations.nominate(&pod, &node, at(0)));
        assert!(!nominations.nominate(&pod, &node, at(30)));
        assert!(nominations.expire(at(89)).is_empty());
        assert_eq!(nominations.node_of(&pod), Some(&node));
        assert_eq!(nominations.expire(at(90)), std::slice::from_ref(&pod));
        assert_eq!(nominations.node_of(&pod), None);
    }

    #[test]
    fn another_node_is_news() {
        let pod = ObjectName::new("a", "p");
        let mut nominations = Nominations::default();
        assert!(nominations.nominate(&pod, &"n1".into(), at(0)));
        assert!(nominations.nominate(&pod, &"n2".into(), at(1)));
        assert_eq!(nominations.node_of(&pod), Some(&"n2".into()));
        nominations.remove(&pod);
        assert!(nominations.expire(at(100)).is_empty());
    }
}
