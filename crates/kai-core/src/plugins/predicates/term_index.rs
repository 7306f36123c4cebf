//! Which nodes hold pods whose terms speak of other pods. A new pod must ask only those, not the whole cluster.
//!
//! Rule: a pod counts on every node that lists it, as filters see it: also while it is releasing and while it is
//! nominated.

use std::collections::BTreeMap;

use crate::ids::NodeId;
use crate::input::pod::PodConstraints;

/// Nodes with such pods, and how many each has.
#[derive(Clone, Debug, Default)]
pub struct TermIndex {
    /// Pods with required anti-affinity.
    guards: BTreeMap<NodeId, u32>,
    /// Pods with required affinity or preferred terms.
    drawn: BTreeMap<NodeId, u32>,
}

fn is_guard(pod: &PodConstraints) -> bool {
    !pod.pod_anti_affinity.is_empty()
}

fn is_drawn(pod: &PodConstraints) -> bool {
    !pod.preferred_pod_terms.is_empty() || !pod.pod_affinity.is_empty()
}

fn take(counts: &mut BTreeMap<NodeId, u32>, node: NodeId) {
    if let Some(count) = counts.get_mut(&node) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&node);
        }
    }
}

impl TermIndex {
    /// A pod is listed on `node`.
    pub(crate) fn arrive(&mut self, node: NodeId, pod: &PodConstraints) {
        if is_guard(pod) {
            *self.guards.entry(node).or_insert(0) += 1;
        }
        if is_drawn(pod) {
            *self.drawn.entry(node).or_insert(0) += 1;
        }
    }

    /// A pod is no longer listed on `node`.
    pub(crate) fn leave(&mut self, node: NodeId, pod: &PodConstraints) {
        if is_guard(pod) {
            take(&mut self.guards, node);
        }
        if is_drawn(pod) {
            take(&mut self.drawn, node);
        }
    }

    /// No pod is listed on `node`.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.guards.remove(&node);
        self.drawn.remove(&node);
    }

    /// Nodes with pods that have required anti-affinity, in no order that may reach a result.
    pub(crate) fn guarded(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.guards.keys().copied()
    }

    /// Nodes with pods that have required affinity or preferred terms, in no order that may reach a result.
    pub(crate) fn with_drawn(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.drawn.keys().copied()
    }

    /// No pod has required anti-affinity.
    pub(crate) fn has_no_guards(&self) -> bool {
        self.guards.is_empty()
    }

    /// No pod has required affinity or preferred terms.
    pub(crate) fn has_no_drawn(&self) -> bool {
        self.drawn.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::input::{Delta, ObjectKey, ObjectName};
    use crate::plugins::numa::ZonePlacement;
    use crate::plugins::predicates::testing::{Cluster, NAMESPACE, node, pod, term};
    use crate::status::Status;
    use crate::world::ledger::Place;
    use crate::world::node::Groups;

    fn counts(cluster: &Cluster) -> (usize, usize) {
        let index = &cluster.world.terms;
        (index.guarded().count(), index.with_drawn().count())
    }

    #[test]
    fn the_index_follows_pods_and_nodes() {
        let mut cluster = Cluster::new();
        cluster.node(node("a"));
        cluster.node(node("b"));
        cluster.pod(pod("pending").away_from(term("zone", "app", "x")));
        cluster.pod(pod("plain").on("a"));
        assert_eq!(counts(&cluster), (0, 0));
        cluster.pod(pod("guard").away_from(term("zone", "app", "x")).on("a"));
        cluster.pod(pod("second").away_from(term("zone", "app", "x")).on("a"));
        cluster.pod(pod("drawn").preferring(1, term("zone", "app", "x")).on("b"));
        assert_eq!(counts(&cluster), (1, 1));
        cluster.world.apply(Delta::Remove(ObjectKey::Pod(ObjectName::new(NAMESPACE, "guard"))));
        assert_eq!(counts(&cluster), (1, 1));
        cluster.world.apply(Delta::Remove(ObjectKey::Pod(ObjectName::new(NAMESPACE, "second"))));
        assert_eq!(counts(&cluster), (0, 1));
        cluster.world.apply(Delta::Remove(ObjectKey::Node("b".into())));
        assert_eq!(counts(&cluster), (0, 0));
        cluster.node(node("b").label("zone", "b"));
        assert_eq!(counts(&cluster), (0, 1));
    }

    #[test]
    fn nominations_of_a_cycle_count_until_it_ends() {
        let mut cluster = Cluster::new();
        cluster.node(node("a"));
        cluster.node(node("b"));
        let moving = cluster.pod(pod("guard").away_from(term("zone", "app", "x")).on("a"));
        let world = &mut cluster.world;
        let place = Place {
            node: world.node_named("b").unwrap(),
            groups: Groups::new(),
            zones: ZonePlacement::default(),
        };
        let before = world.checkpoint();
        world.evict(moving);
        world.put(moving, &place, Status::Pipelined);
        assert_eq!(world.terms.guarded().count(), 2, "where it leaves and where it goes");
        world.rollback(before);
        assert_eq!(world.terms.guarded().collect::<Vec<_>>(), [world.node_named("a").unwrap()]);
    }
}
