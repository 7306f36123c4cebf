//! podaffinity: nodes near pods that the pod prefers to be near.
//!
//! Rule: a node's raw score is the sum of weights over all pods in the domains it belongs to: the weights of the
//! pod's preferred terms that speak of them, and the weights of their preferred terms that speak of the pod;
//! weights of anti-affinity are negative. A required affinity term of theirs weighs one, as in kube-scheduler;
//! KAI configures that weight to zero. The raw score counts a million, above everything but a nominated node.
//!
//! The domains are summed up once per pod; each node is then answered by looking its labels up.

use rustc_hash::FxHashMap;

use crate::config::PluginSpec;
use crate::ids::TaskId;
use crate::input::pod::PodTerm;
use crate::input::selectors::Labels;
use crate::input::{PodSpec, Text};
use crate::plugins::predicates::kubernetes::visible_pods;
use crate::plugins::predicates::pod_affinity::speaks_of;
use crate::plugins::{Policy, Score};
use crate::world::World;
use crate::world::node::Node;

/// What one point of raw score counts.
const WEIGHT: f64 = 1_000_000.0;
/// Raw score of a required affinity term of another pod that speaks of this one.
const REQUIRED_TERM: i64 = 1;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.scores.push(Score::PodAffinity);
}

/// Raw scores of domains for one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainScores {
    by_key: Vec<(Text, FxHashMap<Text, i64>)>,
}

/// No preference concerns `task`: every node scores zero.
pub(crate) fn is_silent(world: &World, task: TaskId) -> bool {
    let own = &world.task(task).spec.constraints.preferred_pod_terms;
    own.is_empty() && world.terms.has_no_drawn()
}

/// The scores of domains for `task`; none when no term of any pod matches, and every node scores zero. They do
/// not depend on the nodes that are tried. True as long as nothing in the world changes.
pub(crate) fn scores(world: &World, task: TaskId) -> Option<DomainScores> {
    let pod = &world.task(task).spec;
    let has_terms = !pod.constraints.preferred_pod_terms.is_empty();
    let required = if world.config.compatibility.is_kai() { 0 } else { REQUIRED_TERM };
    if is_silent(world, task) {
        return None;
    }
    let mut sums = DomainScores::default();
    for node in world.terms.with_drawn().map(|id| world.node(id)) {
        for other in visible_pods(world, task, node) {
            let other = &world.task(other).spec;
            sums.add_preferences(world, other, pod, node);
            for term in &other.constraints.pod_affinity {
                sums.add_term(world, (required, term), other, pod, node);
            }
        }
    }
    if has_terms {
        for (_, node) in world.nodes() {
            for other in visible_pods(world, task, node) {
                sums.add_preferences(world, pod, &world.task(other).spec, node);
            }
        }
    }
    (!sums.by_key.is_empty()).then_some(sums)
}

impl DomainScores {
    /// The score of `node`, weighted.
    pub(crate) fn of(&self, node: &Node) -> f64 {
        WEIGHT * self.raw(&node.spec.labels) as f64
    }

    fn raw(&self, labels: &Labels) -> i64 {
        let in_domain = |(key, sums): &(Text, FxHashMap<Text, i64>)| {
            labels.get(key).and_then(|value| sums.get(value)).copied().unwrap_or(0)
        };
        self.by_key.iter().map(in_domain).sum()
    }

    /// What the preferences of `owner` say of `other`, one of them being on `node`.
    fn add_preferences(&mut self, world: &World, owner: &PodSpec, other: &PodSpec, node: &Node) {
        for (weight, term) in &owner.constraints.preferred_pod_terms {
            self.add_term(world, (*weight, term), owner, other, node);
        }
    }

    fn add_term(
        &mut self,
        world: &World,
        (weight, term): (i64, &PodTerm),
        owner: &PodSpec,
        other: &PodSpec,
        node: &Node,
    ) {
        let key = &term.topology_key;
        let Some(value) = node.spec.labels.get(key) else { return };
        if weight == 0 || !speaks_of(world, term, &owner.name.namespace, other) {
            return;
        }
        let at = self.by_key.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
            self.by_key.push((key.clone(), FxHashMap::default()));
            self.by_key.len() - 1
        });
        *self.by_key[at].1.entry(value.clone()).or_insert(0) += weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatibility::Compatibility;
    use crate::plugins::predicates::testing::{Cluster, node, pod, term};

    /// Two nodes in zone a, one in zone b, one without labels.
    fn zones(compatibility: Compatibility) -> Cluster {
        let mut cluster = Cluster::with(compatibility);
        cluster.node(node("a1").label("zone", "a"));
        cluster.node(node("a2").label("zone", "a"));
        cluster.node(node("b1").label("zone", "b"));
        cluster.node(node("bare"));
        cluster
    }

    fn answers(cluster: &Cluster, task: TaskId) -> [f64; 4] {
        let world = &cluster.world;
        let sums = scores(world, task);
        ["a1", "a2", "b1", "bare"].map(|name| {
            let node = world.node(world.node_named(name).unwrap());
            sums.as_ref().map_or(0.0, |sums| sums.of(node))
        })
    }

    #[test]
    fn without_preferences_nothing_is_computed() {
        let mut cluster = zones(Compatibility::Right);
        cluster.pod(pod("other").label("app", "db").on("a1"));
        let task = cluster.pod(pod("p"));
        assert!(scores(&cluster.world, task).is_none());
    }

    #[test]
    fn preferences_that_no_pod_matches_score_nothing() {
        let mut cluster = zones(Compatibility::Right);
        cluster.pod(pod("other").label("app", "web").on("a1"));
        let task = cluster.pod(pod("p").preferring(10, term("zone", "app", "db")));
        assert!(scores(&cluster.world, task).is_none());
    }

    #[test]
    fn every_matching_pod_of_a_domain_adds_its_weight() {
        let mut cluster = zones(Compatibility::Right);
        cluster.pod(pod("one").label("app", "db").on("a1"));
        cluster.pod(pod("two").label("app", "db").on("a2"));
        cluster.pod(pod("three").label("app", "web").on("b1"));
        let drawn = pod("p")
            .preferring(10, term("zone", "app", "db"))
            .preferring(-3, term("zone", "app", "web"));
        let task = cluster.pod(drawn);
        assert_eq!(answers(&cluster, task), [2e7, 2e7, -3e6, 0.0]);
    }

    #[test]
    fn preferences_of_pods_already_there_count_too() {
        let mut cluster = zones(Compatibility::Right);
        cluster.pod(pod("fan").preferring(7, term("zone", "app", "star")).on("a1"));
        cluster.pod(pod("foe").preferring(-2, term("zone", "app", "star")).on("b1"));
        let star = cluster.pod(pod("p").label("app", "star"));
        assert_eq!(answers(&cluster, star), [7e6, 7e6, -2e6, 0.0]);
        let unmatched = cluster.pod(pod("q"));
        assert_eq!(answers(&cluster, unmatched), [0.0; 4]);
    }

    #[test]
    fn required_affinity_of_others_weighs_one_but_nothing_in_kai() {
        for (mode, expected) in [(Compatibility::Right, 1e6), (Compatibility::Kai, 0.0)] {
            let mut cluster = zones(mode);
            cluster.pod(pod("fan").near(term("zone", "app", "star")).on("a1"));
            let star = cluster.pod(pod("p").label("app", "star"));
            assert_eq!(answers(&cluster, star)[0], expected, "{mode:?}");
        }
    }
}
